"""Table rows from logs, compared with what a real consumer received."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from kforensics.parsers.files.source import BytesSource, LocalSource
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import Place, batch_row, damage_row, read_records, record_row
from kforensics.parsers.tables.schemas import TABLES
from lab.places import SAMPLES
from tests.parsers.builders import (
    CODECS,
    GZIP,
    HEADER,
    NOW,
    SNAPPY,
    batch,
    message,
    record,
    wrapped_set,
    wrapper,
)
from tests.parsers.ranges import ShrunkSource

SCENARIOS = sorted(path.parent.name for path in SAMPLES.glob("*/truth.json"))
# Their brokers were killed later than the consumer read, after more writes or cleaning.
WRITTEN_ON = {"crash-while-cleaning", "crash-while-swapping"}
# Their many records are all alike, and not in the truth.
NOT_READ = {"look-alikes", "transaction-costs"}
# The older segments of a tiered topic are in remote storage.
TIERED = {"remote-storage", "remote-retention"}
PLACE = Place(1, "logs", "topic", 0)


# Against a real consumer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in WRITTEN_ON | NOT_READ])
def test_records_are_those_a_real_consumer_received(scenario: str) -> None:
    """All data records of the leader's replica equal those of a read_uncommitted consumer of the live broker."""
    truth = json.loads((SAMPLES / scenario / "truth.json").read_text(encoding="utf-8"))
    compared = 0
    for topic, partitions in truth["topics"].items():
        for partition, facts in partitions.items():
            if "read_uncommitted" not in facts:
                continue
            records = list(_data_records(scenario, facts["leader"], f"{topic}-{partition}", facts["earliest"]))
            seen = facts["read_uncommitted"]
            if scenario in TIERED:
                seen = [row for row in seen if row["offset"] >= records[0]["offset"]]
            assert records == seen, f"{topic}-{partition}"
            compared += len(records)
    assert compared


def test_scenarios_with_later_writes_contain_no_other_records() -> None:
    """Records with the same offset are equal."""
    for scenario in sorted(WRITTEN_ON):
        truth = json.loads((SAMPLES / scenario / "truth.json").read_text(encoding="utf-8"))
        facts = truth["topics"]["cleaning"]["0"]
        seen = {row["offset"]: row for row in facts["read_uncommitted"]}
        records = {row["offset"]: row for row in _data_records(scenario, facts["leader"], "cleaning-0", 0)}
        common = seen.keys() & records.keys()
        # The number varies between runs of the lab, because the broker was still running.
        assert common
        assert {offset: records[offset] for offset in common} == {offset: seen[offset] for offset in common}


def _data_records(scenario: str, leader: int, folder: str, earliest: int) -> Iterator[dict[str, Any]]:
    for path in sorted((SAMPLES / scenario / f"broker-{leader}").rglob(f"{folder}/*.log")):
        with LocalSource(path) as source:
            for row in walk(source):
                if isinstance(row, Batch) and not row.is_control:
                    for record in read_records(source, row):
                        if isinstance(record, Record) and record.offset >= earliest:
                            yield _as_seen(row, record)


def _as_seen(row: Batch, record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": row.timestamp_type,
        "key": _hex(record.key),
        "value": _hex(record.value),
        "headers": [[key.decode(), _hex(value)] for key, value in record.headers],
    }


def _hex(data: bytes | memoryview | None) -> str | None:
    return None if data is None else bytes(data).hex()


# Rows ----------------------------------------------------------------------------------------------------------------


@cache
def opened(data: bytes) -> tuple[BytesSource, Batch]:
    """Return the source of a single batch, and the batch."""
    source = BytesSource(data, "a.log")
    (row,) = (row for row in walk(source) if isinstance(row, Batch))
    return source, row


def as_dict(table: str, row: tuple[Any, ...]) -> dict[str, Any]:
    """Return a row by column name."""
    return dict(zip(TABLES[table].names, row, strict=True))


def test_a_batch_is_a_row_of_batches() -> None:
    source, head = opened(batch(record(0), record(1), base_offset=7, producer_id=5, producer_epoch=2, base_sequence=9))
    row = as_dict("batches", batch_row(PLACE, source, head))
    assert (row["broker_id"], row["topic"], row["path"], row["position"]) == (1, "topic", "a.log", 0)
    assert (row["base_offset"], row["last_offset"], row["count"], row["last_sequence"]) == (7, 8, 2, 10)
    for column in ("size", "magic", "crc", "crc_valid", "attributes", "compression_type", "producer_id"):
        assert row[column] == getattr(head, column)
    assert (row["control_type"], row["coordinator_epoch"]) == (None, None)


