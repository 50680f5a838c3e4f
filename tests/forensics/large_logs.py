"""Log directories that are hard on memory: very many producers, group offsets, transactions, or equal records.

``python -m tests.forensics.large_logs KIND FOLDER COUNT`` writes one, to measure commands with it.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.parsers.format.array_types import Column, IntArray
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.layouts import PRODUCER_SNAPSHOT_HEADER
from kforensics.parsers.messages.group import OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE
from kforensics.parsers.state.producer_snapshot import CRC_START, ENTRY
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import key_of, value_of
from tests.forensics.forge import file_of, forge
from tests.parsers.builders import GZIP, batch_of, record
from tests.parsers.messages.encoder import encode, unsigned_varint

BATCH_RECORDS = 1000
# Stand for the times in a value.
_UPDATED, _STARTED = 0x7071727374757677, 0x6061626364656667


def write_producers(folder: Path, count: int, *topics: str) -> None:
    """Write partitions with snapshots of many producers, all of them or some.

    In ``extra-0`` the only batch of the log is of another producer; ``before-0`` begins at a snapshot, and has another
    one of the same producers at its end; ``grown-0`` is the same without the first one.
    """
    batch, known = "D 1 0 0-9 @1000-1009", many_producers(count, 900)
    if not topics or "extra" in topics:
        forge(folder, "D 1 0 0-9 @0-9", topic="extra", snapshots={10: many_producers(count, 10)})
    if not topics or "before" in topics:
        forge(folder, {1000: batch}, topic="before", snapshots={1000: known, 1010: known})
    if not topics or "grown" in topics:
        forge(folder, {1000: batch}, topic="grown", snapshots={1010: known})


def many_producers(count: int, end: int, *, repeated: int = 0) -> bytes:
    """Return a snapshot of producers that wrote before an offset, some of them with two entries."""
    entries = np.zeros(count, ENTRY.dtype)
    # A broker writes them in the order of a hash map.
    numbers = np.random.default_rng(1).permutation(count) % (count - repeated)
    entries["producer_id"], entries["last_offset"] = numbers + 1000, numbers % end
    entries["timestamp"], entries["coordinator_epoch"] = NOW, -1
    entries["current_txn_first_offset"] = -1
    data = entries.tobytes()
    header = bytes(PRODUCER_SNAPSHOT_HEADER.build({"version": 1, "crc": 0, "count": count}))
    crc = crc32c(data, crc32c(header[CRC_START:]))
    return bytes(PRODUCER_SNAPSHOT_HEADER.build({"version": 1, "crc": crc, "count": count})) + data


def write_group_offsets(folder: Path, count: int) -> None:
    """Write a ``__consumer_offsets`` of one partition with an offset of each of many groups."""
    name, version = b"group-0000000", OFFSET_COMMIT_VALUE.highest_version
    key = b"\0\1" + encode(OFFSET_COMMIT_KEY, 0, {"group": name.decode(), "topic": "orders", "partition": 3})
    fields = {"offset": 7, "leaderEpoch": 0, "metadata": "", "commitTimestamp": NOW, "topicId": "A" * 22}
    value = version.to_bytes(2, "big") + encode(OFFSET_COMMIT_VALUE, version, fields)
    log = file_of(forge(folder, f"plain @0-{count - 1} cnt 0", topic="__consumer_offsets"))
    with log.open("wb") as file:
        for first in range(0, count, BATCH_RECORDS):
            numbers = range(first, min(first + BATCH_RECORDS, count))
            keys = (key.replace(name, b"group-%07d" % number) for number in numbers)
            records = (record(delta, text, value) for delta, text in enumerate(keys))
            file.write(_batch(b"".join(records), first, len(numbers)))


def write_coordinator(folder: Path, count: int) -> None:
    """Write a ``__transaction_state`` of one partition with committed transactions of one id, which are 25 ms apart.

    Args:
        folder: the log directory.
        count: number of transactions, which is rounded down to whole batches.
    """
    payload, started, updated = _transactions_of_a_batch()
    begins = NOW + 25 * np.arange(BATCH_RECORDS).repeat(3)
    updates = begins + np.tile([0, 5, 10], BATCH_RECORDS)
    log = file_of(forge(folder, "plain @0-2 cnt 0", topic="__transaction_state"))
    with log.open("wb") as file:
        for first in range(0, count, BATCH_RECORDS):
            for positions, times in ((started, begins), (updated, updates)):
                payload[positions[:, None] + np.arange(8)] = (
                    (times + 25 * first).astype(">i8").view("u1").reshape(-1, 8)
                )
            newest = {"base_timestamp": NOW + 25 * first, "max_timestamp": int(updates[-1]) + 25 * first}
            file.write(_batch(payload.tobytes(), 3 * first, 3 * BATCH_RECORDS, **newest))


def _transactions_of_a_batch() -> tuple[Column, IntArray, IntArray]:
    """Return the records of a batch, and the positions of the two times in each of them."""
    key, states = key_of("orders-1"), (State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    values = [
        value_of(
            transactionStatus=state,
            transactionPartitions=[{"topic": "orders", "partitionIds": [0]}],
            transactionLastUpdateTimestampMs=_UPDATED,
            transactionStartTimestampMs=_STARTED,
        )
        for state in states
    ]
    payload = b"".join(record(delta, key, values[delta % 3]) for delta in range(3 * BATCH_RECORDS))
    started, updated = (
        np.array([match.start() for match in re.finditer(re.escape(time.to_bytes(8, "big")), payload)])
        for time in (_STARTED, _UPDATED)
    )
    return np.frombuffer(payload, "u1").copy(), started, updated


def write_equal_records(folder: Path, count: int, value: bytes = b"v") -> None:
    """Write one compressed batch of equal records."""
    log = file_of(forge(folder, f"D 1 0 0-{count - 1} @0-{count - 1} N cnt 0", topic="equal"))
    writer = zlib.compressobj(9, wbits=31)
    parts = []
    for first in range(0, count, BATCH_RECORDS):
        deltas = range(first, min(first + BATCH_RECORDS, count))
        parts.append(writer.compress(b"".join(_small_record(delta, value) for delta in deltas)))
    payload = b"".join([*parts, writer.flush()])
    log.write_bytes(_batch(payload, 0, count, attributes=GZIP, producer_id=1, producer_epoch=0, base_sequence=0))


def _small_record(delta: int, value: bytes) -> bytes:
    """Return a record without key and headers, as ``record`` does, but many times faster."""
    body = b"\0\0" + unsigned_varint(delta << 1) + b"\1" + unsigned_varint(len(value) << 1) + value + b"\0"
    return unsigned_varint(len(body) << 1) + body


def _batch(payload: bytes, base_offset: int, count: int, **fields: int) -> bytes:
    return batch_of(payload, base_offset=base_offset, count=count, last_offset_delta=count - 1, **fields)


KINDS: dict[str, Callable[[Path, int], None]] = {
    "producers": write_producers,
    "group-offsets": write_group_offsets,
    "coordinator": write_coordinator,
    "equal-records": write_equal_records,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
