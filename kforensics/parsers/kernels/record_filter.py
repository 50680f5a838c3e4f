"""Which batches and records a kernel takes: the host selects batches, the kernel selects records in them."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.decoded_fields import get_field
from kforensics.parsers.kernels.intrinsics import call_key_filter, get_slot, load8, load16, set_slot
from kforensics.parsers.kernels.pattern_states import (
    ASCII,
    END,
    LAST_LINE_FEED,
    LINE_FEED,
    MATCH,
    START,
    SYMBOLS,
)
from kforensics.parsers.kernels.request import FIELD, SLOT


@inlined
def is_batch_selected(request: int, number: int) -> bool:
    """Return whether the host has selected a batch, by its number in the block."""
    selected = get_slot(request, SLOT.selected)
    return selected == 0 or load8(selected + number) != 0


@compiled
def _starts_with(address: int, text: int, size: int) -> bool:
    index = 0
    while index < size and load8(address + index) == load8(text + index):
        index += 1
    return index == size


@compiled
def _final_state(states: int, address: int, size: int) -> int:
    """Return the state of a table of ``pattern_states`` after a text, START or a later one if it is not ASCII."""
    state, index = START, 0
    while state >= START and index < size:
        symbol = load8(address + index)
        index += 1
        if symbol >= ASCII:
            return START
        if symbol == LINE_FEED and index == size:
            symbol = LAST_LINE_FEED
        state = load16(states + 2 * (SYMBOLS * state + symbol))
    return load16(states + 2 * (SYMBOLS * state + END))


@compiled
def _key_matches(request: int, address: int, size: int) -> bool:
    """Return whether a key contains a text, or begins with it, or whatever else the host wants of it."""
    if size < 0:
        return False
    function, states = get_slot(request, SLOT.key_function), get_slot(request, SLOT.key_states)
    if states:
        state = _final_state(states, address, size)
        if state < START:
            return state == MATCH
    if function:
        return call_key_filter(function, address, size) != 0
    text, text_size = get_slot(request, SLOT.key_text), get_slot(request, SLOT.key_text_size)
    last = address + size - text_size
    if get_slot(request, SLOT.key_is_prefix):
        last = min(last, address)
    while address <= last:
        if _starts_with(address, text, text_size):
            return True
        address += 1
    return False


@compiled
def _is_record_selected(request: int, fields: int) -> bool:
    offset, timestamp = get_field(fields, FIELD.offset), get_field(fields, FIELD.timestamp)
    if offset < get_slot(request, SLOT.least_offset) or offset > get_slot(request, SLOT.most_offset):
        return False
    if timestamp < get_slot(request, SLOT.least_time) or timestamp > get_slot(request, SLOT.most_time):
        return False
    if get_slot(request, SLOT.key_text) == 0 and get_slot(request, SLOT.key_function) == 0:
        return True
    return _key_matches(request, get_field(fields, FIELD.key_address), get_field(fields, FIELD.key_size))


@inlined
def is_record_selected(request: int, fields: int) -> bool:
    """Return whether the current record of a selected batch is selected."""
    return get_slot(request, SLOT.selects_records) == 0 or _is_record_selected(request, fields)


@inlined
def has_all_rows(request: int) -> bool:
    """Return whether as many rows are written as the host wants."""
    most = get_slot(request, SLOT.most_rows)
    return most != 0 and get_slot(request, SLOT.rows) >= most


@inlined
def count_row(request: int) -> bool:
    """Count a row, and return whether these are as many as the host wants."""
    set_slot(request, SLOT.rows, get_slot(request, SLOT.rows) + 1)
    return has_all_rows(request)