def test_a_marker_has_its_type_and_epoch() -> None:
    marker = record(0, bytes.fromhex("00000001"), bytes.fromhex("00000000000c"))
    source, head = opened(batch(marker, attributes=0x30, producer_id=1, producer_epoch=0))
    row = as_dict("batches", batch_row(PLACE, source, head))
    assert (row["control_type"], row["coordinator_epoch"], row["is_control"]) == ("COMMIT", 12, True)
    (first,) = read_records(source, head)
    assert isinstance(first, Record)
    shown = as_dict("records", record_row(PLACE, "a.log", head, first))
    assert (shown["control_type"], shown["coordinator_epoch"]) == ("COMMIT", 12)


def test_a_record_is_a_row_of_records() -> None:
    source, head = opened(batch(record(3, None, b"v", [(b"h", None)], timestamp_delta=4), base_sequence=2))
    (first,) = read_records(source, head)
    assert isinstance(first, Record)
    row = as_dict("records", record_row(PLACE, "a.log", head, first))
    assert (row["offset"], row["timestamp"], row["sequence"]) == (3, NOW + 4, 5)
    assert (row["key"], row["value"], row["headers"]) == (None, b"v", ((b"h", None),))
    assert (row["key_size"], row["value_size"], row["control_type"]) == (-1, 1, None)


def test_damage_is_a_row_of_damage() -> None:
    row = as_dict("damage", damage_row(PLACE, "a.log", Damage(1, 9, "crc", "text", 9, 1)))
    assert list(row.values()) == [1, "logs", "topic", 0, "a.log", 1, 9, "crc", "text", 9, 1]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_is_decompressed_for_its_base_offset_and_count(magic: int) -> None:
    source, head = opened(wrapped_set(magic, GZIP, 40))
    row = as_dict("batches", batch_row(PLACE, source, head))
    assert (row["base_offset"], row["last_offset"], row["count"]) == (40, 42, 3)


def test_a_wrapper_that_cannot_be_decompressed_has_no_count() -> None:
    """Null is better than a wrong number."""
    source, head = opened(wrapper(codec=GZIP, value=b"no gzip at all", offset=9))
    row = as_dict("batches", batch_row(PLACE, source, head))
    assert (row["base_offset"], row["last_offset"], row["count"]) == (None, 9, None)
    nested = message(1, None, b"x", attributes=GZIP)
    source, head = opened(wrapper(message(0), nested, offset=1))
    row = as_dict("batches", batch_row(PLACE, source, head))
    assert (row["base_offset"], row["count"]) == (0, None)


def test_a_row_of_batches_respects_the_budget() -> None:
    source, head = opened(wrapper(*(message(n, value=bytes(1000)) for n in range(50)), offset=49))
    assert as_dict("batches", batch_row(PLACE, source, head))["count"] == 50
    assert as_dict("batches", batch_row(PLACE, source, head, 10_000))["count"] is None


def test_unreadable_records_are_damage_inside_the_batch() -> None:
    source, head = opened(batch(record(0), record(1, length=7)))
    first, damage = read_records(source, head)
    assert isinstance(first, Record)
    assert isinstance(damage, Damage)
    assert (damage.start, damage.end, damage.inside_batch) == (0, head.size, 0)
    assert (damage.reason, "but instead read" in damage.detail) == ("record-size", True)


# Bounded work --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [pytest.param(number, id=name) for name, number in CODECS.items()])
def test_no_more_of_a_batch_is_read_than_the_budget(codec: int) -> None:
    source, head = opened(batch(*(record(n, b"%d" % n, bytes(100)) for n in range(300)), codec=codec))
    *records, damage = read_records(source, head, 5000)
    # A raw snappy block is returned whole or not at all; the others return whole records of 108 to 110 bytes.
    assert len(records) == (0 if codec == SNAPPY else 45)
    assert isinstance(damage, Damage)
    assert damage.reason == "limit"


class MeasuredSource(BytesSource):
    """Records the largest read."""

    largest = 0

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range."""
        self.largest = max(self.largest, length)
        return super().read(position, length)


@pytest.mark.parametrize("data", [batch(record(value=bytes(99_999))), message(value=bytes(99_999))], ids=["v2", "v1"])
def test_a_batch_larger_than_the_budget_is_not_read_whole(data: bytes) -> None:
    (head,) = walk(BytesSource(data))
    source = MeasuredSource(data)
    assert isinstance(head, Batch)
    (damage,) = read_records(source, head, 5000)
    assert isinstance(damage, Damage)
    assert damage.reason == "limit"
    assert source.largest == HEADER.size + 5000 + 1


@pytest.mark.parametrize("data", [batch(record(), record(1)), message()], ids=["v2", "v1"])
def test_a_file_that_has_shrunk_is_damage(data: bytes) -> None:
    (head,) = walk(BytesSource(data))
    assert isinstance(head, Batch)
    for length in range(len(data)):
        (damage,) = read_records(ShrunkSource(data[:length], len(data)), head)
        assert isinstance(damage, Damage)
        assert (damage.reason, damage.inside_batch) == ("shrunk", 0)
