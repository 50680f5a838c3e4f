"""What transactions cost: as the client of a real broker measured it, and as forged logs have it to the millisecond."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kforensics
from kforensics.errors import UsageError
from tests.command import SAMPLES, run, sentence
from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge

SAMPLE = SAMPLES / "transaction-costs"
MEASURED: list[dict[str, int]] = json.loads((SAMPLE / "truth.json").read_bytes())["measured_us"]
STEPS = ("begin", "prepare", "markers", "complete", "end")


def _costs(paths: Any, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kforensics.transactions(paths, cost=True, **options).to_pylist()
    return rows


def _whole(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = (row for row in rows if row["grouped_by"] == "all")
    return row


def test_the_terms_are_those_that_the_client_measured() -> None:
    """The client measured by its own clock; what it waited for the network is not in the files."""
    partitions = sorted({each["partitions"] for each in MEASURED})
    ends = [np.median([each["visible"] for each in MEASURED if each["partitions"] == count]) for count in partitions]
    marker, commit = np.polyfit(partitions, ends, 1) / 1000
    init = np.median([each["first"] - each["second"] for each in MEASURED]) / 1000
    row = _whole(_costs(SAMPLE, topic="timed"))
    assert (len(MEASURED), partitions, row["transactions"]) == (120, [1, 2, 4, 8], 120)
    assert row["marker_ms"] == pytest.approx(marker, rel=0.02)
    assert row["commit_ms"] == pytest.approx(commit, rel=0.2)
    assert row["init_ms"] == pytest.approx(init, rel=0.2)


def test_markers_are_those_of_the_logs() -> None:
    logs = kforensics.open(sorted(SAMPLE.glob("broker-1/timed-*"))).batches.to_pylist()
    row = _whole(_costs(SAMPLE, topic="timed"))
    markers = [batch for batch in logs if batch["is_control"]]
    assert (row["markers"], row["marker_bytes"]) == (len(markers), sum(batch["size"] for batch in markers))
    data = [batch for batch in logs if not batch["is_control"]]
    assert (row["records"], row["bytes"]) == (sum(b["count"] for b in data), sum(b["size"] for b in data))


@pytest.mark.parametrize("sample", ["transactions-v0", "transactions-v2", "consume-transform-produce"])
def test_steps_are_those_of_the_transactions(sample: str) -> None:
    """The percentiles of the end, taken from the times of each transaction."""
    distributed = kforensics.audit(SAMPLES / sample).tables["distributed_transactions"].to_pylist()
    ended = [row for row in distributed if row["completed_timestamp"] and row["decided_timestamp"]]
    ended = [row for row in ended if row["partition_count"] and row["outcome"] != "superseded"]
    rows = _costs(SAMPLES / sample)
    for row in rows:
        group = [one for one in ended if row["grouped_by"] == "all" or one["partition_count"] == row["least"]]
        if row["grouped_by"] == "records":
            continue
        times = sorted(one["completed_timestamp"] - one["decided_timestamp"] for one in group)
        assert row["transactions"] == len(times)
        for percent in (50, 90, 99):
            assert row[f"end_p{percent}_ms"] == times[-(-len(times) * percent // 100) - 1]
    assert sum(row["transactions"] for row in rows if row["grouped_by"] == "partitions") == len(ended)


def _forged(folder: Path, *partitions: int, first_record: int = 2, apart: int = 4, broken: int | None = None) -> Path:
    """Forge a transaction with so many partitions each: begin 2, prepare 3, markers 4 apart, complete 5.

    Args:
        folder: where to.
        partitions: number of partitions of each transaction.
        first_record: time of the first record after the start.
        apart: time between two markers.
        broken: the only transaction whose first record has that time; those of the others are 2 after the start.
    """
    records, logs = [], dict[int, list[str]]()
    for index, count in enumerate(partitions):
        start, listed = 1000 * index, ",".join(f"p-{number}" for number in range(count))
        end = start + 100
        records += [
            f"a Ongoing 1 0 tv 1 {{{listed}}} start {start} t {start}",
            f"a PrepareCommit 1 0 tv 1 {{{listed}}} start {start} t {end}",
            f"a CompleteCommit 1 0 tv 1 {{}} start {start} t {end + 3 + apart * (count - 1) + 5}",
        ]
        for number in range(count):
            log = logs.setdefault(number, [])
            offset = 3 * len(log) // 2
            sent = start + number + (first_record if broken in (None, index) else 2)
            first = f"D 1 0 {len(log)}-{len(log) + 1} @{offset}-{offset + 1} T {at(sent)}"
            log += [first, f"M 1 0 C 0 @{offset + 2} {at(end + 3 + apart * number)}"]
    forge_coordinator(folder, "; ".join(records))
    for number, log in logs.items():
        forge(folder, "; ".join(log), topic="p", partition=number)
    return folder


def test_every_step_has_its_time(tmp_path: Path) -> None:
    rows = _costs(_forged(tmp_path / "o", 1, 3, 3, 1))
    whole = _whole(rows)
    assert {step: whole[f"{step}_p50_ms"] for step in STEPS} == {
        "begin": 2,
        "prepare": 3,
        "markers": 0,
        "complete": 5,
        "end": 8,
    }
    (three,) = (row for row in rows if row["grouped_by"] == "partitions" and row["least"] == 3)
    assert (three["markers_p50_ms"], three["end_p90_ms"], three["transactions"]) == (8, 16, 2)
    assert (whole["init_ms"], whole["commit_ms"], whole["marker_ms"]) == pytest.approx((2, 4, 4))
    assert whole["residual_ms"] == pytest.approx(0, abs=1e-9)
    assert three["fitted_end_ms"] == pytest.approx(16)


def test_throughput_and_share_of_the_end_are_those_of_a_typical_transaction(tmp_path: Path) -> None:
    """Two records a partition; from the start to the Complete record it takes 108 ms with one and 116 ms with three."""
    rows = _costs(_forged(tmp_path / "o", 1, 3, 3, 3))
    one, three = (row for row in rows if row["grouped_by"] == "partitions")
    assert (one["records_per_second"], one["end_share"]) == pytest.approx((2 / 0.108, 8 / 108))
    assert (three["records_per_second"], three["end_share"]) == pytest.approx((6 / 0.116, 16 / 116))
    # The median of four, of which three are equal.
    assert _whole(rows)["records_per_second"] == pytest.approx(6 / 0.116)
    by_size = [row for row in rows if row["grouped_by"] == "records"]
    assert [(row["least"], row["most"], row["records"]) for row in by_size] == [(1, 9, 20)]
    assert by_size[0]["records_per_second"] == pytest.approx(6 / 0.116)


def test_percentiles_are_times_that_a_transaction_took(tmp_path: Path) -> None:
    """Of ten transactions with 1 to 10 partitions: the fifth, the ninth and the slowest one."""
    whole = _whole(_costs(_forged(tmp_path / "o", *range(1, 11))))
    named = {step: [whole[f"{step}_p{percent}_ms"] for percent in (50, 90, 99)] for step in STEPS}
    assert named == {
        "begin": [2, 2, 2],
        "prepare": [3, 3, 3],
        "markers": [16, 32, 36],
        "complete": [5, 5, 5],
        "end": [24, 40, 44],
    }


DAY = 86_400_000


@pytest.mark.parametrize("first_record", [-3 * DAY, DAY], ids=["read-by-streams", "future"])
def test_times_of_what_a_client_had_read_are_not_those_of_the_beginning(tmp_path: Path, first_record: int) -> None:
    """Kafka Streams and MirrorMaker write records with the timestamps of what they read."""
    folder = _forged(tmp_path / "o", 1, 3, 3, 1, first_record=first_record)
    for row in _costs(folder):
        assert (row["begin_p50_ms"], row["init_ms"]) == (None, None)
        assert row["end_p50_ms"] > 0
    text = run("transactions", "--cost", folder).text
    assert "a transaction takes 4 ms plus 4 ms for each partition to end" in text
    assert "begin is not known" in text
    assert "about 29 ms of 32 ms less in which transactions end\n" in text


def test_one_impossible_time_shows_that_the_others_of_its_id_are_of_the_client_too(tmp_path: Path) -> None:
    folder = _forged(tmp_path / "o", 1, 3, 3, 1, first_record=-3 * DAY, broken=2)
    assert _whole(_costs(folder))["begin_p99_ms"] is None


def test_records_that_waited_in_the_producer_show_how_long_a_transaction_takes_to_begin(tmp_path: Path) -> None:
    """The first record is older than the start, and younger than the decision about the transaction before."""
    whole = _whole(_costs(_forged(tmp_path / "o", 1, 1, 1, first_record=-700)))
    assert (whole["begin_p50_ms"], whole["init_ms"]) == (700, 700)


def test_a_line_that_falls_is_none(tmp_path: Path) -> None:
    """Nothing ends sooner with more partitions; something else made the difference."""
    folder = _forged(tmp_path / "o", 1, 3, 3, 1, apart=-1)
    rows = _costs(folder)
    whole = _whole(rows)
    assert (whole["commit_ms"], whole["marker_ms"], whole["residual_ms"]) == (None, None, None)
    assert {row["fitted_end_ms"] for row in rows} == {None}
    text = run("transactions", "--cost", folder).text
    assert "a transaction takes 2 ms to begin and 6 ms to end" in text
    assert "no line can be fitted: the number of partitions is not what decides" in text


def test_one_number_of_partitions_fits_no_line(tmp_path: Path) -> None:
    folder = _forged(tmp_path / "o", 2, 2)
    whole = _whole(_costs(folder))
    assert (whole["marker_ms"], whole["commit_ms"], whole["init_ms"]) == (None, None, 2)
    assert "no line can be fitted" in run("transactions", "--cost", folder).text


def test_the_text_says_what_larger_transactions_save() -> None:
    ended = run("transactions", "--cost", "--topic", "timed", SAMPLE)
    assert ended.code == 0
    assert "450 markers: 44.1 % of the offsets" in ended.text
    assert "with 10 times the records in each: 405 markers and 31.6 KB less" in ended.text


def test_a_topic_selects_the_transactions_that_have_it() -> None:
    assert _whole(_costs(SAMPLE))["transactions"] == 140
    assert _whole(_costs(SAMPLE, topic="warm-up"))["transactions"] == 20
    assert _whole(_costs(SAMPLE, partition=7))["transactions"] == 35


@pytest.mark.parametrize(
    "options", [("--state", "open"), ("--producer-id", "1"), ("--min-duration", "1s"), ("--sort", "marker")]
)
def test_filters_of_the_list_are_refused(options: tuple[str, str]) -> None:
    ended = run("transactions", "--cost", *options, SAMPLE)
    assert ended.code == 2
    assert f"{options[0]} is for the list" in sentence(ended)


def test_costs_need_a_coordinator() -> None:
    with pytest.raises(UsageError, match="only coordinators know when a transaction began"):
        _costs(SAMPLE / "broker-1" / "timed-0", alone=True)


def test_no_ended_transaction_has_no_rows(tmp_path: Path) -> None:
    folder = tmp_path / "o"
    forge_coordinator(folder, "a Ongoing 1 0 {p-0} t 1")
    assert _costs(folder) == []
    assert "no transaction has ended" in run("transactions", "--cost", folder).text
