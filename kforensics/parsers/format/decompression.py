"""Decompresses batches up to a byte budget: returns every byte before a failure, and the failure as Kafka reports it.

Rules: on-disk formats of ``org.apache.kafka.common.compress``: gzip (RFC 1952), LZ4 frames (KIP-57 for the variant of
message format 0), snappy in xerial frames, zstd (RFC 8878). No format stores a decompressed size that can be trusted.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from types import ModuleType

from kforensics.parsers.format.failures import unknown_codec
from kforensics.parsers.format.rows import Failure

DEFAULT_BUDGET = 128 << 20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

IO, EOF = "java.io.IOException", "java.io.EOFException"
ZIP, RUNTIME = "java.util.zip.ZipException", "java.lang.RuntimeException"
ZSTD_EXCEPTION = "com.github.luben.zstd.ZstdIOException"
# Sizes of input and output chunks: a decompression bomb or a failure costs at most one chunk.
INPUT_CHUNK, OUTPUT_CHUNK = 1 << 12, 1 << 20
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE = 16
SNAPPY_RATIO = 64
GZIP_HEADER, GZIP_TRAILER = 10, 8
LZ4_EXCEPTION = "net.jpountz.lz4.LZ4Exception"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
INCOMPRESSIBLE = 0x80000000
# From 3.14 on in the standard library. An interpreter may have the extension built in, and may hide its functions.
ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
ZSTD_EXTENSION = "_zstd" if sys.version_info >= (3, 14) else "backports.zstd._zstd"


@dataclass(frozen=True, slots=True)
class Decompressed:
    """The output of a codec.

    Attributes:
        data: the bytes before the failure; all bytes if there is none.
        failure: why decompression stopped, with the codec's own exception, not yet wrapped by Kafka.
        at_open: whether Kafka meets the failure when it opens the stream, before it reads a record.
    """

    data: bytes
    failure: Failure | None = None
    at_open: bool = False


class _Stop(Exception):  # noqa: N818  # control flow of this module, not an error of the package
    """Stops a codec; carries the failure."""

    def __init__(self, failure: Failure, *, at_open: bool = False) -> None:
        super().__init__(failure, at_open)
        self.failure, self.at_open = failure, at_open


def decompress(codec: int, data: bytes, origin: int = 0, magic: int = 2, budget: int = DEFAULT_BUDGET) -> Decompressed:
    """Return the decompressed bytes of one batch or wrapper message.

    Args:
        codec: codec number from the attributes; 0 returns the data unchanged.
        data: the compressed bytes.
        origin: their position in the batch, because one of Kafka's messages counts from the batch's first byte.
        magic: message format; by design, LZ4 frames in format 0 have a wrong header checksum.
        budget: maximum number of bytes to return; if there are more, the failure has the reason ``limit``.
    """
    if codec == 0:
        return Decompressed(data) if len(data) <= budget else Decompressed(data[:budget], over_budget(budget))
    decoder = _DECODERS.get(codec)
    if decoder is None:
        return Decompressed(b"", unknown_codec(codec), at_open=True)
    out = bytearray()
    try:
        for chunk in decoder(data, origin, magic, budget):
            out += chunk
            if len(out) > budget:
                del out[budget:]
                return Decompressed(bytes(out), over_budget(budget))
    except _Stop as stop:
        return Decompressed(bytes(out), stop.failure, stop.at_open)
    return Decompressed(bytes(out))


def decompressed_chunks(codec: int, data: bytes, budget: int = DEFAULT_BUDGET) -> Iterator[bytes | Failure]:
    """Yield the bytes of one format 2 batch that :func:`decompress` returns, chunk by chunk; a failure comes last.

    Args:
        codec: codec number from the attributes, not 0.
        data: the compressed bytes.
        budget: maximum number of bytes; if there are more, the failure has the reason ``limit``.
    """
    decoder, size = _DECODERS.get(codec), 0
    if decoder is None:
        yield unknown_codec(codec)
        return
    try:
        for chunk in decoder(data, 0, 2, budget):
            size += len(chunk)
            if size > budget:
                yield over_budget(budget)
                return
            yield chunk
    except _Stop as stop:
        yield stop.failure


def over_budget(budget: int) -> Failure:
    """Return the failure of a batch whose decompressed bytes exceed the budget."""
    message = f"decompressed data exceed {budget} bytes; raise --max-decompressed-bytes to read on"
    return Failure("limit", "java.lang.OutOfMemoryError", message)


def _bad(exception: str, message: str | None) -> Failure:
    return Failure("decompression", exception, message)


# gzip ----------------------------------------------------------------------------------------------------------------


def _gzip(data: bytes, _origin: int, _magic: int, _budget: int) -> Iterator[bytes]:
    position = _gzip_header(data, 0, at_open=True)
    while True:
        position = yield from _gzip_member(data, position)
        # GZIPInputStream silently treats anything that is not another member as padding.
        try:
            position = _gzip_header(data, position, at_open=False)
        except _Stop:
            return


def _gzip_header(data: bytes, start: int, *, at_open: bool) -> int:
    """Check the member header at ``start`` and return the position after it."""
    fixed_part = data[start : start + GZIP_HEADER]
    # Check field by field, as Java reads them: the first fields of a truncated header still count.
    if len(fixed_part) > 1 and fixed_part[:2] != b"\x1f\x8b":
        raise _Stop(_bad(ZIP, "Not in GZIP format"), at_open=at_open)
    deflate = 8
    if fixed_part[2:3] not in (b"", bytes([deflate])):
        raise _Stop(_bad(ZIP, "Unsupported compression method"), at_open=at_open)
    if len(fixed_part) < GZIP_HEADER:
        raise _Stop(_bad(EOF, None), at_open=at_open)
    flags = fixed_part[3]
    has_crc, has_extra, texts = flags & 2, flags & 4, (flags & 8, flags & 16)
    end = start + GZIP_HEADER
    if has_extra:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for _ in filter(None, texts):
        zero = data.find(b"\0", end)
        end = len(data) + 1 if zero < 0 else zero + 1
    if has_crc and end <= len(data):
        if zlib.crc32(data[start:end]) & 0xFFFF != int.from_bytes(data[end : end + 2], "little"):
            raise _Stop(_bad(ZIP, "Corrupt GZIP header"), at_open=at_open)
        end += 2
    if end > len(data):
        raise _Stop(_bad(EOF, None), at_open=at_open)
    return end


def _gzip_member(data: bytes, start: int) -> Generator[bytes, None, int]:
    """Yield the content of the member whose header ends at ``start``; return the position after its trailer."""
    member, checksum, size = zlib.decompressobj(wbits=-15), 0, 0
    # Use small chunks, because the output of a chunk that fails is lost.
    for position in range(start, len(data), INPUT_CHUNK):
        chunk = data[position : position + INPUT_CHUNK]
        end = position + len(chunk)
        while chunk and not member.eof:
            try:
                out = member.decompress(chunk, OUTPUT_CHUNK)
            except zlib.error as problem:
                raise _Stop(_bad(ZIP, str(problem).rpartition(": ")[2])) from None
            checksum, size = zlib.crc32(out, checksum), size + len(out)
            yield out
            chunk = member.unconsumed_tail
        if member.eof:
            end -= len(member.unused_data)
            _check_gzip_trailer(data[end : end + GZIP_TRAILER], checksum, size)
            return end + GZIP_TRAILER
    raise _Stop(_bad(EOF, "Unexpected end of ZLIB input stream"))


def _check_gzip_trailer(trailer: bytes, checksum: int, size: int) -> None:
    for field, computed in ((trailer[:4], checksum), (trailer[4:], size & 0xFFFFFFFF)):
        if len(field) < GZIP_TRAILER // 2:
            raise _Stop(_bad(EOF, None))
        if int.from_bytes(field, "little") != computed:
            raise _Stop(_bad(ZIP, "Corrupt GZIP trailer"))


# zstd ----------------------------------------------------------------------------------------------------------------


def zstd_module() -> ModuleType:
    """Return Python's module for zstd, which is loaded only if needed."""
    return import_module(ZSTD_MODULE)


