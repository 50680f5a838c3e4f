"""Producer sequences, compared with live brokers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.plots import MAX_MARKS, sequences
from tests.command import SAMPLES
from tests.forensics.forge import file_of, forge
from tests.plots.drawn import all_rows, layers

DESCRIBED = [
    (scenario, topic, partition)
    for scenario in ("records", "duplicates", "transactions-v2")
    for topic, partitions in json.loads((SAMPLES / scenario / "truth.json").read_text())["topics"].items()
    for partition, answer in partitions.items()
    if [producer for producer in answer["producers"] if producer["last_sequence"] >= 0]
]


@pytest.mark.parametrize(("scenario", "topic", "partition"), DESCRIBED)
def test_lines_end_at_the_last_sequence_of_the_broker(scenario: str, topic: str, partition: str) -> None:
    truth = json.loads((SAMPLES / scenario / "truth.json").read_text())["topics"][topic][partition]
    batches = kforensics.open(SAMPLES / scenario / "broker-1" / f"{topic}-{partition}").batches
    lines, points = layers(sequences(batches))
    assert lines == points
    ends = {row["producer id"]: row["last sequence"] for row in lines}
    expected = {
        producer["producer_id"]: producer["last_sequence"]
        for producer in truth["producers"]
        if producer["last_sequence"] >= 0
    }
    assert {producer_id: ends[producer_id] for producer_id in expected} == expected


def _steps(folder: Path) -> list[tuple[str, int, int]]:
    lines, _ = layers(sequences(kforensics.open(folder).batches))
    return [(row["step"], row["offset"], row["batches"]) for row in lines]


@pytest.mark.parametrize(
    ("batches", "steps"),
    [
        ("D 1 0 0-4 @0-4; D 1 0 5-9 @5-9", [("first available", 0, 2)]),
        ("D 1 0 0-4 @0-4; plain @5; D 1 0 5-9 @6-10", [("first available", 0, 2)]),
        ("D 1 0 0-4 @0-4; D 1 0 7-9 @5-7; D 1 0 10-10 @8-8", [("first available", 0, 1), ("gap", 5, 2)]),
        (
            "D 1 0 0-4 @0-4; D 1 0 5-9 @5-9; D 1 0 0-4 @10-14; D 1 0 10-14 @15-19",
            [("first available", 0, 2), ("repeat", 10, 1), ("in order", 15, 1)],
        ),
        ("D 1 0 0-4 @0-4; D 1 1 0-4 @5-9", [("first available", 0, 1), ("new epoch", 5, 1)]),
        ("D 1 0 0-4 @0-4; D 1 1 3-4 @5-6", [("first available", 0, 1), ("gap", 5, 1)]),
        (
            "D 1 0 2147483640-2147483647 @0-7; D 1 0 0-4 @8-12",
            [("first available", 0, 1), ("in order", 8, 1)],
        ),
        ("plain @0-4", []),
    ],
)
def test_steps_between_runs(batches: str, steps: list[tuple[str, int, int]], tmp_path: Path) -> None:
    assert _steps(forge(tmp_path, batches)) == steps


@pytest.mark.slow
def test_a_million_batches_are_few_marks_with_all_gaps() -> None:
    """Neighboring batches have different producers, so that each would be a line."""
    count, producers = 1_000_000, 10_000
    at = np.arange(count, dtype="i8")
    sequence = at // producers * 3
    sequence[sequence.size // 2 + 77] += 1
    table = pa.table(
        {
            "log_dir": pa.array(["/d"]).take(pa.array(np.zeros(count, int))),
            "topic": pa.array(["t"]).take(pa.array(np.zeros(count, int))),
            "partition": np.zeros(count, "i4"),
            "producer_id": at % producers,
            "producer_epoch": np.zeros(count, "i2"),
            "base_offset": at * 3,
            "last_offset": at * 3 + 2,
            "base_sequence": sequence,
            "last_sequence": sequence + 2,
        }
    )
    chart = sequences(table)
    assert all_rows(chart) <= MAX_MARKS
    rows = layers(chart)[0]
    assert [row["offset"] for row in rows if row["step"] in ("gap", "repeat")]
    assert {row["producer"] for row in rows} >= {"others"}
    assert len({row["producer"] for row in rows}) <= 10
    assert "are not shown" in chart.to_dict()["title"]["subtitle"][0]


def test_deleted_segments_are_not_shown(tmp_path: Path) -> None:
    """The cleaner keeps replaced segments as ``.deleted`` for a minute."""
    folder = forge(tmp_path, "D 1 0 0-4 @0-4; D 1 0 5-9 @5-9")
    log = file_of(folder)
    shutil.copy(log, log.with_name(f"{log.name}.deleted"))
    opened = kforensics.open(folder)
    assert len(opened.batches) == 4
    assert [(row["step"], row["batches"]) for row in layers(sequences(opened.batches))[0]] == [("first available", 2)]


def test_copies_of_a_partition_are_refused(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4")
    shutil.copytree(folder, folder.with_name("t-0.7df69f96b52443f5969ab7741695583b-future"))
    with pytest.raises(UsageError, match=r"several copies of a partition .*; open one of these folders"):
        sequences(kforensics.open(tmp_path).batches)
