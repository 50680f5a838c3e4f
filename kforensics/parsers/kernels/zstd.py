"""Zstandard decompression in kernels, through the C functions of Python's own decompressor."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.crc import crc32c
from kforensics.parsers.kernels.host_codecs import (
    AT_ONCE,
    CONTEXT,
    CREATE,
    FREE,
    INPUT,
    INPUT_DONE,
    INPUT_SIZE,
    NOT_DECOMPRESSED,
    OUTPUT,
    OUTPUT_DONE,
    RESET,
)
from kforensics.parsers.kernels.intrinsics import (
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

RUN_BLOCK, COMPRESSED_BLOCK = 1, 2
ZSTD_MAGIC_WORD, SKIPPABLE_MAGIC_WORD = 0xFD2FB528, 0x184D2A50
# In place of the window of a frame with a known size: its matches may reach back to the start of the frame.
WHOLE_FRAME = 1 << 40


@inlined
def set_buffer(buffer: int, address: int, size: int) -> None:
    """Set the address and size in a ZSTD_inBuffer or ZSTD_outBuffer."""
    store64(buffer, address)
    store64(buffer + 8, size)


@inlined
def _window_size(frame: int) -> int:
    """Return how far the matches of a frame may reach back, 0 for a skippable frame or no frame."""
    if load32(frame) != ZSTD_MAGIC_WORD:
        return 0
    descriptor, window = load8(frame + 4), load8(frame + 5)
    if descriptor & 0x20:
        return WHOLE_FRAME
    return (8 + (window & 7)) << (7 + (window >> 3))


@compiled
def _is_strictly_valid(address: int, size: int) -> bool:
    """Return whether decompressing a frame in one call would accept what decompressing it block by block accepted.

    Python's decompressor handles small frames in one call, which is stricter: the frame's content size must be right,
    and no compressed block may be empty.
    """
    descriptor = load8(address + 4)
    is_single_segment, size_width = descriptor >> 5 & 1, 1 << (descriptor >> 6)
    if descriptor & 3:
        return False
    address += 6 - is_single_segment
    if size_width > 1 or is_single_segment:
        content_size = load64(address) & shift_right(-1, 64 - 8 * size_width)
        if content_size + (256 if size_width == 2 else 0) != size:
            return False
        address += size_width
    is_last = 0
    while not is_last:
        head = load32(address) & 0xFFFFFF
        is_last, kind, length = head & 1, head >> 1 & 3, head >> 3
        if kind == COMPRESSED_BLOCK and length == 0:
            return False
        address += 3 + (1 if kind == RUN_BLOCK else length)
    return True


@compiled
def _decompress_frames(function: int, context: int) -> tuple[int, bool]:
    """Return the decompressed size, or ``NOT_DECOMPRESSED``, and whether a frame is larger than its window."""
    stream, output, given = load64(context + 8 * CONTEXT), context + 8 * OUTPUT, context + 8 * INPUT
    source, length = load64(given), load64(context + 8 * INPUT_SIZE)
    if stream == 0 or call_zstd_context(load64(context + 8 * RESET), stream) < 0:
        return NOT_DECOMPRESSED, False
    done, size, beyond_window = 0, 0, False
    store64(context + 8 * OUTPUT_DONE, 0)
    store64(context + 8 * INPUT_DONE, 0)
    while done < length:
        window = _window_size(source + done)
        if window == 0 and load32(source + done) & ~0xF != SKIPPABLE_MAGIC_WORD:
            return NOT_DECOMPRESSED, False
        # Given a complete frame of known size, zstd would decompress it in one call, leniently. So it gets the first
        # byte alone.
        store64(context + 8 * INPUT_SIZE, done + 1)
        if call_zstd_stream(function, stream, output, given) < 0:
            return NOT_DECOMPRESSED, False
        store64(context + 8 * INPUT_SIZE, length)
        # Not 0: an error, or the frame needs more input or more room.
        if call_zstd_stream(function, stream, output, given) != 0:
            return NOT_DECOMPRESSED, False
        frame_size = load64(context + 8 * OUTPUT_DONE) - size
        if window and not _is_strictly_valid(source + done, frame_size):
            return NOT_DECOMPRESSED, False
        done, size = load64(context + 8 * INPUT_DONE), size + frame_size
        beyond_window = beyond_window or frame_size > window
    return size, beyond_window


@compiled
def decompress_zstd(function: int, context: int) -> int:
    """Decompress frames with the function that Python's own decompressor calls.

    ``ZSTD_decompressDCtx`` would be 2 % faster but is more lenient: it accepts oversized blocks, oversized windows and
    matches that begin before the window.

    Returns:
        the decompressed size, or ``NOT_DECOMPRESSED``.
    """
    size, beyond_window = _decompress_frames(function, context)
    if not beyond_window:
        return size
    # A match that begins before the window may copy bytes of an earlier frame, or arbitrary memory. Only forged frames
    # have such matches. They decompress differently in a new context, which has room for the window only, and in one
    # that keeps everything.
    call_zstd_context(load64(context + 8 * FREE), load64(context + 8 * CONTEXT))
    store64(context + 8 * CONTEXT, call_zstd_create(load64(context + 8 * CREATE)))
    size, _ = _decompress_frames(function, context)
    if size == NOT_DECOMPRESSED:
        return NOT_DECOMPRESSED
    target, checksum = load64(context + 8 * OUTPUT), crc32c(load64(context + 8 * OUTPUT), size)
    source, length = load64(context + 8 * INPUT), load64(context + 8 * INPUT_SIZE)
    size_at_once = call_zstd_at_once(
        load64(context + 8 * AT_ONCE), load64(context + 8 * CONTEXT), target, size, source, length
    )
    return size if size_at_once == size and crc32c(target, size) == checksum else NOT_DECOMPRESSED