def _zstd(data: bytes, _origin: int, _magic: int, _budget: int) -> Iterator[bytes]:
    zstd = zstd_module()
    position = 0
    while position < len(data):
        frame = zstd.ZstdDecompressor()
        for start in range(position, len(data), INPUT_CHUNK):
            chunk = data[start : start + INPUT_CHUNK]
            try:
                yield frame.decompress(chunk, OUTPUT_CHUNK)
                while not frame.eof and not frame.needs_input:
                    yield frame.decompress(b"", OUTPUT_CHUNK)
            except zstd.ZstdError as problem:
                raise _Stop(_bad(ZSTD_EXCEPTION, str(problem).rpartition(": ")[2])) from None
            if frame.eof:
                position = start + len(chunk) - len(frame.unused_data)
                break
        else:
            raise _Stop(_bad(ZSTD_EXCEPTION, "Truncated source"))


# snappy --------------------------------------------------------------------------------------------------------------


def _snappy(data: bytes, _origin: int, _magic: int, budget: int) -> Iterator[bytes]:
    if not data:
        text = "[EMPTY_INPUT] Cannot decompress empty stream"
        raise _Stop(_bad("org.xerial.snappy.SnappyIOException", text), at_open=True)
    if len(data) < XERIAL_HEADER_SIZE or data[:8] != XERIAL_MAGIC:
        yield _snappy_block(data, budget, at_open=True)
        return
    position = XERIAL_HEADER_SIZE
    while position + 4 <= len(data):
        # Concatenated streams: another header may follow in place of a block length.
        if data[position : position + 8] == XERIAL_MAGIC:
            position += XERIAL_HEADER_SIZE
            continue
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        if length < 0:
            text = f"[INVALID_CHUNK_SIZE] chunkSize is too big or negative : {length}"
            raise _Stop(_bad("org.xerial.snappy.SnappyError", text))
        position += 4
        block = data[position : position + length]
        if len(block) < length:
            raise _Stop(_bad(IO, "failed to read chunk"))
        yield _snappy_block(block, budget, at_open=False)
        position += length


