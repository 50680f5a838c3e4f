"""Data records of a log as numpy columns with a hash of what each says: by kernels as far as they go, else plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.hash_buffers import BATCH_COLUMNS, IN_COLUMNS, RECORD_COLUMNS
from kforensics.parsers.kernels.policy import Choice, Supply
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.log_rows import records_of

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["EMPTY_RECORD", "EMPTY_VALUE", "SOME_VALUE", "HashColumns", "hash_chunks"]

Numbers: TypeAlias = "npt.NDArray[Any]"
Report = Callable[[Damage], None]

# Records, and bytes of keys and values, that plain Python hashes at once.
CHUNK_ROWS, CHUNK_BYTES = 1 << 14, 1 << 22
# How much of a record is null or empty: nothing that matters, its value, its key and its value.
SOME_VALUE, EMPTY_VALUE, EMPTY_RECORD = range(3)
_UNSIGNED = ("low", "high")


@dataclass(frozen=True, slots=True)
class HashColumns:
    """The data records of some batches of a log, in the order of the bytes.

    The first columns have one number per record, the others, from ``position`` on, one per batch that has records.

    Attributes:
        offset: of the record.
        timestamp: of the record in ms, -1 if it has none.
        low: one half of the hash of key, value and headers, see :mod:`.content_hash`.
        high: the other half.
        emptiness: SOME_VALUE, EMPTY_VALUE (null or empty) or EMPTY_RECORD (the key too).
        is_keyless: 1 if the key is null, else 0.
        position: byte position of the batch.
        records: records of the batch in the columns above.
        base_offset: first offset of the batch.
        producer_id: -1 if there is none.
        producer_epoch: -1 if there is none.
        base_sequence: -1 if there is none.
        attributes: as stored; 0 in formats that have none.
        magic: message format.
        last_offset: last offset as the header has it.
        max_timestamp: largest timestamp in ms as the header has it, -1 if there is none.
        is_whole: 1 if all its records could be read, else 0.
    """

    offset: Numbers
    timestamp: Numbers
    low: Numbers
    high: Numbers
    emptiness: Numbers
    is_keyless: Numbers
    position: Numbers
    records: Numbers
    base_offset: Numbers
    producer_id: Numbers
    producer_epoch: Numbers
    base_sequence: Numbers
    attributes: Numbers
    magic: Numbers
    last_offset: Numbers
    max_timestamp: Numbers
    is_whole: Numbers

    def __len__(self) -> int:
        return len(self.offset)


def hash_chunks(  # noqa: PLR0913  # a range of a file, and who is told what
    source: Source,
    report: Report,
    kernels: Choice,
    *,
    start: int = 0,
    stop: int | None = None,
    workers: int | None = None,
) -> Iterator[HashColumns]:
    """Yield the data records of a log in chunks of whole batches, in the order of the bytes.

    Control batches are left out, and batches whose checksum fails: nothing they say is certain.

    Args:
        source: the log.
        report: told of all damage, in the order of the bytes.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        start: position of a batch.
        stop: position behind the last batch, None for the end of the file.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Yields:
        Columns whose memory is used anew once the next ones are asked for.
    """
    steps = Walk(source, start, stop)
    supply = kernels((source.size if stop is None else stop) - start)
    items = _in_turns(steps, source, supply, stop, workers) if supply else _steps(steps)
    plain = _Plain(source, report)
    for item in items:
        if isinstance(item, HashColumns):
            yield from plain.rest()
            if len(item):
                yield item
        elif isinstance(item, Damage):
            report(item)
        else:
            yield from plain.take(item)
    yield from plain.rest()


def _steps(steps: Walk) -> Iterator[Batch | Damage]:
    while rows := steps.step():
        yield from rows


def _in_turns(
    steps: Walk, source: Source, supply: Supply, stop: int | None, workers: int | None
) -> Iterator[Batch | Damage | HashColumns]:
    from kforensics.parsers.kernels.engine import Block, Engine  # a small log must not pay for them
    from kforensics.parsers.kernels.fallback import in_turns

    task = _Task()
    for item in in_turns(steps, Engine(supply, task, source, stop, workers)):
        yield _columns(item) if isinstance(item, Block) else item


class _Task:
    """Has the kernel hash records; a task for the engine."""

    def prepare(self, request: Any) -> Any:
        """Give a request memory of its own."""
        from kforensics.parsers.kernels.engine import Area  # as above
        from kforensics.parsers.kernels.hash_buffers import BUDGET, COLUMNS, HASH_AREA

        area = Area(HASH_AREA)
        request[COLUMNS], request[BUDGET] = area.address, DEFAULT_BUDGET
        return area

    def kernel(self, kernels: Any) -> Any:
        """Return the kernel that hashes."""
        return kernels.record_hashes


def _columns(block: Any) -> HashColumns:
    """Return what the kernel left in a block, where it lies."""
    from kforensics.parsers.kernels.hash_buffers import BATCH_ROWS, ROWS  # as above

    def column(name: str, rows: int) -> Numbers:
        return np.frombuffer(block.output.view, "u8" if name in _UNSIGNED else "i8", rows, IN_COLUMNS[name])

    of_records = [column(name, block.request[ROWS]) for name in RECORD_COLUMNS]
    return HashColumns(*of_records, *(column(name, block.request[BATCH_ROWS]) for name in BATCH_COLUMNS))


class _Plain:
    """Hashes records that plain Python has read, many at once."""

    def __init__(self, source: Source, report: Report) -> None:
        self._source, self._report = source, report
        self._batches: list[tuple[int, ...]] = []
        self._records: list[Record] = []
        self._bytes = 0

    def take(self, batch: Batch) -> Iterator[HashColumns]:
        """Add the records of a batch, and yield what is ready."""
        if batch.is_control or not batch.crc_valid:
            return
        before, is_whole = len(self._records), True
        for row in records_of(self._source, batch):
            if isinstance(row, Record):
                self._records.append(row)
                self._bytes += max(row.key_size, 0) + max(row.value_size, 0)
            else:
                self._report(row)
                is_whole = False
        if len(self._records) > before:
            self._batches.append(_of_batch(batch, self._records[before:], is_whole))
        if len(self._records) >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[HashColumns]:
        """Yield what was taken and not yielded yet."""
        if self._records:
            found = _hashed(self._records, self._batches)
            self._batches, self._records, self._bytes = [], [], 0
            yield found


def _of_batch(batch: Batch, records: Sequence[Record], is_whole: bool) -> tuple[int, ...]:
    """Return what the columns of a batch hold; a compressed entry of an old format has the first offset inside it."""
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return (
        batch.position,
        len(records),
        records[0].offset if batch.base_offset is None else batch.base_offset,
        *(-1 if number is None else number for number in producer),
        batch.attributes,
        batch.magic,
        batch.last_offset,
        batch.max_timestamp,
        is_whole,
    )


def _hashed(records: Sequence[Record], batches: Sequence[tuple[int, ...]]) -> HashColumns:
    low, high = content_hashes(records)
    rows = [(record.offset, record.timestamp, _emptiness(record), record.key is None) for record in records]
    offset, timestamp, emptiness, is_keyless = (np.array(column, "i8") for column in zip(*rows, strict=True))
    of_batches = (np.array(column, "i8") for column in zip(*batches, strict=True))
    return HashColumns(offset, timestamp, low, high, emptiness, is_keyless, *of_batches)


def _emptiness(record: Record) -> int:
    if record.value:
        return SOME_VALUE
    return EMPTY_VALUE if record.key else EMPTY_RECORD
