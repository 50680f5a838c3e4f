"""The argument of every kernel: one block of int64, of which each slot has a name.

A kernel reads from the block what it is asked for and writes into it how far it came. Behind the end of inputs and
outputs there are ``SLACK`` bytes more: kernels move whole words.
"""

from __future__ import annotations

from typing import NamedTuple

from kforensics.parsers.format.rows import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE

__all__ = [
    "BATCHES",
    "BATCH_MARGIN",
    "BATCH_OPS",
    "CONTROL_OPS",
    "DATA",
    "DONE",
    "END",
    "ENTRY_OPS",
    "FIRST_OFFSET",
    "FULL",
    "GAPS",
    "GAPS_FOUND",
    "GAPS_ROOM",
    "LAST_OFFSET",
    "LZ4",
    "MESSAGE_OPS",
    "MORE",
    "NEEDED",
    "OUT",
    "OUTSIDE",
    "OUT_SIZE",
    "OWN",
    "PACKED",
    "PACKED_CODEC",
    "PACKED_MAGIC",
    "PACKED_SIZE",
    "PAYLOAD_SIZE",
    "POSITION",
    "RECORDS",
    "RECORD_MARGIN",
    "RECORD_OPS",
    "REFUSED",
    "REFUSED_SIZES",
    "SCRATCH",
    "SCRATCH_SIZE",
    "SLACK",
    "SLOTS",
    "START",
    "STATUS",
    "STOP",
    "TIMESTAMP_TYPES",
    "VALUE",
    "VALUES",
    "WRITTEN",
    "ZSTD",
    "ZSTD_CONTEXT",
]

SLACK = 64

# In: address of the bytes, range to read relative to it, and the position in the file of the byte at the address.
DATA, START, END, POSITION = range(4)
# In: a bit for each order of size (its ``bit_length``) of which no batch may be summed.
REFUSED_SIZES = 4
# Out: where the kernel stopped, relative to the address, and why. In and out: how many batches and records it took.
STOP, STATUS, BATCHES, RECORDS = range(5, 9)
# Out: bytes of the first batch that is not whole, as its header says; 0 where not even that can be read.
NEEDED = 27
# In: where decompressed records go, and the C functions that decompress; 0 where there is none.
SCRATCH, SCRATCH_SIZE, LZ4, ZSTD, ZSTD_CONTEXT = range(9, 14)
# In: bytes of the scratch that are the decompressed records of the first batch already, -1 if they are not.
PAYLOAD_SIZE = 28
# Out, where somebody else is to decompress: the bytes, relative to the address, their codec and the message format.
PACKED, PACKED_SIZE, PACKED_CODEC, PACKED_MAGIC = range(31, 35)
# In: where text goes. In and out: how much of it there is; a kernel writes behind it.
OUT, OUT_SIZE, WRITTEN = range(14, 17)
# In: what to write for a batch, a record, a record of a control batch, see ``templates``; 0 for nothing. The margins
# are the most bytes such a line takes beside keys, values and header keys.
BATCH_OPS, RECORD_OPS, CONTROL_OPS, BATCH_MARGIN, RECORD_MARGIN = range(17, 22)
# In: the same for an entry of format 0 or 1, 0 to refuse those, and for its messages.
ENTRY_OPS, MESSAGE_OPS = 29, 30
# In: where pairs of neighbouring offsets go that are not consecutive. In and out: how many pairs there are; the first
# and the last offset or -1.
GAPS, GAPS_ROOM, GAPS_FOUND, FIRST_OFFSET, LAST_OFFSET = range(22, 27)
# Slots from here on belong to each kernel alone.
OWN = 40
# Where a kernel keeps the fields of the batch and the record it is at.
VALUES = 96


class Value(NamedTuple):
    """Which value is where, as constants that the compiler reads by name.

    Sizes of null are -1; the size or number of something stands behind its address.
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
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    header_count: int
    has_key: int
    has_value: int
    has_both: int
    has_lone_value: int
    control_type: int
    coordinator_epoch: int


# The words that the numbers of ``timestamp_type`` stand for.
TIMESTAMP_TYPES = (CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE)
VALUE = Value(*range(len(Value._fields)))
SLOTS = VALUES + len(VALUE)

# Why a kernel stopped: nothing is left; the next batch is not whole; the output is full; the next batch is not for it,
# or would be if somebody else decompressed it.
DONE, MORE, FULL, REFUSED, OUTSIDE = range(5)
