"""The batches that a report derives from producers and transactions are those of the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.report_html.charts import known_times, recent_batches
from tests.command import SAMPLES

COLUMNS = ("producer_id", "producer_epoch", "base_offset", "last_offset", "base_sequence", "last_sequence")


@pytest.mark.parametrize("sample", ["transactions-v2/broker-1/interleaved-0", "duplicates/broker-1/expired-0"])
def test_recent_batches_are_batches_of_the_log(sample: str) -> None:
    path = SAMPLES / sample
    batches = recent_batches(kforensics.producers(path, as_of=0)).to_pylist()
    log = kforensics.dump(path).batches.to_pylist()
    assert batches
    written = {tuple(row[name] for name in COLUMNS) for row in log}
    assert {tuple(row[name] for name in COLUMNS) for row in batches} <= written


def test_a_batch_whose_sequences_wrap_starts_below_zero() -> None:
    recent = [{"last_sequence": 1, "last_offset": 12, "offset_delta": 3, "timestamp": 5}]
    row = {"broker_id": 1, "log_dir": "d", "topic": "t", "partition": 0, "producer_id": 7, "producer_epoch": 0}
    (batch,) = recent_batches(pa.Table.from_pylist([{**row, "recent_batches": recent}])).to_pylist()
    assert (batch["base_sequence"], batch["last_sequence"], batch["base_offset"]) == ((1 << 31) - 2, 1, 9)


def test_known_times_are_those_of_the_log() -> None:
    path: Path = SAMPLES / "transactions-v2" / "broker-1" / "open-0"
    times = known_times(kforensics.transactions(path, as_of=1_795_266_000_000))
    written = dict(
        zip(
            *(kforensics.dump(path).batches[name].to_pylist() for name in ("last_offset", "max_timestamp")), strict=True
        )
    )
    known = dict(zip(*(times[name].to_pylist() for name in ("last_offset", "max_timestamp")), strict=True))
    assert len(known) > 3
    assert pc.all(pc.is_valid(times["topic"])).as_py()
    assert {offset: written[offset] for offset in known} == known
