"""Files made to cost time or memory. Each case runs in its own process, which prints the rows and the cost."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cramjam
import lz4.block

from kforensics.parsers.files.source import BytesSource, LocalSource, Source
from kforensics.parsers.format.decompression import decompress
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import Place, batch_row, read_records
from lab.places import ROOT
from tests.parsers.builders import (
    GZIP,
    HEADER,
    LZ4,
    SNAPPY,
    XERIAL,
    ZSTD,
    batch,
    batch_of,
    compressed,
    message,
    varint,
    wrapper,
    zstd,
)

MB = 1 << 20
# Far above what is needed and far below what an unbounded reader takes, because the machine is shared.
MOST_SECONDS = 60
ADDRESS_SPACE = 4 << 30


def _row_kinds(rows: Iterable[Any]) -> list[str]:
    """Return the kinds of rows without repetition, in order: ``Batch``, ``Record`` or a damage reason."""
    return list(dict.fromkeys(getattr(row, "reason", type(row).__name__) for row in rows))


def _walked(source: Source) -> list[str]:
    return _row_kinds(walk(source))


class CountedSource(BytesSource):
    """Counts the requested bytes, a measure that does not depend on the machine."""

    requested = 0

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range."""
        data = super().read(position, length)
        CountedSource.requested += len(data)
        return data


def _log(make: Callable[[], bytes]) -> Callable[[], list[str]]:
    return lambda: _walked(CountedSource(make()))


def _stream(codec: int, make: Callable[[], bytes]) -> Callable[[], list[str]]:
    def run() -> list[str]:
        result = decompress(codec, make())
        return [result.failure.reason if result.failure else "whole", str(len(result.data))]

    return run


def _records(make: Callable[[], bytes]) -> Callable[[], list[str]]:
    def run() -> list[str]:
        source = BytesSource(make())
        return _row_kinds(
            record for row in walk(source) if isinstance(row, Batch) for record in read_records(source, row)
        )

    return run


def _rows_of_batches(make: Callable[[], bytes]) -> Callable[[], list[str]]:
    def run() -> list[str]:
        source = BytesSource(make())
        rows = [row for row in walk(source) if isinstance(row, Batch)]
        return [str(batch_row(Place(None, None, None, None), source, row)[9]) for row in rows]

    return run


def _sparse(head: Callable[[], bytes], size: int, *, with_records: bool = False) -> Callable[[], list[str]]:
    """Return the walk over a file that is sparse after its beginning."""

    def run() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.log")
            path.write_bytes(head())
            os.truncate(path, size)
            with LocalSource(path) as source:
                if not with_records:
                    return _walked(source)
                (row,) = (row for row in walk(source) if isinstance(row, Batch))
                return _row_kinds(read_records(source, row))

    return run


def _gzip_bomb() -> bytes:
    """Return 1 GB of zeros as one deflate block repeated many times."""
    writer = zlib.compressobj(9, wbits=-15)
    block = writer.compress(bytes(16 * MB)) + writer.flush(zlib.Z_FULL_FLUSH)
    return compressed(GZIP, b"")[:10] + block * 64


def _snappy_bomb() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(16 * MB)))
    return XERIAL + (len(block).to_bytes(4, "big") + block) * 64


def _lz4_bomb() -> bytes:
    block: bytes = lz4.block.compress(bytes(4 * MB), store_size=False)
    return bytes.fromhex("04224d18607073") + (len(block).to_bytes(4, "little") + block) * 256 + bytes(4)


def _zstd_bomb() -> bytes:
    writer = zstd.ZstdCompressor(1)
    return b"".join([*(writer.compress(bytes(64 * MB)) for _ in range(16)), writer.flush()])


