"""Damage to messages of magic 0 and 1, and to their compressed wrappers."""

import struct
from collections.abc import Iterator, Sequence

from lab.damage.cases import Case, log_case
from lab.damage.forge import (
    GZIP,
    LZ4,
    SNAPPY,
    TIME,
    ZSTD,
    field,
    flip,
    gzipped,
    lz4_framed,
    message,
    patch,
    raw_message,
    snappy_framed,
    zstd_framed,
)

_LAST = 5


def legacy_cases() -> Iterator[Case]:
    """Two good messages, the one in question at offsets up to 5, then two good messages."""
    for magic in (0, 1):
        for name, (damaged, says) in {**_messages(magic), **_wrappers(magic)}.items():
            before = b"".join(message(i, b"key-%d" % i, b"value-%d" % i, magic=magic) for i in (0, 1))
            after = b"".join(message(i, b"key-%d" % i, b"value-%d" % i, magic=magic) for i in (6, 7))
            yield log_case(f"magic-{magic}-{name}", f"Magic {magic}: {says}", before + damaged + after)
    yield from _tails()


def _tails() -> Iterator[Case]:
    good = b"".join(message(i, b"key", b"value", magic=i % 2) for i in range(3))
    yield log_case(
        "legacy-truncated", "Messages of magic 0 and 1; the last one is cut.", good + message(3, b"key", b"value")[:-4]
    )
    yield log_case("legacy-zero-tail", "Messages of magic 0 and 1; 64 zero bytes follow.", good + bytes(64))


def _messages(magic: int) -> dict[str, tuple[bytes, str]]:
    good = message(_LAST, b"key", b"value", magic=magic)

    def rest(content: bytes) -> bytes:
        return raw_message(_LAST, magic, 0, TIME, content)

    return {
        "null-key-and-value": (message(_LAST, None, None, magic=magic), "key and value are null (legal)."),
        "empty-key-and-value": (message(_LAST, b"", b"", magic=magic), "key and value are empty (legal)."),
        "bad-crc": (flip(good, -2), "a byte of the value is wrong, so the CRC does not fit."),
        "size-13": (patch(good, 8, struct.pack(">i", 13)), "the size is 13, one less than the least."),
        "size-14": (rest(b"" if magic else field(b"four")), "the size is 14, and there is no value field."),
        "size-huge": (patch(good, 8, struct.pack(">i", 2**31 - 1)), "the size reaches far beyond the file."),
        "key-length-negative": (rest(field(None, -129) + field(b"value")), "the key length is -129."),
        "value-length-negative": (rest(field(b"key") + field(None, -2)), "the value length is -2."),
        "key-overruns": (rest(field(b"key", 100) + field(b"value")), "the key reaches beyond the message."),
        "value-overruns": (rest(field(b"key") + field(b"value", 100)), "the value reaches beyond the message."),
        "value-missing": (rest(field(b"longer key")), "there is no value field."),
        "stray-bytes": (rest(field(b"key") + field(b"value") + b"stray"), "bytes follow the value."),
        "codec-5": (
            message(_LAST, b"key", b"value", magic=magic, attributes=5),
            "the codec is 5, which does not exist.",
        ),
        "append-time": (message(_LAST, b"key", b"value", magic=magic, attributes=8), "the LogAppendTime bit is set."),
        "time-minus-1": (message(_LAST, b"key", b"value", magic=magic, time=-1), "the timestamp is -1."),
        "offset-goes-back": (message(1, b"key", b"value", magic=magic), "the offset is that of the message before."),
    }


def _inner(magic: int, *, offsets: Sequence[int] = (), attributes: int = 0, inner_magic: int | None = None) -> bytes:
    """Three messages for a wrapper: offsets from 0 for magic 1, as they are for magic 0."""
    places = offsets or ((0, 1, 2) if magic else (3, 4, 5))
    real = magic if inner_magic is None else inner_magic
    pairs = [(place, message(place, b"k", b"v%d" % i, magic=real, time=TIME + i)) for i, place in enumerate(places)]
    if attributes:
        pairs[1] = (places[1], message(places[1], b"k", b"v", magic=real, attributes=attributes))
    return b"".join(entry for _place, entry in pairs)


def _wrapper(
    magic: int, value: bytes | None, codec: int = GZIP, *, offset: int = _LAST, flags: int = 0, key: bytes | None = None
) -> bytes:
    return message(offset, key, value, magic=magic, attributes=codec | flags, time=TIME + 2)


