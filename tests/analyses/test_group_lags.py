"""The lags of one group by partition: as the live brokers had them, and what explains negative ones."""

from __future__ import annotations

import re
from os import utime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.coordinators.consumer_groups.group_lags import BEYOND_STABLE, OLD_CHECKPOINT
from kforensics.forensics.coordinators.consumer_groups.group_rows import LAG_COLUMNS
from tests.analyses.test_group_agreement import audited, told
from tests.analyses.test_groups import AS_OF, TRUTHS, history
from tests.command import SAMPLES, run
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import commit_record, group_record
from tests.forensics.forge import forge


def lags_of(folder: Path, group: str, **options: Any) -> dict[str, dict[str, Any]]:
    """Return the lag of each partition of a group."""
    rows = kforensics.groups(folder, group=group, as_of=options.pop("as_of", AS_OF), **options).to_pylist()
    return {f"{row['committed_topic']}-{row['committed_partition']}": row for row in rows if row["event"] == "lag"}


@pytest.mark.parametrize("sample", TRUTHS)
def test_each_partition_is_as_the_live_broker_had_it(sample: str) -> None:
    """Committed offset, log start, last stable offset and high watermark; brokers were stopped in order after that."""
    truth = TRUTHS[sample]
    for name, group in truth["groups"].items():
        offsets = {place: offset["offset"] for place, offset in (group["offsets"] or {}).items() if offset}
        if not offsets:
            continue
        lags = lags_of(SAMPLES / sample, name)
        assert {place: row["last_committed"] for place, row in lags.items()} == offsets, name
        for place, row in lags.items():
            topic, _, number = place.rpartition("-")
            live = truth["topics"][topic][number]
            assert (row["log_start_offset"], row["log_end_offset"]) == (live["earliest"], live["latest"]), place
            assert row["last_stable_offset"] == live["latest_read_committed"], place
            assert row["high_watermark"] in {live["latest"], None}, place
            assert row["lag"] == row["high_watermark_lag"] == live["latest"] - offsets[place], place
            assert row["stable_lag"] == live["latest_read_committed"] - offsets[place], place


def test_the_audit_has_the_same_lags() -> None:
    audit = kforensics.audit(SAMPLES / "groups", as_of=AS_OF)
    rows = [row for row in audit.tables["committed_offsets"].to_pylist() if row["group"] == "simple"]
    assert len(rows) == 3
    lags = lags_of(SAMPLES / "groups", "simple")
    shown = {
        f"{row['committed_topic']}-{row['committed_partition']}": [row[name] for name in LAG_COLUMNS] for row in rows
    }
    assert shown == {place: [row[name] for name in LAG_COLUMNS] for place, row in lags.items()}


def committed(folder: Path, offset: int, *, topic_id: str | None = None, leader_epoch: int = -1) -> None:
    records = {0: [group_record("g", 1)], 1: [commit_record("g", "in-0", offset, topic_id, leader_epoch)]}
    log = f"plain @0-0 ts {NOW}; plain @1-1 ts {NOW}"
    forge(folder, log, topic="__consumer_offsets", records=records)


@pytest.mark.parametrize(
    ("high_watermark", "source", "lag", "why"),
    [
        (7, "checkpoint", 3, None),
        (3, "checkpoint", -1, OLD_CHECKPOINT),
        (None, "log end", 6, None),
    ],
)
def test_the_high_watermark_is_that_of_the_checkpoint(
    high_watermark: int | None, source: str, lag: int, why: str | None, tmp_path: Path
) -> None:
    committed(tmp_path, 4)
    forge(tmp_path, f"plain @0-9 ts {NOW}", topic="in", high_watermark=high_watermark or 10)
    if high_watermark is None:
        (tmp_path / "replication-offset-checkpoint").unlink()
    row = lags_of(tmp_path, "g")["in-0"]
    assert (row["high_watermark"], row["high_watermark_source"]) == (high_watermark, source)
    assert (row["lag"], row["high_watermark_lag"], row["why"]) == (6, lag, why)
    text = run("groups", "--quiet", "--as-of", AS_OF, "--group", "g", tmp_path).text
    assert ("so the log end is used" in text) is (high_watermark is None)


