"""The argument of every kernel: a block of int64 slots, each with a name.

Python fills in what the kernel is to do; the kernel writes back how far it got. Kernels move whole words, so inputs and
outputs are followed by ``SLACK`` bytes that a kernel may read or write.
"""

from __future__ import annotations

from typing import NamedTuple

from kforensics.parsers.format.rows import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE

SLACK = 64

# Why a kernel stopped: it reached the end; the next batch is incomplete; an output is full; the next batch needs pure
# Python; the next batch must be decompressed on the host first.
DONE, INCOMPLETE, OUTPUT_FULL, DECLINED, NEEDS_HOST_CODEC = range(5)


class Slots(NamedTuple):
    """Slot numbers of a request, as constants that the compiler reads by name."""

    # In: address of the bytes, the range to read relative to it, and the file position of the byte at the address.
    data: int
    start: int
    end: int
    position: int
    # In: bit n is set if batches whose size has a ``bit_length`` of n must not be checksummed.
    refused_sizes: int
    # Out: where the kernel stopped, relative to the address, and why. In and out: batches and records processed.
    stop: int
    status: int
    batches: int
    records: int
    # Out: size of the first incomplete batch according to its header, 0 if the length field is incomplete too.
    needed_size: int
    # In: where decompressed records go, and the C functions that decompress, 0 for none.
    scratch: int
    scratch_size: int
    lz4_function: int
    zstd_function: int
    zstd_context: int
    # In: size of the first batch's records if the host has decompressed them into the scratch memory, else -1.
    payload_size: int
    # Out, if the host must decompress: the bytes, relative to the address, their codec and the message format.
    compressed_start: int
    compressed_size: int
    compressed_codec: int
    compressed_magic: int
    # In: where text goes. In and out: bytes of text; a kernel appends to it.
    out: int
    out_size: int
    written: int
    # In: addresses of the templates for a batch, a record and a control record, see ``templates``; 0 to write nothing.
    # A margin is the maximum size of such a line without keys, values and header keys.
    batch_ops: int
    record_ops: int
    control_ops: int
    batch_margin: int
    record_margin: int
    # In: addresses of the templates for a format 0 or 1 entry, 0 to decline those, and for its messages.
    entry_ops: int
    message_ops: int
    # In: 1 to write rows of tables: the fields of control batches are those of the tables, and lines are not counted.
    writes_rows: int
    # In: address of the state of a keyed hash, 0 if no payloads are redacted, and of work memory, see ``redaction``.
    redaction: int
    redaction_work: int
    # In: addresses of a byte for each batch of the block, 0 to skip it, and of a row of ``HeaderColumns`` for each.
    # In and out: the number of the next batch in the block.
    selected: int
    headers: int
    number: int
    # In: 1 to select records by the ranges, ends included, and by the key: the text in it, or at its beginning, or the
    # table of ``pattern_states`` and, where that has no answer, the C function of the host; 0 for none.
    selects_records: int
    least_offset: int
    most_offset: int
    least_time: int
    most_time: int
    key_text: int
    key_text_size: int
    key_is_prefix: int
    key_states: int
    key_function: int
    # In: the number of rows or record lines to stop after, 0 for none. In and out: those that are written.
    most_rows: int
    rows: int
    # In: where pairs of neighboring but not consecutive offsets go. In and out: number of pairs, first and last offset
    # or -1.
    gaps: int
    gaps_capacity: int
    gap_count: int
    first_offset: int
    last_offset: int


class HeaderColumns(NamedTuple):
    """Numbers of the fields of batches by which the host selects them; what a format lacks is ``NOT_THERE``."""

    base_offset: int
    last_offset: int
    record_count: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: int
    is_control: int


HEADER_COLUMN = HeaderColumns(*range(len(HeaderColumns._fields)))
NOT_THERE = -(1 << 63)

SLOT = Slots(*range(len(Slots._fields)))
# Slots from here on differ from kernel to kernel.
FIRST_KERNEL_SLOT = 64
# Where a kernel keeps the fields of the current batch and record.
FIRST_FIELD_SLOT = 112


class Fields(NamedTuple):
    """Numbers of the fields of a batch and a record, as constants that the compiler reads by name.

    Templates use the same names. The size of null is -1. A size or count directly follows its address.
    """

    base_offset: int
    last_offset: int
    record_count: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: int
    is_control: int
    has_delete_horizon: int
    base_timestamp: int
    position: int
    timestamp_type: int
    max_timestamp: int
    size: int
    magic: int
    codec: int
    crc: int
    crc_valid: int
    offset: int
    timestamp: int
    sequence: int
    key_address: int
    key_size: int
    value_address: int
    value_size: int
    headers_address: int
    header_count: int
    has_key: int
    has_value: int
    has_both: int
    has_lone_value: int
    control_type: int
    coordinator_epoch: int
    # Only for rows of tables: the control type plus 1, or 0 for none.
    control_label: int
    has_epoch: int
    attributes: int


FIELD = Fields(*range(len(Fields._fields)))
SLOT_COUNT = FIRST_FIELD_SLOT + len(FIELD)
# Names for the numbers of ``timestamp_type``.
TIMESTAMP_TYPES = (CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE)