def _bomb_batch(codec: int, make: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: batch_of(make(), attributes=codec, count=2**31 - 1, last_offset_delta=2**31 - 1)


def _header_of(size: int, **fields: int) -> bytes:
    """Return a header with this size and a wrong checksum."""
    return batch(length=size - 12, crc=5, **fields)


def _old_header_of(size: int) -> bytes:
    return message(crc=5, magic=0)[:8] + (size - 12).to_bytes(4, "big") + message(crc=5, magic=0)[12:18]


def _dice(weights: Iterable[int], size: int) -> bytes:
    return bytes(random.Random(1).choices(list(weights), k=size))  # noqa: S311 - dice for a test


def _flooded() -> bytes:
    """Return the largest flood of headers that fits into a gzip batch."""
    count = 30 * MB
    body = b"\0\0\0\x01\x01" + varint(count) + b"\0\x01" * count
    return batch(varint(len(body)) + body, codec=GZIP, count=1)


def _many_inner() -> bytes:
    """Return a wrapper of several hundred thousand messages."""
    block = b"".join(message(n, None, None, magic=0) for n in range(1000))
    writer = zlib.compressobj(1, wbits=31)
    value = b"".join(writer.compress(block) for _ in range(300)) + writer.flush()
    return wrapper(value=value, magic=0, offset=999)


GOOD = batch()
FAR = 7 * MB
TAIL = b"\xee" * FAR * 2
SMALL_DEFLATE = compressed(GZIP, b"")
CASES: dict[str, tuple[Callable[[], list[str]], list[str]]] = {
    # Decompression bombs of 1 GB
    "gzip bomb": (_stream(GZIP, _gzip_bomb), ["limit", str(128 * MB)]),
    "snappy bomb": (_stream(SNAPPY, _snappy_bomb), ["limit", str(128 * MB)]),
    "lz4 bomb": (_stream(LZ4, _lz4_bomb), ["limit", str(128 * MB)]),
    "zstd bomb": (_stream(ZSTD, _zstd_bomb), ["limit", str(128 * MB)]),
    "snappy lie": (_stream(SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + bytes(90 * MB)), ["limit", "0"]),
    "snappy small lie": (_stream(SNAPPY, lambda: b"\xff\xff\xff\x3f" + bytes(1000)), ["decompression", "0"]),
    "zstd wide window": (
        _stream(ZSTD, lambda: bytes.fromhex("28b52ffd00a8") + b"\x01\0\0"),
        ["decompression", "0"],
    ),
    # Streams with very many parts
    "gzip members": (_stream(GZIP, lambda: SMALL_DEFLATE * 200_000), ["whole", "0"]),
    "zstd frames": (_stream(ZSTD, lambda: b"\x50\x2a\x4d\x18\0\0\0\0" * 100_000), ["whole", "0"]),
    "snappy blocks": (_stream(SNAPPY, lambda: XERIAL + b"\0\0\0\x01\0" * 300_000), ["whole", "0"]),
    "lz4 blocks": (
        _stream(LZ4, lambda: bytes.fromhex("04224d18607073") + b"\x01\0\0\0\0" * 300_000 + bytes(4)),
        ["whole", "0"],
    ),
    # Batches that claim more than they contain
    "bomb in a batch": (_records(_bomb_batch(ZSTD, _zstd_bomb)), ["record-structure"]),
    "largest count": (_records(lambda: batch_of(b"\0" * 7, count=2**31 - 1)), ["record-size"]),
    "largest count of nothing": (_records(lambda: batch_of(b"", count=2**31 - 1)), ["record-count"]),
    "flood of headers": (_records(_flooded), ["limit"]),
    "wrapper of very many": (_rows_of_batches(_many_inner), ["300000"]),
    "uncompressed batch of 512 MB": (
        _sparse(lambda: _header_of(512 * MB, count=1) + varint(512 * MB - 70), 512 * MB, with_records=True),
        ["limit"],
    ),
    # Headers that claim more bytes than exist, all to be checksummed
    "old message of 512 MB": (
        _sparse(lambda: _old_header_of(512 * MB), 512 * MB + 90),
        ["Batch", "crc", "zero-tail"],
    ),
    "twos": (_log(lambda: b"\x02" * (8 * MB)), ["truncated"]),
    "ones": (_log(lambda: b"\x01" * (8 * MB)), ["truncated"]),
    "zeros and twos": (_log(lambda: b"\xff" * 9 + _dice([0, 2], 4 * MB)), ["length"]),
    "zeros, ones and twos": (_log(lambda: b"\xff" * 9 + _dice([0, 0, 0, 0, 1, 2], 4 * MB)), ["length"]),
    "noise": (_log(lambda: b"\xff" * 9 + random.Random(1).randbytes(16 * MB)), ["length"]),  # noqa: S311 - dice
    "zeros": (_sparse(lambda: b"", 64 * MB), ["zero-tail"]),
    "zeros after a batch": (_sparse(lambda: GOOD, 64 * MB), ["Batch", "zero-tail"]),
    "far headers": (_log(lambda: _header_of(4 * MB) * (8 * MB // 61)), ["crc"]),
    "far headers that overlap": (_log(lambda: _header_of(FAR)[:23] * (2 * MB // 23) + TAIL), ["crc"]),
    # The same between valid batches, so that each is a separate damage
    "noise between batches": (_log(lambda: (b"\xee" * 20 + GOOD) * (2 * MB // 81)), ["length", "Batch"]),
    "far headers between batches": (_log(lambda: (_header_of(FAR) + GOOD) * 8000 + TAIL), ["crc", "Batch", "length"]),
    "wild headers between batches": (
        _log(lambda: (_header_of(FAR, base_offset=-1) + GOOD) * 8000 + TAIL),
        ["crc", "Batch", "length"],
    ),
    "old headers between batches": (
        _log(lambda: (_old_header_of(FAR) + GOOD) * 8000 + TAIL),
        ["crc", "Batch", "length"],
    ),
    "near headers between batches": (
        _log(lambda: (_header_of(9000) + GOOD) * 8000),
        ["crc", "Batch", "length"],
    ),
    "headers to the end between batches": (
        _log(lambda: b"".join(_header_of((1500 - n) * 2 * HEADER.size) + GOOD for n in range(1500))),
        ["length", "Batch"],
    ),
}


def main(name: str) -> None:
    """Run a case; print its rows and by how many MB the process grew beyond the input."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    import numpy as np  # loaded before measuring

    assert np.__version__
    list(walk(BytesSource(b"\xee" * 99)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    kinds = CASES[name][0]()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    seconds = round(time.monotonic() - start, 2)
    answer = {"kinds": kinds, "grown": grown, "read": CountedSource.requested // MB, "seconds": seconds}
    print(json.dumps(answer))  # noqa: T201 - the answer


def measured(name: str) -> dict[str, Any]:
    """Return the printed result of a case, run in its own process; fail if it does not end."""
    program = f"import sys; sys.path.append({str(ROOT)!r}); from tests.parsers.hostile import main; main({name!r})"
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=MOST_SECONDS,
        )
    assert ran.returncode == 0, ran.stderr[-2000:]
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer
