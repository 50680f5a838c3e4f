"""Keys that real producers wrote: no findings above INFO except those that were provoked."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.analyses.keys import KeysRequest, evaluate_topic_keys
from kforensics.analyses.partitions import investigate
from kforensics.errors import InputError
from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.core.findings import Severity
from tests.forensics.forge import forge
from tests.forensics.keys.topics import truth
from tests.forensics.partition_states import SAMPLES


@pytest.mark.parametrize(
    "sample",
    [
        *("cluster-metadata-3.9", "compaction", "consume-transform-produce", "groups", "legacy-2.7", "records"),
        *("replication", "share-groups", "streams-group", "transactions-v2"),
    ],
)
def test_what_real_producers_wrote_raises_no_alarm(sample: str) -> None:
    """Records with explicit partitions, with and without keys, in transactions; topics that grew or were compacted."""
    messages: list[str] = []
    investigation = investigate([str(SAMPLES / sample)], None, messages.append, lambda _: None)
    errors: list[InputError] = []
    found = evaluate_topic_keys(investigation, KeysRequest(), errors.append)
    results = [result for result in found if isinstance(result, TopicKeyResult)]
    assert (messages, errors) == ([], [])
    assert sum(result.topic.counts.records for result in results) > 0
    assert [result.topic.name for result in results if result.worst is not None and result.worst > Severity.INFO] == []


def test_the_growth_sample_has_only_the_provoked_findings() -> None:
    investigation = investigate([str(SAMPLES / "partition-growth")], None, lambda _: None, lambda _: None)
    codes = {
        result.topic.name: {finding.code.name for finding in result.findings if finding.severity > Severity.INFO}
        for result in evaluate_topic_keys(investigation, KeysRequest(), lambda _: None)
        if isinstance(result, TopicKeyResult)
    }
    provoked = {"late-writer": {"key-in-two-partitions"}, "compacted": {"tombstone-wrong-partition"}}
    assert codes == {name: provoked.get(name, set()) for name in truth()["sent"]}


LINGERS = {"batches_10ms": 10, "batches_100ms": 100}


@pytest.mark.parametrize("sample", ["duplicates", "partition-growth", "transactions-v1", "records", "legacy-2.7"])
def test_waits_and_joined_batches_are_those_of_the_records(sample: str) -> None:
    """Counted in Python, from the records of each batch."""
    folder = SAMPLES / sample
    rows = kforensics.keys(folder, listed="producers").to_pylist()
    records = defaultdict[tuple[str, int], list[dict[str, Any]]](list)
    for record in kforensics.open(folder).records:
        records[record["path"], record["batch_position"]].append(record)
    batches = defaultdict[tuple[str, int, int], list[dict[str, Any]]](list)
    flushes = defaultdict[tuple[str, int], int](int)
    for batch in kforensics.open(folder).batches.to_pylist():
        place = batch["topic"], batch["partition"]
        flushes[place] += batch["is_control"]
        if batch["path"].endswith(".log") and not batch["is_control"]:
            batch["flush"] = flushes[place] if batch["is_transactional"] else 0
            batches[*place, batch["producer_id"]].append(batch)
    compared = 0
    for row in rows:
        written = batches[row["topic"], row["partition"], row["producer_id"]]
        written = [each for each in written if records[each["path"], each["position"]]]
        times = [[one["timestamp"] for one in records[each["path"], each["position"]]] for each in written]
        is_created = {each["timestamp_type"] for each in written} == {"CreateTime"}
        if not is_created or {None, -1}.intersection(chain(*times)):
            continue
        waits = [max(each) - min(each) for each in times]
        assert (row["mean_wait_ms"], row["most_wait_ms"]) == (pytest.approx(sum(waits) / len(waits)), max(waits))
        for column, linger_ms in LINGERS.items():
            keys = [(each["flush"], min(time) // linger_ms) for each, time in zip(written, times, strict=True)]
            assert row[column] == sum(1 for _ in groupby(keys)), (row["topic"], column)
        compared += 1
    assert compared >= 10


def test_batches_as_large_as_batch_size_are_not_joined(tmp_path: Path) -> None:
    """Twenty batches that were begun in one ms, and are as large as several of 16 KiB."""
    at = "ts 1700000000000"
    batches = (f"plain @{number * 500}-{number * 500 + 499} {at}" for number in range(20))
    forge(tmp_path / "o", "; ".join(batches), topic="t")
    (row,) = kforensics.keys(tmp_path / "o", listed="producers").to_pylist()
    assert row["bytes"] > 3 << 14
    fitting = -(-row["bytes"] // (1 << 14))
    assert (row["batches"], row["batches_10ms"], row["batches_100ms"]) == (20, fitting, fitting)


def test_append_times_do_not_show_a_wait() -> None:
    rows = kforensics.keys(SAMPLES / "duplicates", topic="*append-time*", listed="producers").to_pylist()
    assert {row["mean_wait_ms"] for row in rows} == {row["batches_100ms"] for row in rows} == {None}
