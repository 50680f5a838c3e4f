"""Runs the kernel that writes lines on hostile segments between pages that nobody may touch; says how each ended.

``python -m tests.parsers.kernels.fenced COUNT``, in a process of its own: one byte too far ends it.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from collections import Counter

from kforensics.parsers.kernels.library import Request, kernels
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    CONTROL_OPS,
    DATA,
    END,
    FIRST_OFFSET,
    GAPS,
    GAPS_ROOM,
    LAST_OFFSET,
    LZ4,
    OUT,
    OUT_SIZE,
    PAYLOAD_SIZE,
    RECORD_MARGIN,
    RECORD_OPS,
    SCRATCH,
    SCRATCH_SIZE,
    SLACK,
    STATUS,
    ZSTD,
    ZSTD_CONTEXT,
)
from kforensics.parsers.kernels.symbols import ZstdContext, lz4_function, zstd_function
from kforensics.parsers.kernels.templates import If, Template
from tests.parsers.builders import CRC_START, LENGTH_END, batch, record, sealed, varint

NAMES = ("done", "more", "full", "refused", "outside")
WORDS: dict[str, tuple[str, ...]] = {"codec": ("none", "gzip", "snappy", "lz4", "zstd")}
BATCH = Template(["batch {base_offset} {last_offset} {count} {codec} {crc}\n"], WORDS)
RECORD = Template(
    ["{offset} {timestamp} {sequence} [{header_keys}]", If("has_key", " {key}"), If("has_value", " {value}"), "\n"], {}
)
CONTROL = Template(["{offset} {control_type} {coordinator_epoch}\n"], {})
DICE = random.Random(11)  # noqa: S311 - dice for a test
TRICKY = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xC3, 0xE2, 0xED, 0xF0, 0xFE, 0xFF)
SIZES = (-(2**31), -1, 0, 1, 5, 60, 2**20, 2**28, 2**31 - 1)


class Fenced:
    """Memory between two pages that nobody may touch."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        whole = -(-size // page) * page
        self._pages = mmap.mmap(-1, whole + 2 * page)
        self._held = ctypes.c_char.from_buffer(self._pages)
        self.start = ctypes.addressof(self._held) + page
        self.end = self.start + whole
        for fence in (self.start - page, self.end):
            if ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0):
                raise OSError("mprotect failed")


def hostile() -> bytes:
    """Return a segment of some batches, most of them broken under a right checksum."""
    return b"".join(_batch() for _ in range(DICE.randint(1, 3)))[
        : DICE.choice([None, None, None, DICE.randint(0, 300)])
    ]


def _batch() -> bytes:
    payload = bytearray(b"".join(_record(delta) for delta in range(DICE.randint(0, 4))))
    for _ in range(DICE.choice([0, 0, 1, 2, 9])):
        if payload:
            payload[DICE.randrange(len(payload))] = DICE.choice(TRICKY)
    codec = DICE.choice([0, 0, 0, 1, 2, 3, 4])
    changed = {"count": DICE.randint(0, 5)} if DICE.random() < 0.8 else {"count": DICE.choice(SIZES)}
    if DICE.random() < 0.1:
        changed["attributes"] = codec | 0x20
    built = bytearray(batch(bytes(payload), codec=codec, **changed))
    if DICE.random() < 0.3:
        for _ in range(DICE.randint(1, 3)):
            built[DICE.randrange(CRC_START, len(built))] = DICE.choice(TRICKY)
    if DICE.random() < 0.1:
        built[LENGTH_END - 4 : LENGTH_END] = DICE.choice(SIZES).to_bytes(4, "big", signed=True)
    return sealed(bytes(built)) if DICE.random() < 0.95 else bytes(built)


def _record(delta: int) -> bytes:
    if DICE.random() < 0.3:
        fields = b"".join(varint(DICE.choice(SIZES)) for _ in range(DICE.randint(1, 5)))
        body = b"\0" + fields + DICE.randbytes(DICE.randint(0, 9))
        return varint(len(body)) + body
    if DICE.random() < 0.2:
        return record(delta, b"\0\0\0" + bytes([DICE.randint(0, 3)]), bytes(6))
    key, value = (DICE.choice([None, b"", bytes(DICE.choices(TRICKY, k=DICE.randint(0, 90))), b"t" * 40]) for _ in "kv")
    return record(delta, key, value, [(b"h" * DICE.randint(0, 9), None)] * DICE.randint(0, 3))


def main(count: int) -> None:
    """Run the kernel so many times."""
    found = kernels()
    if not found:
        raise SystemExit("the kernels cannot be compiled here")
    data, out, scratch, gaps = Fenced(1 << 16), Fenced(1 << 16), Fenced(1 << 16), Fenced(1 << 12)
    context = ZstdContext()
    endings: Counter[str] = Counter()
    for _ in range(count):
        segment, request = hostile(), Request()
        room, scratch_room = DICE.choice([500, 700, 60_000]), DICE.choice([0, 50, 60_000])
        at = data.end - SLACK - len(segment)
        ctypes.memmove(at, segment, len(segment))
        request[DATA], request[END], request[PAYLOAD_SIZE] = at, len(segment), -1
        request[OUT], request[OUT_SIZE] = out.end - SLACK - room, room
        request[SCRATCH], request[SCRATCH_SIZE] = scratch.end - SLACK - scratch_room, scratch_room
        request[GAPS_ROOM] = DICE.choice([0, 3])
        request[GAPS] = gaps.end - 16 * request[GAPS_ROOM]
        request[FIRST_OFFSET] = request[LAST_OFFSET] = -1
        request[LZ4], request[ZSTD], request[ZSTD_CONTEXT] = lz4_function(), zstd_function(), context.address
        request[BATCH_OPS], request[BATCH_MARGIN] = BATCH.address, BATCH.margin
        request[RECORD_OPS], request[CONTROL_OPS] = RECORD.address, CONTROL.address
        request[RECORD_MARGIN] = max(RECORD.margin, CONTROL.margin)
        found.lines(request.address)
        endings[NAMES[request[STATUS]]] += 1
    for name, number in endings.items():
        sys.stdout.write(f"{name} {number}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
