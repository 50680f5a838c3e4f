"""``python -m benchmarks.joined_part``: the memory of the task that joins the transactions of one producer id.

The transactions and markers are made chunk by chunk, as Spark passes them to the task, and what the task returns is
converted to Arrow and dropped, as when it is written. Prints the most memory that the process held, and a digest of the
rows, by which two versions of the code can be compared.
"""

import argparse
import hashlib
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.scale.usage import peak_bytes
from kforensics.forensics.audit.joined_parts import join_part
from kforensics.forensics.audit.producer_parts import CHUNK, Order, ProducerRows, ProducersOf
from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, State
from kforensics.forensics.coordinators.partition_markers import OPEN_TRANSACTION, TRANSACTION_MARKER, PartitionMarkers
from kforensics.forensics.coordinators.time_coverage import TimeCoverage
from kforensics.forensics.coordinators.transactions.history import (
    COORDINATOR_TRANSACTION,
    PRODUCER_ID_USE,
    TRANSACTIONAL_ID,
    History,
)
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.log.log_rows import Place

_START = 1_795_000_000_000
_STEP_MS = 25
_PRODUCER = 4711
_BYTES = 400
_SEGMENT = 1 << 30
_COORDINATOR: Order = (False, "__transaction_state", "", 0, "state")
_DATA: Order = (False, "orders", "", 0, "orders")


def main(arguments: Sequence[str] | None = None) -> int:
    """Join, and print what that took."""
    options = _options(arguments)
    pa.array([0])  # loaded before, as in a worker of Spark
    before, began = peak_bytes(), time.process_time()
    count, digest, kept = options.transactions, hashlib.sha256(), 0
    rules = Rules(_START + (count + 100_000) * _STEP_MS)
    for part in join_part(input_logs(count, options.version), input_rows(count, options.version), rules):
        kept += len(part.transactions)
        for batch in part.rows.record_batches() if part.rows else ():
            digest.update(batch.serialize())
    peak = peak_bytes()
    print(
        f"{count:,} transactions of version {options.version}: peak {peak / 1e6:.0f} MB, {before / 1e6:.0f} MB of it "
        f"before; {(peak - before) / count:.0f} bytes per transaction; {time.process_time() - began:.1f} CPU seconds; "
        f"{kept} passed on; digest {digest.hexdigest()[:16]}"
    )
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.joined_part", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--transactions", type=int, default=1_000_000, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--version", type=int, default=1, choices=(1, 2), help="transaction version; default: %(default)s"
    )
    return parser.parse_args(arguments)


def input_logs(count: int, version: int) -> list[ProducersOf]:
    """Return what the part needs to know of the two logs: that of the coordinator, and that of a partition."""
    ids, uses = np.zeros(1, TRANSACTIONAL_ID), np.zeros(1, PRODUCER_ID_USE)
    ids["producer_id"] = uses["producer_id"] = _PRODUCER
    ids["history_complete"], ids["status"], ids["transaction_version"] = True, State.COMPLETE_COMMIT, version
    ids["transactions"] = count
    last = _START + count * _STEP_MS
    state, data = (Place(1, "broker-1", topic, 0) for topic in ("__transaction_state", "orders"))
    history = History(
        state, ("state.log",), ["orders-writer"], ids, np.empty(0, COORDINATOR_TRANSACTION), ((("orders", 0),),), uses,
        last_record_time=last, records=3 * count, is_stopped=True,
    )  # fmt: skip
    coverage = TimeCoverage(
        start=ALWAYS, existed_by=NEVER, is_whole=False, seen_until=last, first_led=None, newest_marker=last,
        copied_at=NEVER, end=NEVER, lag=None,
    )  # fmt: skip
    markers = PartitionMarkers(
        data, ("orders.log",), np.empty(0, TRANSACTION_MARKER), np.empty(0, OPEN_TRANSACTION), coverage,
        log_end_offset=2 * count,
    )  # fmt: skip
    nothing = np.empty(0, "i8")
    return [
        ProducersOf(_COORDINATOR, history, np.zeros(1, "i8"), None, np.zeros(1, "i8"), nothing),
        ProducersOf(_DATA, None, nothing, markers, np.zeros(1, "i8"), nothing),
    ]


def input_rows(count: int, version: int) -> Iterator[ProducerRows]:
    """Yield the transactions, and then a marker for each."""
    for order, rows_of in ((_COORDINATOR, _transactions), (_DATA, _markers)):
        for start in range(0, count, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, count))
            own = numbers if order is _COORDINATOR else numbers[:0]
            yield ProducerRows(order, rows_of(numbers, version), own)


def _transactions(numbers: IntArray, version: int) -> StructArray:
    rows = np.zeros(len(numbers), COORDINATOR_TRANSACTION)
    rows["producer_id"], rows["transaction_version"], rows["timeout_ms"] = _PRODUCER, version, 60_000
    rows["data_epoch"] = _epochs(numbers, version)
    rows["marker_epoch"] = rows["data_epoch"] + (version == 2)
    rows["status"] = np.where(_is_aborted(numbers), State.COMPLETE_ABORT, State.COMPLETE_COMMIT)
    rows["start"] = _START + numbers * _STEP_MS
    rows["decided"], rows["completed"] = rows["start"] + 10 + numbers % 5, rows["start"] + 20
    rows["offset"] = 3 * numbers + 1
    rows["segment"], rows["position"] = 0, rows["offset"] * _BYTES % _SEGMENT
    return rows


def _markers(numbers: IntArray, version: int) -> StructArray:
    rows = np.zeros(len(numbers), TRANSACTION_MARKER)
    rows["producer_id"], rows["marker_offset"] = _PRODUCER, 2 * numbers + 1
    rows["first_offset"] = rows["last_offset"] = 2 * numbers
    rows["data_epoch"] = rows["lowest_epoch"] = _epochs(numbers, version)
    rows["marker_epoch"] = rows["data_epoch"] + (version == 2)
    rows["outcome"] = np.where(_is_aborted(numbers), TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED)
    rows["first_timestamp"] = _START + numbers * _STEP_MS + 1
    rows["marker_timestamp"] = rows["written_by"] = _START + numbers * _STEP_MS + 15
    rows["position"] = numbers * _BYTES % _SEGMENT
    return rows


def _epochs(numbers: IntArray, version: int) -> IntArray:
    """Return one epoch for all transactions; with version 2, where a producer id has fewer, they repeat."""
    return numbers % 32_000 if version == 2 else np.zeros(len(numbers), "i8")


def _is_aborted(numbers: IntArray) -> BoolArray:
    is_aborted: BoolArray = numbers % 10 == 7
    return is_aborted


if __name__ == "__main__":
    raise SystemExit(main())
