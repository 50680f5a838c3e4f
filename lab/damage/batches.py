"""Damage to the frame of a batch of magic 2: headers, lengths, counts, tails."""

from collections.abc import Iterator

from lab.damage.cases import Case, log_case
from lab.damage.forge import TIME, batch, flip, patch, plain, record, three

_LENGTH, _EPOCH, _MAGIC, _FIRST_RECORD = 8, 12, 16, 61
_BEFORE = plain(0) + plain(3)
_AFTER = plain(9) + plain(12)


def batch_cases() -> Iterator[Case]:
    """Every case has two good batches before the damage, and two after it where that is possible."""
    yield from _tails()
    yield from _lengths()
    yield from _counts()
    yield from _headers()
    yield from _whole_files()


def _tails() -> Iterator[Case]:
    whole = _BEFORE + plain(6)
    yield log_case("truncated-mid-batch", "The last batch ends in the middle of a record.", (whole + plain(9))[:-30])
    yield log_case("truncated-in-header", "Of the last batch there are 40 bytes.", whole + plain(9)[:40])
    yield log_case(
        "truncated-at-17", "Of the last batch there are 17 bytes: too few to be looked at.", whole + plain(9)[:17]
    )
    yield log_case("zero-tail-17", "17 zero bytes follow the last batch: too few to be looked at.", whole + bytes(17))
    yield log_case(
        "zero-tail-18", "18 zero bytes follow the last batch: Kafka's reader refuses them.", whole + bytes(18)
    )
    yield log_case("zero-tail-300", "300 zero bytes follow the last batch, as after a crash.", whole + bytes(300))
    short = patch(plain(9), _LENGTH, (20).to_bytes(4, "big"))[:32]
    says = "The last batch has a length of 20, and the file ends with it, inside the header."
    yield log_case("header-beyond-end", says, whole + short)
    noise = bytes((i * 167 + 91) % 251 for i in range(120))
    yield log_case("noise-tail", "120 bytes of noise follow the last batch.", whole + noise)
    yield log_case("noise-between", "97 bytes of noise lie between two batches.", whole + noise[:97] + _AFTER)
    yield log_case("zeros-between", "A sector of 512 zero bytes lies between two batches.", whole + bytes(512) + _AFTER)


def _lengths() -> Iterator[Case]:
    good = plain(6)
    size = len(good) - 12
    lengths = {
        "zero": (0, "0"),
        "negative": (-5, "-5"),
        "13": (13, "13, one less than the least Kafka takes"),
        "14": (14, "14, the least Kafka takes, so that the next header is read from inside this batch"),
        "20": (20, "20, less than a header of magic 2"),
        "48": (48, "48, one less than an empty batch"),
        "short-by-one": (size - 1, "one byte too small"),
        "long-by-one": (size + 1, "one byte too large"),
        "swallows-next": (size + len(plain(9)), "so large that the next batch belongs to it"),
        "huge": (2**31 - 1, "the largest there is"),
        "minimum": (-(2**31), "the smallest there is"),
    }
    for name, (length, words) in lengths.items():
        damaged = patch(good, _LENGTH, length.to_bytes(4, "big", signed=True))
        yield log_case(f"length-{name}", f"The length of the third batch is {words}.", _BEFORE + damaged + _AFTER)


def _counts() -> Iterator[Case]:
    counts = {"too-small": 2, "too-large": 4, "negative": -1, "zero": 0, "huge": 1_000_000}
    for name, count in counts.items():
        damaged = batch(6, three(6), count=count, last_delta=2)
        says = f"The third batch claims {count} records and holds 3; its CRC is right."
        yield log_case(f"count-{name}", says, _BEFORE + damaged + _AFTER)


