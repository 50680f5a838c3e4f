"""Zstandard in kernels, through the C functions of Python's own decompressor."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import (
    compiled,
    inlined,
)
from kforensics.parsers.kernels.copies import (
    ENDLESS,
    REFUSED,
)
from kforensics.parsers.kernels.crc import (
    crc32c,
)
from kforensics.parsers.kernels.machine import (
    call_zstd_at_once,
    call_zstd_context,
    call_zstd_create,
    call_zstd_stream,
    load8,
    load32,
    load64,
    shift_right,
    store64,
)
from kforensics.parsers.kernels.symbols import (
    AT_ONCE,
    BEGIN,
    CONTEXT,
    CREATE,
    FREE,
    INPUT,
    INPUT_DONE,
    INPUT_SIZE,
    OUTPUT,
    OUTPUT_DONE,
)

__all__ = ["point", "zstd"]

RUN_BLOCK, COMPRESSED_BLOCK = 1, 2
ZSTD_MAGIC_WORD, SKIPPABLE_MAGIC_WORD = 0xFD2FB528, 0x184D2A50


@inlined
def point(buffer: int, address: int, size: int) -> None:
    """Let a ZSTD_inBuffer or ZSTD_outBuffer be that of some bytes."""
    store64(buffer, address)
    store64(buffer + 8, size)


@inlined
def _zstd_window(at: int) -> int:
    """Return how far a frame may look back: one of known size as far as it likes, one to be skipped not at all."""
    if load32(at) != ZSTD_MAGIC_WORD:
        return 0
    descriptor, window = load8(at + 4), load8(at + 5)
    if descriptor & 0x20:
        return ENDLESS
    return (8 + (window & 7)) << (7 + (window >> 3))


@compiled
def _zstd_is_usual(at: int, size: int) -> bool:
    """Return whether a frame that was decompressed block by block would have been decompressed in one go as well.

    Python's decompressor does that with small ones, and is stricter then: as to the size that the frame says it has,
    and as to compressed blocks of no bytes.
    """
    descriptor = load8(at + 4)
    is_single_segment, size_width = descriptor >> 5 & 1, 1 << (descriptor >> 6)
    if descriptor & 3:
        return False
    at += 6 - is_single_segment
    if size_width > 1 or is_single_segment:
        announced = load64(at) & shift_right(-1, 64 - 8 * size_width)
        if announced + (256 if size_width == 2 else 0) != size:
            return False
        at += size_width
    is_last = 0
    while not is_last:
        head = load32(at) & 0xFFFFFF
        is_last, kind, length = head & 1, head >> 1 & 3, head >> 3
        if kind == COMPRESSED_BLOCK and length == 0:
            return False
        at += 3 + (1 if kind == RUN_BLOCK else length)
    return True


@compiled
def _zstd_frames(function: int, context: int) -> tuple[int, bool]:
    """Return the size of what was decompressed, or ``REFUSED``, and whether a frame holds more than its window."""
    stream, output, given = load64(context + 8 * CONTEXT), context + 8 * OUTPUT, context + 8 * INPUT
    source, length = load64(given), load64(context + 8 * INPUT_SIZE)
    if stream == 0 or call_zstd_context(load64(context + 8 * BEGIN), stream) < 0:
        return REFUSED, False
    done, size, beyond_window = 0, 0, False
    store64(context + 8 * OUTPUT_DONE, 0)
    store64(context + 8 * INPUT_DONE, 0)
    while done < length:
        window = _zstd_window(source + done)
        if window == 0 and load32(source + done) & ~0xF != SKIPPABLE_MAGIC_WORD:
            return REFUSED, False
        # A whole frame of known size would be decompressed in one go, in the lenient way, hence a first byte alone.
        store64(context + 8 * INPUT_SIZE, done + 1)
        if call_zstd_stream(function, stream, output, given) < 0:
            return REFUSED, False
        store64(context + 8 * INPUT_SIZE, length)
        # Not 0: an error, or there is more to come than there is input or room.
        if call_zstd_stream(function, stream, output, given) != 0:
            return REFUSED, False
        held = load64(context + 8 * OUTPUT_DONE) - size
        if window and not _zstd_is_usual(source + done, held):
            return REFUSED, False
        done, size, beyond_window = load64(context + 8 * INPUT_DONE), size + held, beyond_window or held > window
    return size, beyond_window


@compiled
def zstd(function: int, context: int) -> int:
    """Decompress frames with the function that Python's own decompressor calls.

    ``ZSTD_decompressDCtx`` would be 2 % faster, and it is more lenient: with blocks that hold more than they may, with
    windows that are too large and with matches from before the window.
    """
    size, beyond_window = _zstd_frames(function, context)
    if not beyond_window:
        return size
    # A match from before the window may find the bytes of a frame before, or chance. Forged ones alone have such: they
    # look different to a new context, which has no room for more than the window, and to one that keeps everything.
    call_zstd_context(load64(context + 8 * FREE), load64(context + 8 * CONTEXT))
    store64(context + 8 * CONTEXT, call_zstd_create(load64(context + 8 * CREATE)))
    size, _ = _zstd_frames(function, context)
    if size == REFUSED:
        return REFUSED
    target, checksum = load64(context + 8 * OUTPUT), crc32c(load64(context + 8 * OUTPUT), size)
    source, length = load64(context + 8 * INPUT), load64(context + 8 * INPUT_SIZE)
    again = call_zstd_at_once(
        load64(context + 8 * AT_ONCE), load64(context + 8 * CONTEXT), target, size, source, length
    )
    return size if again == size and crc32c(target, size) == checksum else REFUSED