def _snappy_block(block: bytes, budget: int, *, at_open: bool) -> bytes:
    import cramjam  # loaded only if needed

    size = _snappy_size(block)
    if size is None:
        raise _Stop(_bad(IO, "PARSING_ERROR(2)"), at_open=at_open)
    # Three bytes produce at most 64. A block that claims more is corrupt; do not allocate what it claims.
    if size > SNAPPY_RATIO * len(block):
        raise _Stop(_bad(IO, "FAILED_TO_UNCOMPRESS(5)"), at_open=at_open)
    if size > budget:
        raise _Stop(over_budget(budget), at_open=at_open)
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError:
        raise _Stop(_bad(IO, "FAILED_TO_UNCOMPRESS(5)"), at_open=at_open) from None


def _snappy_size(block: bytes) -> int | None:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return size
    return None


# lz4 -----------------------------------------------------------------------------------------------------------------


def _lz4(data: bytes, origin: int, magic: int, _budget: int) -> Iterator[bytes]:
    import lz4.block  # loaded only if needed

    flags, max_block, position = _lz4_frame(data, magic)
    checksum = bool(flags & 0x10)
    while True:
        head = data[position : position + 4]
        if len(head) < 4:
            raise _Stop(_bad(IO, "Stream ended prematurely"))
        word = int.from_bytes(head, "little")
        length = word & ~INCOMPRESSIBLE
        position += 4
        if length == 0:
            return
        if length > max_block:
            raise _Stop(_bad(IO, f"Block size {length} exceeded max: {max_block}"))
        block = data[position : position + length]
        position += length
        if len(block) < length or len(data) < position + 4 * checksum:
            raise _Stop(_bad(IO, "Stream ended prematurely"))
        if checksum and _xxh32(block) != int.from_bytes(data[position : position + 4], "little"):
            raise _Stop(_bad(IO, "Block checksum mismatch"))
        position += 4 * checksum
        try:
            yield block if word & INCOMPRESSIBLE else lz4.block.decompress(block, uncompressed_size=max_block)
        except lz4.block.LZ4BlockError as error:
            raise _Stop(_bad_block(error, origin + position - length - 4 * checksum)) from None


