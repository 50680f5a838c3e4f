"""Selects batches and records for kernels by the rules of a :class:`.selection.Selection`, block by block.

The host selects batches, with NumPy on their headers; kernels select records. Both ignore what pure Python reads.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.engine import Block, Engine, MappedMemory, PythonReader, read_with_fallback
from kforensics.parsers.kernels.library import Request
from kforensics.parsers.kernels.pattern_states import compile_states
from kforensics.parsers.kernels.request import HEADER_COLUMN, NOT_THERE, SLACK, SLOT
from kforensics.parsers.log.selection import MAX_INT64, Selection

if TYPE_CHECKING:
    import numpy as np

Row = TypeVar("Row")
# More than fit into the memory of a block.
MAX_BATCHES = 1 << 18
KEY_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
# Patterns that only say which ASCII text a key contains or begins with. In UTF-8, these characters are never part of
# others, so that the text can be searched for in bytes.
LITERAL = re.compile(r"(\^?)((?:[\w \-:/@,;=~\"'%&!#<>]|\\[.\-+*?$^()\[\]{}|\\])+)", re.ASCII)


class BlockFilter:
    """Selects batches and records of the blocks of one log, which come in log order.

    Args:
        selection: the rules.

    Attributes:
        is_finished: whether two batches in a row were beyond the selected offsets, so that reading can stop; rule:
            :func:`.selection.selected_batches`.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        offsets = selection.offsets
        self._end = offsets.end if offsets and offsets.end is not None and offsets.end <= MAX_INT64 else None
        self._is_beyond = self._ahead = self.is_finished = False
        self._key = _literal(selection.key) if selection.key else None
        pattern = None if self._key else selection.key
        self._states = compile_states(pattern) if pattern else None
        self._function = _key_function(pattern) if pattern else None

    def prepare(self, request: Request) -> None:
        """Put the rules for records into a request."""
        if not self._selection.picks_records:
            return
        request[SLOT.selects_records] = 1
        bounds = self._selection.record_bounds()
        request[SLOT.least_offset], request[SLOT.most_offset], request[SLOT.least_time], request[SLOT.most_time] = (
            bounds
        )
        if self._key:
            is_prefix, text = self._key
            request[SLOT.key_text], request[SLOT.key_text_size] = ctypes.addressof(text), len(text) - SLACK
            request[SLOT.key_is_prefix] = is_prefix
        elif self._function:
            request[SLOT.key_states] = self._states.buffer_info()[0] if self._states else 0
            request[SLOT.key_function] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def restart(self) -> None:
        """Continue after what pure Python has read."""
        self._ahead = self._is_beyond

    def memory(self, request: Request) -> tuple[MappedMemory, MappedMemory]:
        """Return the memory for the headers and the selection of a block."""
        headers, selected = MappedMemory(8 * len(HEADER_COLUMN) * MAX_BATCHES), MappedMemory(MAX_BATCHES)
        request[SLOT.headers], request[SLOT.selected] = headers.address, selected.address
        return headers, selected

    def select(self, request: Request, headers: MappedMemory, selected: MappedMemory) -> tuple[Any, bool]:
        """Select batches by the headers that a kernel has written.

        Returns:
            what :meth:`passed` needs, and whether more batches may follow.
        """
        import numpy as np  # few dumps select anything

        count = request[SLOT.number]
        columns = np.frombuffer(headers.view, "=i8", len(HEADER_COLUMN) * count).reshape(count, len(HEADER_COLUMN))
        mask = self._selection.keeps_batches(Headers(columns))
        beyond = np.zeros(count, bool)
        if self._end is not None:
            base_offset = columns[:, HEADER_COLUMN.base_offset]
            beyond = (base_offset != NOT_THERE) & (base_offset >= self._end)
        before = np.concatenate([[self._ahead], beyond[:-1]])
        second = np.flatnonzero(beyond & before)
        end = int(second[0]) if len(second) else count
        mask[end + 1 :] = False
        np.frombuffer(selected.view, "u1", count)[:] = mask
        self._ahead = bool(beyond[-1]) if count else self._ahead
        return (beyond, end, count), not len(second)

    def passed(self, state: Any, number: int) -> None:
        """Take the first batches of a block for read, in log order."""
        beyond, end, count = state
        if end < count and number > end:
            self.is_finished = True
        elif number:
            self._is_beyond = bool(beyond[number - 1])

    def keeps(self, batch: Batch) -> bool:
        """Return whether a batch that pure Python has read is selected."""
        is_beyond = self._end is not None and batch.base_offset is not None and batch.base_offset >= self._end
        self.is_finished = is_beyond and self._is_beyond
        self._is_beyond = is_beyond
        return self._selection.keeps_batch(batch)


class Headers:
    """The headers of batches as columns, see ``request.HeaderColumns``; what a format lacks is ``NOT_THERE``."""

    def __init__(self, columns: np.ndarray[Any, Any]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, name: str) -> Any:
        return self._columns[:, getattr(HEADER_COLUMN, name)]


def _literal(pattern: re.Pattern[str]) -> tuple[bool, ctypes.Array[ctypes.c_char]] | None:
    """Return whether a key has to begin with a text or may contain it anywhere, and the text; None if it is no text."""
    match = LITERAL.fullmatch(pattern.pattern)
    if match is None:
        return None
    text = re.sub(r"\\(.)", r"\1", match[2]).encode()
    return bool(match[1]), ctypes.create_string_buffer(text, len(text) + SLACK)


def _key_function(pattern: re.Pattern[str]) -> Any:
    """Return a C function that searches for a pattern in a key."""
    search, string_at = pattern.search, ctypes.string_at

    def matches(address: int, size: int) -> bool:
        return search(string_at(address, size).decode("utf-8", "replace")) is not None

    return KEY_FUNCTION(matches)


def read_selected(reader: PythonReader[Row], engine: Engine) -> Iterator[Block | Row]:
    """Yield blocks that kernels have read, and what pure Python reads between them, without batches not selected.

    Args:
        reader: reads in pure Python.
        engine: runs the kernels.
    """
    block_filter = engine.block_filter
    for item in read_with_fallback(reader, engine):
        if block_filter is None or not isinstance(item, Batch) or block_filter.keeps(item):
            yield item
        if block_filter and block_filter.is_finished:
            return
