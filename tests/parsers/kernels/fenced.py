"""Runs the line kernel on hostile segments between inaccessible pages, and counts how the runs ended.

``python -m tests.parsers.kernels.fenced COUNT``, in a process of its own: an access out of bounds ends it.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from collections import Counter

from kforensics.parsers.kernels.host_codecs import ZstdContext, lz4_function, zstd_function
from kforensics.parsers.kernels.library import Request, load_kernels
from kforensics.parsers.kernels.request import SLACK, SLOT
from kforensics.parsers.kernels.templates import If, Template
from tests.parsers.builders import CRC_START, LENGTH_END, batch, record, sealed, varint

STATUSES = ("done", "incomplete", "full", "declined", "needs host codec")
LABELS: dict[str, tuple[str, ...]] = {"codec": ("none", "gzip", "snappy", "lz4", "zstd")}
BATCH = Template(["batch {base_offset} {last_offset} {count} {codec} {crc}\n"], LABELS)
RECORD = Template(
    ["{offset} {timestamp} {sequence} [{header_keys}]", If("has_key", " {key}"), If("has_value", " {value}"), "\n"], {}
)
CONTROL = Template(["{offset} {control_type} {coordinator_epoch}\n"], {})
DICE = random.Random(11)  # noqa: S311 - dice for a test
TRICKY = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xC3, 0xE2, 0xED, 0xF0, 0xFE, 0xFF)
SIZES = (-(2**31), -1, 0, 1, 5, 60, 2**20, 2**28, 2**31 - 1)


class Fenced:
    """Memory between two inaccessible pages."""

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
    """Return a segment of some batches, most of them damaged but with a correct checksum."""
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
    """Run the kernel on so many segments."""
    kernels = load_kernels()
    if not kernels:
        raise SystemExit("the kernels cannot be compiled here")
    data, out, scratch, gaps = Fenced(1 << 16), Fenced(1 << 16), Fenced(1 << 16), Fenced(1 << 12)
    context = ZstdContext()
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        segment, request = hostile(), Request()
        room, scratch_room = DICE.choice([500, 700, 60_000]), DICE.choice([0, 50, 60_000])
        address = data.end - SLACK - len(segment)
        ctypes.memmove(address, segment, len(segment))
        request[SLOT.data], request[SLOT.end], request[SLOT.payload_size] = address, len(segment), -1
        request[SLOT.out], request[SLOT.out_size] = out.end - SLACK - room, room
        request[SLOT.scratch], request[SLOT.scratch_size] = scratch.end - SLACK - scratch_room, scratch_room
        request[SLOT.gaps_capacity] = DICE.choice([0, 3])
        request[SLOT.gaps] = gaps.end - 16 * request[SLOT.gaps_capacity]
        request[SLOT.first_offset] = request[SLOT.last_offset] = -1
        request[SLOT.lz4_function], request[SLOT.zstd_function], request[SLOT.zstd_context] = (
            lz4_function(),
            zstd_function(),
            context.address,
        )
        request[SLOT.batch_ops], request[SLOT.batch_margin] = BATCH.address, BATCH.margin
        request[SLOT.record_ops], request[SLOT.control_ops] = RECORD.address, CONTROL.address
        request[SLOT.record_margin] = max(RECORD.margin, CONTROL.margin)
        kernels.lines(request.address)
        outcomes[STATUSES[request[SLOT.status]]] += 1
    for name, number in outcomes.items():
        sys.stdout.write(f"{number} {name}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