def _wrappers(magic: int) -> dict[str, tuple[bytes, str]]:
    good = _inner(magic)
    check = 0x82 if magic else 0x1A
    last = message(2 if magic else 5, b"k", b"v", magic=magic)
    first_two = good[: len(good) // 3 * 2]
    return {
        "gzip": (_wrapper(magic, gzipped(good)), "a gzip wrapper (legal)."),
        "snappy": (_wrapper(magic, snappy_framed(good), SNAPPY), "a snappy wrapper (legal)."),
        "lz4": (
            _wrapper(magic, lz4_framed(good, check=check), LZ4),
            "an LZ4 wrapper with the checksum Kafka writes (legal).",
        ),
        "lz4-other-check": (
            _wrapper(magic, lz4_framed(good, check=0x82 ^ 0x1A ^ check), LZ4),
            "an LZ4 wrapper with the checksum of the other magic.",
        ),
        "lz4-wrong-check": (
            _wrapper(magic, lz4_framed(good, check=0x55), LZ4),
            "an LZ4 wrapper with a wrong header checksum.",
        ),
        "zstd": (_wrapper(magic, zstd_framed(good), ZSTD), "a zstd wrapper, which this format does not have."),
        "wrapper-codec-6": (_wrapper(magic, gzipped(good), 6), "the codec of a wrapper is 6, which does not exist."),
        "wrapper-append-time": (_wrapper(magic, gzipped(good), flags=8), "a wrapper with the LogAppendTime bit."),
        "wrapper-key": (_wrapper(magic, gzipped(good), key=b"key"), "a wrapper has a key (not looked at)."),
        "wrapper-null": (_wrapper(magic, None), "the value of a wrapper is null."),
        "wrapper-empty": (_wrapper(magic, b""), "the value of a wrapper is empty."),
        "wrapper-nothing-inside": (_wrapper(magic, gzipped(b"")), "a wrapper holds no message."),
        "wrapper-bad-crc": (
            flip(_wrapper(magic, gzipped(good)), 12),
            "the CRC of a wrapper is wrong, its content healthy.",
        ),
        "wrapper-bad-stream": (
            _wrapper(magic, patch(gzipped(good), 10, b"\xff\xff")),
            "the stream of a wrapper is no deflate stream.",
        ),
        "wrapper-cut-stream": (_wrapper(magic, gzipped(good)[:-12]), "the stream of a wrapper is cut."),
        "wrapper-bad-trailer": (
            _wrapper(magic, flip(gzipped(good), -8)),
            "the trailer of a wrapper's stream is wrong.",
        ),
        "wrapper-offset-too-small": (
            _wrapper(magic, gzipped(_inner(1, offsets=(0, 1, 7), inner_magic=magic))),
            "the offset of a wrapper is less than its last inner offset.",
        ),
        "wrapper-offset-0": (_wrapper(magic, gzipped(good), offset=0), "the offset of a wrapper is 0."),
        "wrapper-gaps": (
            _wrapper(magic, gzipped(_inner(magic, offsets=(0, 2, 3) if magic else (2, 4, 5)))),
            "the inner offsets have gaps (legal after compaction).",
        ),
        "inner-absolute": (
            _wrapper(magic, gzipped(_inner(magic, offsets=(3, 4, 5)))),
            "the inner offsets are absolute.",
        ),
        "inner-nested": (
            _wrapper(magic, gzipped(_inner(magic, attributes=GZIP))),
            "an inner message claims to be compressed itself.",
        ),
        "inner-bad-crc": (
            _wrapper(magic, gzipped(first_two + flip(last, -1))),
            "the CRC of the last inner message is wrong.",
        ),
        "inner-cut": (
            _wrapper(magic, gzipped(good + last[:-1])),
            "the last inner message is cut (dropped in silence).",
        ),
        "inner-cut-header": (_wrapper(magic, gzipped(good + last[:7])), "of the last inner message there are 7 bytes."),
        "inner-size-13": (
            _wrapper(magic, gzipped(first_two + patch(last, 8, struct.pack(">i", 13)))),
            "the size of an inner message is 13.",
        ),
        "inner-size-negative": (
            _wrapper(magic, gzipped(first_two + patch(last, 8, struct.pack(">i", -1)))),
            "the size of an inner message is -1.",
        ),
        "inner-size-beyond": (
            _wrapper(magic, gzipped(first_two + patch(last, 8, struct.pack(">i", 9_999)))),
            "the last inner message claims to be larger than the stream (dropped in silence).",
        ),
        "inner-size-huge": (
            _wrapper(magic, gzipped(first_two + patch(last, 8, struct.pack(">i", 2**31 - 1)))),
            "the size of an inner message is wild.",
        ),
        "inner-value-overruns": (
            _wrapper(magic, gzipped(first_two + patch(last, -5, struct.pack(">i", 99)))),
            "an inner value reaches beyond its message.",
        ),
        "inner-other-magic": (
            _wrapper(magic, gzipped(_inner(magic, inner_magic=1 - magic))),
            "wrapper and inner messages differ in magic, as some 0.10 cleaners left them.",
        ),
        "inner-magic-2": (
            _wrapper(magic, gzipped(first_two + patch(last, 16, b"\x02"))),
            "the magic of an inner message is 2.",
        ),
        "inner-magic-minus-1": (
            _wrapper(magic, gzipped(first_two + patch(last, 16, b"\xff"))),
            "the magic of an inner message is -1.",
        ),
    }
