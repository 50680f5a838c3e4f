"""Leaves the records out of the data batches of a log; every byte that remains keeps its position.

The records of a data batch become zeros, after a mark (:func:`kforensics.parsers.log.records.are_left_out`): a zero
byte, which no records of any codec begin with, and the checksum that the batch had, so that batches that differed still
differ. The checksum in the header is that of the new bytes. So a log shows by itself where its records were left out,
and no reader needs to know how it was copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kforensics.parsers.files.source import BUFFER_BYTES, Source
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, ENTRY_PREFIX
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batch_headers import CRC_START, batch_header, plausible
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.records import NO_RECORDS, STORED_CRC

HEADER, PREFIX = fixed_layout(BATCH_HEADER), fixed_layout(ENTRY_PREFIX)
# A control batch that fails its checksum may be a data batch. Markers are smaller than this; data are then left out.
MAX_DOUBTFUL_CONTROL = 128
# Damage that begins with a whole header, as far as the file has it.
WITH_HEADER = ("crc", "truncated")


def kept_bytes(source: Source, end: int, on_legacy: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
    """Yield what a log without records has, with positions, in log order; all other bytes are zeros.

    Control batches and headers remain, and of bytes that are no batch those that a header would begin with.

    Args:
        source: the log.
        end: position to end at.
        on_legacy: called for each batch of format 0 or 1. Nothing of it remains: its header is one with its record.

    Raises:
        InputError: the log cannot be read.
    """
    for row in walk(source, 0, end):
        if isinstance(row, Damage):
            if row.inside_batch is None:
                yield row.start, _head(row, source.read(row.start, min(HEADER.size, row.end - row.start)))
        elif row.is_legacy:
            on_legacy()
        elif row.is_control and (row.crc_valid or row.size <= MAX_DOUBTFUL_CONTROL):
            yield row.position, source.read(row.position, row.size)
        else:
            yield row.position, _header_and_mark(row, source.read(row.position, HEADER.size))


def _head(damage: Damage, head: bytes) -> bytes:
    """Return what remains of bytes that are no batch: a header, or only what shows that they begin with none."""
    is_header = len(head) == HEADER.size and plausible(batch_header(head, damage.start, crc_of_rest=0))
    return head if damage.reason in WITH_HEADER or is_header else head[: PREFIX.size]


def _header_and_mark(batch: Batch, header: bytes) -> bytes:
    if batch.size == HEADER.size:
        return header
    mark = (NO_RECORDS + header[STORED_CRC])[: batch.size - HEADER.size]
    if not batch.crc_valid:
        return header + mark
    changed = bytearray(header)
    checksum = crc32c(mark, crc32c(header[CRC_START:]))
    for left in range(batch.size - HEADER.size - len(mark), 0, -BUFFER_BYTES):
        checksum = crc32c(bytes(min(left, BUFFER_BYTES)), checksum)
    HEADER.reader("crc").pack_into(changed, HEADER.offsets["crc"], checksum)
    return bytes(changed) + mark