def _headers() -> Iterator[Case]:
    good = plain(6)
    damaged = {
        "flipped-payload-bit": (flip(good, -3), "One bit of a value is turned over; the records can still be read."),
        "flipped-structure-bit": (flip(good, _FIRST_RECORD, 2), "One bit of a record's length is turned over."),
        "flipped-crc-bit": (flip(good, 17), "One bit of the CRC itself is turned over."),
        "flipped-base-offset": (flip(good, 6, 4), "One bit of the base offset is turned over, which no CRC covers."),
        "flipped-leader-epoch": (
            flip(good, _EPOCH + 3, 8),
            "One bit of the leader epoch is turned over, which no CRC covers.",
        ),
        "codec-5": (batch(6, three(6), attributes=5), "The codec is 5, which does not exist; the CRC is right."),
        "codec-7": (batch(6, three(6), attributes=7), "The codec is 7, which does not exist; the CRC is right."),
        "unused-attributes": (batch(6, three(6), attributes=0x7F80), "Attribute bits without a meaning are set."),
        "magic-3": (patch(good, _MAGIC, b"\x03"), "The magic is 3: Kafka's file reader takes it for 2."),
        "magic-9": (patch(good, _MAGIC, b"\x09"), "The magic is 9: Kafka's file reader takes it for 2."),
        "magic-0": (patch(good, _MAGIC, b"\x00"), "A batch of magic 2 whose magic byte says 0."),
        "magic-1": (patch(good, _MAGIC, b"\x01"), "A batch of magic 2 whose magic byte says 1."),
        "magic-minus-1": (patch(good, _MAGIC, b"\xff"), "The magic is -1."),
        "magic-minus-128": (patch(good, _MAGIC, b"\x80"), "The magic is -128."),
        "last-delta-negative": (
            batch(6, three(6), last_delta=-247, producer=(9, 0, 5)),
            "The last offset delta is -247.",
        ),
        "last-delta-huge": (batch(6, three(6), last_delta=2**31 - 1), "The last offset delta is the largest there is."),
        "offsets-go-back": (plain(2), "The third batch begins at offset 2, below the end of the second."),
        "written-twice": (plain(3), "The second batch follows once more."),
        "leader-epoch-falls": (plain(6, epoch=-1), "The leader epoch of the third batch is -1."),
        "sequence-wraps": (
            batch(6, three(6), producer=(7, 1, 2**31 - 2)),
            "The sequences wrap from the largest to 0 (legal).",
        ),
        "sequence-negative": (batch(6, three(6), producer=(7, 1, -7)), "The base sequence is -7."),
        "base-offset-negative": (batch(-6, three(6)), "The base offset is negative."),
        "base-offset-largest": (batch(2**63 - 3, three(6)), "The offsets reach the largest 64-bit number."),
        "times-extreme": (
            batch(6, three(6), times=(-(2**63), 2**63 - 1)),
            "The timestamps are the ends of their type.",
        ),
        "times-overflow": (batch(6, three(6), times=(2**63 - 1, 0)), "Timestamp plus delta overflows."),
        "append-time": (
            batch(6, three(6), attributes=8, times=(TIME, TIME + 77)),
            "LogAppendTime in one batch (legal).",
        ),
        "delete-horizon": (_with_horizon(), "A delete horizon, with large negative timestamp deltas (legal)."),
        "empty-batch": (
            batch(6, [], last_delta=2, producer=(7, 1, 3), times=(-1, TIME)),
            "An emptied batch as the cleaner leaves it (legal).",
        ),
        "offset-deltas-shuffled": (batch(6, [three(6)[i] for i in (2, 0, 1)]), "The offset deltas run 2, 0, 1."),
        "offset-delta-beyond-last": (batch(6, three(6), last_delta=1), "An offset delta lies beyond the last one."),
    }
    for name, (content, says) in damaged.items():
        yield log_case(name, says, _BEFORE + content + _AFTER)


def _with_horizon() -> bytes:
    day = 86_400_000
    records = [record(i, b"key-%d" % i, None, time=i - day) for i in range(3)]
    return batch(6, records, attributes=0x40, times=(TIME + day, TIME + 2))


def _whole_files() -> Iterator[Case]:
    yield log_case("no-bytes", "The segment is empty.", b"")
    yield log_case("one-byte", "The segment is one byte long.", b"\x00")
    yield log_case(
        "only-header", "The segment holds the header of a batch of which nothing else is there.", plain(0)[:61]
    )
    yield log_case("only-zeros", "The segment is preallocated and nothing was ever written.", bytes(2048))
    yield log_case("not-a-log", "A text lies where a segment should be.", b"This is no segment of Kafka's.\n" * 6)
    first = plain(0)
    yield log_case(
        "first-batch-damaged", "The very first batch has a length of 0.", patch(first, _LENGTH, bytes(4)) + _AFTER
    )
    yield Case("segment-base-above-0-0", "The name says 100, the first batch 0.", {"00000000000000000100.log": _BEFORE})
    yield Case("name-not-a-number-0", "The name of the segment is no number.", {"segment.log": _BEFORE})
    yield Case("name-short-0", "The name of the segment has 4 digits.", {"0100.log": plain(100)})
    yield Case("renamed-0", "Files on their way out or in, complete and healthy.", _renamed())


def _renamed() -> dict[str, bytes]:
    base = "0000000000000000000"
    return {
        f"{base}0.log": _BEFORE,
        f"{base}6.log.deleted": plain(6),
        f"{base}9.log.swap": plain(9),
        f"{base}9.log.cleaned": b"",
    }
