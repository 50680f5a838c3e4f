"""Damaged streams of every codec, with a valid CRC and with a wrong one."""

import gzip
from collections.abc import Iterator

from lab.damage.cases import Case, log_case
from lab.damage.forge import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    flip,
    gzipped,
    lz4_framed,
    patch,
    plain,
    snappy_block,
    snappy_framed,
    three,
    zstd_framed,
)

_PLAIN = b"".join(three(6))
_BOMB_BYTES = 8_000_000


def codec_cases() -> Iterator[Case]:
    """The third of five batches is compressed, and damaged."""
    for codec, name, streams in (
        (GZIP, "gzip", _gzip()),
        (SNAPPY, "snappy", _snappy()),
        (LZ4, "lz4", _lz4()),
        (ZSTD, "zstd", _zstd()),
    ):
        for kind, (stream, says) in streams.items():
            yield _case(f"{name}-{kind}", f"{name}: {says}", batch(6, stream, attributes=codec))
        healthy = streams["healthy"][0]
        for count, words in ((2, "too-small"), (4, "too-large"), (-1, "negative"), (0, "zero")):
            says = f"{name}: the batch claims {count} records and holds 3."
            yield _case(f"{name}-count-{words}", says, batch(6, healthy, attributes=codec, count=count, last_delta=2))
        says = f"{name}: a byte of the stream is wrong, and so is the CRC."
        yield _case(f"{name}-bad-crc", says, flip(batch(6, healthy, attributes=codec), 61 + len(healthy) // 2, 0x10))
    yield _case("gzip-bomb", "gzip: a small stream that opens to 8 MB of zeros behind the records.", _bomb())


def _case(name: str, says: str, damaged: bytes) -> Case:
    return log_case(name, says, plain(0) + plain(3) + damaged + plain(9) + plain(12))


def _bomb() -> bytes:
    return batch(6, gzipped(_PLAIN + bytes(_BOMB_BYTES)), attributes=GZIP)


def _gzip() -> dict[str, tuple[bytes, str]]:
    good = gzipped(_PLAIN)
    half = len(_PLAIN) // 2
    return {
        "healthy": (good, "nothing is damaged."),
        "no-stream": (b"", "there is no stream."),
        "bad-magic": (flip(good, 0), "the first byte is wrong."),
        "bad-method": (flip(good, 2), "the compression method is unknown."),
        "cut": (good[: len(good) // 2], "the stream is cut in the middle."),
        "cut-trailer": (good[:-3], "three bytes of the trailer are missing."),
        "bad-trailer-crc": (flip(good, -8), "the trailer's CRC is wrong."),
        "bad-trailer-size": (flip(good, -4), "the trailer's size is wrong."),
        "bad-block": (patch(good, 10, b"\xff\xff\xff"), "the first deflate block is no block."),
        "two-members": (gzipped(_PLAIN[:half]) + gzipped(_PLAIN[half:]), "two members, one behind the other (legal)."),
        "stray-bytes": (good + b"stray", "bytes follow the stream (accepted)."),
        "with-name": (_named(), "the header carries a file name (legal)."),
    }


def _named() -> bytes:
    plain_gzip = gzip.compress(_PLAIN, mtime=0)
    return patch(plain_gzip, 3, b"\x08")[:10] + b"name\x00" + plain_gzip[10:]


def _snappy() -> dict[str, tuple[bytes, str]]:
    good = snappy_framed(_PLAIN)
    block = snappy_block(_PLAIN)
    half = len(_PLAIN) // 2
    return {
        "healthy": (good, "nothing is damaged."),
        "no-stream": (b"", "there is no stream."),
        "bad-magic": (flip(good, 1), "the magic is wrong."),
        "bare-block": (block, "one raw block without the framing (accepted)."),
        "two-blocks": (snappy_framed(_PLAIN[:half], _PLAIN[half:]), "two blocks (legal)."),
        "two-streams": (
            snappy_framed(_PLAIN[:half]) + snappy_framed(_PLAIN[half:]),
            "two streams, one behind the other (accepted).",
        ),
        "strange-version": (patch(good, 8, b"\x00\x00\x00\x63"), "the version is 99 (not checked)."),
        "cut": (good[: len(good) // 2], "the stream is cut in the middle."),
        "cut-header": (good[:12], "the stream ends inside its header."),
        "stray-bytes": (good + b"xy", "two bytes follow the stream (accepted)."),
        "stray-block": (good + b"\x00\x00\x00\x09xy", "a block follows that is not there."),
        "block-size-negative": (patch(good, 16, b"\xff\xff\xff\xf0"), "a block's size is negative."),
        "block-size-zero": (patch(good, 16, bytes(4)), "a block's size is 0."),
        "wrong-size-in-block": (flip(good, 20), "the size a block announces is wrong."),
        "bad-tag": (patch(good, 21, b"\xff"), "a tag of the block is wrong."),
        "copy-from-nowhere": (
            snappy_framed()[:16] + b"\x00\x00\x00\x05" + b"\x20\x05\x40\x00\x00",
            "a copy reaches before the beginning.",
        ),
    }


def _lz4() -> dict[str, tuple[bytes, str]]:
    good = lz4_framed(_PLAIN)
    return {
        "healthy": (good, "nothing is damaged."),
        "no-stream": (b"", "there is no stream."),
        "bad-magic": (flip(good, 0), "the magic is wrong."),
        "bad-header-check": (flip(good, 6), "the header's checksum is wrong."),
        "old-header-check": (lz4_framed(_PLAIN, check=0x1A), "the header's checksum is the wrong one of magic 0."),
        "version-2": (patch(good, 4, b"\xa0"), "the frame version is 2."),
        "dependent-blocks": (patch(good, 4, b"\x40"), "the blocks depend on each other."),
        "reserved-flag": (patch(good, 4, b"\x61"), "a reserved flag is set."),
        "block-size-code-3": (patch(good, 5, b"\x30"), "the block size code is 3."),
        "reserved-block-bits": (patch(good, 5, b"\xc0"), "a reserved bit of the block descriptor is set."),
        "cut-header": (good[:5], "the stream ends inside its header."),
        "cut": (good[: len(good) // 2], "the stream is cut in the middle."),
        "cut-end-mark": (good[:-4], "the end mark is missing."),
        "stray-bytes": (good + b"stray", "bytes follow the end mark (not looked at)."),
        "block-too-large": (patch(good, 7, (0x80010001).to_bytes(4, "little")), "a block is larger than the maximum."),
        "block-garbage": (
            patch(good, 7, len(_PLAIN).to_bytes(4, "little")),
            "a block that says it is compressed is not.",
        ),
        "early-end-mark": (patch(good, 7, bytes(4)), "the end mark comes first."),
    }


def _zstd() -> dict[str, tuple[bytes, str]]:
    good = zstd_framed(_PLAIN)
    half = len(_PLAIN) // 2
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"
    return {
        "healthy": (good, "nothing is damaged."),
        "no-stream": (b"", "there is no stream."),
        "bad-magic": (flip(good, 0), "the magic is wrong."),
        "reserved-bit": (patch(good, 4, b"\x08"), "a reserved bit of the frame header is set."),
        "wild-window": (patch(good, 5, b"\xff"), "the window is wildly large."),
        "cut-header": (good[:5], "the stream ends inside its header."),
        "cut": (good[: len(good) // 2], "the stream is cut in the middle."),
        "reserved-block": (
            patch(good, 6, (len(_PLAIN) << 3 | 7).to_bytes(3, "little")),
            "the type of a block is reserved.",
        ),
        "block-garbage": (
            patch(good, 6, (len(_PLAIN) << 3 | 5).to_bytes(3, "little")),
            "a block that says it is compressed is not.",
        ),
        "stray-bytes": (good + b"stray", "bytes follow the frame."),
        "two-frames": (zstd_framed(_PLAIN[:half]) + zstd_framed(_PLAIN[half:]), "two frames, one behind the other."),
        "skippable-frame": (good + skippable, "a skippable frame follows."),
        "no-last-block": (
            patch(good, 6, (len(_PLAIN) << 3).to_bytes(3, "little")),
            "the last block is not marked as the last.",
        ),
    }