def _bad_block(error: Exception, start: int) -> Failure:
    """Return the failure of a block; Kafka counts the offset from the beginning of the batch."""
    position = start + int(str(error).rpartition(" ")[2])
    text = f"Error decoding offset {position} of input buffer"
    return Failure("decompression", IO, f"{LZ4_EXCEPTION}: {text}", ((LZ4_EXCEPTION, text),))


def _lz4_frame(data: bytes, magic: int) -> tuple[int, int, int]:
    """Check the frame descriptor; return its flags, the maximum block size and the position of the first block."""
    if len(data) < 7:
        raise _Stop(_bad(IO, "Stream ended prematurely"), at_open=True)
    if data[:4] != LZ4_MAGIC:
        raise _Stop(_bad(IO, "Stream unsupported (invalid magic bytes)"), at_open=True)
    flags, sizes = data[4], data[5]
    problem = _lz4_flag_problem(flags) or _lz4_size_problem(sizes)
    if problem:
        raise _Stop(_bad(RUNTIME, problem), at_open=True)
    end = 14 if flags & 0x08 else 6
    if len(data) <= end:
        raise _Stop(_bad(IO, "Stream ended prematurely"), at_open=True)
    # Clients of format 0 included the frame magic in the checksum (KIP-57); Kafka does not verify it there.
    if magic > 0 and _xxh32(data[4:end]) >> 8 & 0xFF != data[end]:
        raise _Stop(_bad(IO, "Stream frame descriptor corrupted"), at_open=True)
    return flags, 1 << (8 + 2 * (sizes >> 4 & 7)), end + 1


def _lz4_flag_problem(flags: int) -> str | None:
    if flags & 0x03:
        return "Reserved bits must be 0"
    if not flags & 0x20:
        return "Dependent block stream is unsupported"
    return None if flags >> 6 == 1 else f"Version {flags >> 6} is unsupported"


def _lz4_size_problem(sizes: int) -> str | None:
    if sizes & 0x0F:
        return "Reserved2 field must be 0"
    if not 4 <= sizes >> 4 & 7 <= 7:
        return "Block size value must be between 4 and 7"
    return "Reserved3 field must be 0" if sizes & 0x80 else None


PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
WORD = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    value &= WORD
    return (value << bits | value >> 32 - bits) & WORD


def _xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0. Pure Python is fast enough: descriptors are short and block checksums rare."""
    stripes = len(data) // 16 * 16
    lanes = [PRIME_1 + PRIME_2 & WORD, PRIME_2, 0, -PRIME_1 & WORD]
    for start in range(0, stripes, 16):
        for lane in range(4):
            word = int.from_bytes(data[start + 4 * lane : start + 4 * lane + 4], "little")
            lanes[lane] = _rotate(lanes[lane] + word * PRIME_2, 13) * PRIME_1 & WORD
    total = sum(_rotate(v, r) for v, r in zip(lanes, (1, 7, 12, 18), strict=True)) if stripes else PRIME_5
    total += len(data)
    words_end = stripes + (len(data) - stripes) // 4 * 4
    for start, end in pairwise(range(stripes, words_end + 4, 4)):
        total = _rotate(total + int.from_bytes(data[start:end], "little") * PRIME_3, 17) * PRIME_4
    for byte in data[words_end:]:
        total = _rotate(total + byte * PRIME_5, 11) * PRIME_1
    total &= WORD
    for shift, prime in ((15, PRIME_2), (13, PRIME_3), (16, 1)):
        total = (total ^ total >> shift) * prime & WORD
    return total


_DECODERS = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
