"""Which aborted transactions a broker no longer knows after a clean start, because its indexes lack them.

A broker reads the aborted transactions of a segment from its ``.txnindex`` and nowhere else. After a clean shutdown it
takes a missing index for an empty one, and read_committed consumers get the records of the aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from kforensics.errors import InputMissingError
from kforensics.forensics.forecast.broker_reader import CorruptLogError, batches_from
from kforensics.forensics.forecast.effects import Effect
from kforensics.forensics.forecast.segment_files import is_version_ignored
from kforensics.parsers.files.source import Window, open_source
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import Damage, Record
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.state.indexes import TransactionIndexEntry, read_transaction_index

__all__ = ["visible_aborts"]

ABORT = "ABORT"


def visible_aborts(segments: Iterable[tuple[str, int]], release: str) -> Iterator[Effect]:
    """Yield for each transaction index that aborted transactions are not in it.

    A transaction whose first data is not in the log any more is left out, because it may have had none.

    Args:
        segments: each ``.log`` with the size up to which it is read, in order.
        release: the release whose rules count.
    """
    by_index: dict[str, list[int]] = {}
    for index, first in _forgotten(segments, release):
        by_index.setdefault(index, []).append(first)
    for index, firsts in by_index.items():
        detail = f"{len(firsts)} aborted transactions are not in it: read_committed consumers get their records"
        yield Effect("aborted-visible", detail, silent=True, offset=min(firsts), records=len(firsts), path=index)


def _forgotten(segments: Iterable[tuple[str, int]], release: str) -> Iterator[tuple[str, int]]:
    """Yield the index and the first offset of each aborted transaction that the index of its segment lacks."""
    open_since: dict[int, int] = {}
    for path, size in segments:
        index = f"{path.removesuffix('.log')}.txnindex"
        aborted = list(_aborted(path, size, open_since))
        known = _entries(index, release) if aborted else None
        for producer_id, first, last in aborted:
            if known is not None and (producer_id, last) not in known:
                yield index, first


def _aborted(path: str, size: int, open_since: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    with open_source(path) as source, suppress(CorruptLogError):
        for each in batches_from(Window(source, size), 0, path):
            batch = each.header
            if not batch.is_transactional or batch.producer_id is None:
                continue
            if not batch.is_control and not batch.count:
                continue  # the cleaner keeps the header of the last batch of a producer
            if not batch.is_control:
                open_since.setdefault(batch.producer_id, batch.base_offset or 0)
                continue
            first = open_since.pop(batch.producer_id, None)
            record = next(iter(read_records(source, batch)), None)
            if first is not None and isinstance(record, Record) and control_fields(record)[0] == ABORT:
                yield batch.producer_id, first, batch.last_offset


def _entries(path: str, release: str) -> set[tuple[int, int]] | None:
    """Return producer id and last offset of the entries, None if the release reads some of an unknown version."""
    try:
        with open_source(path) as source:
            rows = list(read_transaction_index(source))
            damages = (row for row in rows if isinstance(row, Damage) and row.reason == "version")
            if any(is_version_ignored(source, damage, release) for damage in damages):
                return None
    except InputMissingError:
        return set()
    return {(row.producer_id, row.last_offset) for row in rows if isinstance(row, TransactionIndexEntry)}