def test_an_offset_beyond_the_last_stable_offset(tmp_path: Path) -> None:
    committed(tmp_path, 8)
    forge(tmp_path, f"plain @0-4 ts {NOW}; D 1 0 0-4 @5-9 T ts {NOW}", topic="in")
    row = lags_of(tmp_path, "g")["in-0"]
    assert (row["last_stable_offset"], row["stable_lag"], row["lag"]) == (5, -3, 2)
    assert row["why"] == BEYOND_STABLE


@pytest.mark.parametrize(
    ("topic_id", "why"),
    [
        (None, "its log was truncated, the topic created again, or the offset set by a tool"),
        ("jQFbuQ7dTPSukhPUClADlw", "it has another topic id than the commit, the topic was deleted and created again"),
    ],
)
def test_an_offset_beyond_the_log_end_is_explained(topic_id: str | None, why: str, tmp_path: Path) -> None:
    """By the same clause in the lag, in the event and in the finding of an audit."""
    committed(tmp_path, 15, topic_id=topic_id)
    forge(tmp_path, f"plain @0-9 ts {NOW}", topic="in")
    row = lags_of(tmp_path, "g")["in-0"]
    assert (row["lag"], row["why"]) == (-5, f"the partition ends at 10: {why}")
    (event,) = (event for event in history(tmp_path, "g") if event["event"] == "out-of-range")
    assert (event["cause"], event["why"]) == ("beyond-log-end", row["why"])
    assert told(tmp_path, "g") == audited(tmp_path)["g"]
    (message,) = (
        finding["message"]
        for finding in kforensics.audit(tmp_path, as_of=AS_OF).findings.to_pylist()
        if finding["code"] == "eos-offset-beyond-log"
    )
    assert message == f"The offset of group 'g' for in-0 is 15, but {row['why']}."


def test_a_log_that_was_truncated_shows_it_in_its_leader_epochs(tmp_path: Path) -> None:
    """The consumer had read up to offset 15 of epoch 3, of which the log has offsets 0 to 4 only."""
    committed(tmp_path, 15, leader_epoch=3)
    forge(tmp_path, f"plain @0-4 ts {NOW}; plain @5-9 ts {NOW}", topic="in", leader_epochs={0: 3, 5: 4})
    expected = "the partition ends at 10: its next leader epoch begins at offset 5, its log was truncated"
    assert lags_of(tmp_path, "g")["in-0"]["why"] == expected


def test_a_partition_may_have_been_copied_before_the_commit(tmp_path: Path) -> None:
    """Its files ended before the commit, and the broker was running; so nothing is lost for sure."""
    committed(tmp_path, 15)
    forge(tmp_path, f"plain @0-9 ts {NOW}", topic="in", clean_shutdown=False)
    for file in (tmp_path / "in-0").iterdir():
        utime(file, (NOW / 1000, NOW / 1000))
    for name, row in lags_of(tmp_path, "g").items():
        assert (name, row["lag"]) == ("in-0", -5)
        assert row["why"] == "the partition ends at 10: likely its running broker was copied before the commit"
    assert told(tmp_path, "g") == audited(tmp_path)["g"]


def test_the_table_says_what_is_negative_once(tmp_path: Path) -> None:
    committed(tmp_path, 15)
    forge(tmp_path, f"plain @0-9 ts {NOW}", topic="in")
    text = run("groups", "--quiet", "--wide", "--as-of", AS_OF, "--group", "g", tmp_path).text
    assert "at the end: in-0 out of range at 15: beyond log end; the partition ends at 10" in text
    lines = text.splitlines()
    header = next(line for line in lines if "high watermark" in line)
    assert re.split(r"  +", header.strip()) == [
        *("partition", "committed", "log start", "LSO", "high watermark", "log end"),
        *("lag", "stable lag", "watermark lag"),
    ]
    (cells,) = (line.split() for line in lines if line.strip().startswith("in-0  "))
    assert cells == ["in-0", "15", "0", "10", "10", "10", "-5", "-5", "-5"]
    assert not [line for line in lines if line.startswith("  in-0 at 15")]


def test_a_partition_that_is_not_among_the_files(tmp_path: Path) -> None:
    committed(tmp_path, 4)
    row = lags_of(tmp_path, "g")["in-0"]
    assert {row[name] for name in LAG_COLUMNS} == {None}
    assert row["why"] == "the log of the partition is not among the files"
