"""The lines of a ``.txnindex``.

Rule: ``DumpLogSegments.dumpTxnIndex`` and ``TransactionIndex``. Up to 4.3 the version of an entry is its first byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.errors import InputError, InputForbiddenError, InputMissingError
from kforensics.kafka_dump.compared_files import base_offset
from kforensics.kafka_dump.file_records import java_path
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.source import LocalSource, Source, open_source
from kforensics.parsers.format.failures import KAFKA
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import raw_entries
from kforensics.parsers.state.transaction_index import ENTRY, TransactionIndexEntry, read_transaction_index

__all__ = ["imitated_transaction_index", "plain_transaction_index"]

CURRENT_VERSION = 0
# Shifts the two bytes of a version so that the first, with its sign, is left.
FIRST_BYTE = 8


def imitated_transaction_index(path: str, summaries: Summaries) -> Iterator[str]:
    """Yield the text of the tool, which is the same in every release.

    Raises:
        JavaError: where the tool ends with an exception.
    """
    base_offset(path)  # the tool looks at the number only to fail if there is none
    try:
        source = LocalSource(path)
    except InputMissingError:
        return
    except InputForbiddenError as error:
        raise JavaError("java.nio.file.AccessDeniedException", java_path(path)) from error
    except InputError as error:
        # It opens the file for writing, which a folder refuses.
        raise JavaError("java.nio.file.FileSystemException", f"{java_path(path)}: Is a directory") from error
    with source:
        _check_versions(source, summaries.absolute(path))
        for fields in raw_entries(source, ENTRY):
            entry = TransactionIndexEntry(0, *fields)
            yield _line(entry, entry.version >> FIRST_BYTE)


def _check_versions(source: Source, path: str) -> None:
    """Fail at an entry of a later version: the tool reads all entries before it prints one."""
    for version, *_ in raw_entries(source, ENTRY):
        if version >> FIRST_BYTE > CURRENT_VERSION:
            message = (
                f"Unexpected aborted transaction version {version >> FIRST_BYTE} in transaction index {path}, "
                f"current version is {CURRENT_VERSION}"
            )
            raise JavaError(KAFKA, message)


def plain_transaction_index(path: str) -> Iterator[str | Damage]:
    """Yield the entries of an index as text, and what holds none.

    Raises:
        InputError: the index cannot be read.
    """
    with open_source(path) as source:
        for row in read_transaction_index(source):
            yield row if isinstance(row, Damage) else _line(row, row.version)


def _line(entry: TransactionIndexEntry, version: int) -> str:
    return (
        f"version: {version} producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
        f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}\n"
    )
