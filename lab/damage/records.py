"""Damage inside records of magic 2, with a valid CRC, in an uncompressed and in a gzip batch."""

from collections.abc import Iterator

from lab.damage.cases import Case, log_case
from lab.damage.forge import GZIP, batch, gzipped, plain, record, record_body, sized, text, three, varint

_LONG_VARINT = b"\x80\x80\x80\x80\x80\x01"
_LENIENT_VARINT = b"\x80\x80\x80\x80\x00"
_LONG_VARLONG = b"\x80" * 10 + b"\x01"


def record_cases() -> Iterator[Case]:
    """The second of three records is damaged; two good batches come before and after."""
    for name, (damaged, says) in _second_records().items():
        yield _between(name, f"{says} Uncompressed.", [three(6)[0], damaged, three(6)[2]], 0)
        yield _between(f"{name}-gzip", f"{says} Compressed.", [three(6)[0], damaged, three(6)[2]], GZIP)
    yield log_case(
        "strange-text", "Keys, values and header keys that are hard to print; nothing is damaged.", _strange()
    )


def _between(name: str, says: str, records: list[bytes], codec: int) -> Case:
    payload = b"".join(records)
    damaged = batch(6, gzipped(payload) if codec else payload, attributes=codec)
    return log_case(name, says, plain(0) + plain(3) + damaged + plain(9) + plain(12))


def _second_records() -> dict[str, tuple[bytes, str]]:
    body = record_body(1, b"key", b"value", time=1)
    start = b"\x00" + varint(1) + varint(1)
    return {
        "record-length-negative": (sized(body, -1), "A record's length is negative."),
        "record-length-zero": (sized(body, 0), "A record's length is 0."),
        "record-length-short": (sized(body, len(body) - 1), "A record's length is one too small."),
        "record-length-long": (sized(body, len(body) + 1), "A record's length is one too large."),
        "record-length-beyond": (sized(body, 10_000), "A record's length reaches beyond the batch."),
        "record-length-overlong": (_LONG_VARINT + body, "A record's length is a varint of six bytes."),
        "record-length-lenient": (
            bytes([len(body) << 1 | 0x80]) + _LENIENT_VARINT[1:] + body,
            "A record's length is written in five bytes (accepted).",
        ),
        "record-too-short": (sized(b"\x00\x02"), "A record ends behind its timestamp."),
        "time-delta-overlong": (
            sized(b"\x00" + _LONG_VARLONG + b"\x02\x06key\x0avalue\x00"),
            "A timestamp delta is a varlong of eleven bytes.",
        ),
        "offset-delta-overlong": (
            sized(b"\x00\x02" + _LONG_VARINT + b"\x06key\x0avalue\x00"),
            "An offset delta is a varint of six bytes.",
        ),
        "offset-delta-negative": (record(-3, b"key", b"value"), "An offset delta is negative."),
        "key-length-negative": (
            sized(start + varint(-77) + text(b"value") + b"\x00"),
            "A key length is -77 (read as null).",
        ),
        "key-length-beyond-record": (
            sized(start + varint(20) + b"key" + text(b"value") + b"\x00"),
            "A key reaches beyond its record.",
        ),
        "key-length-beyond-batch": (
            sized(start + varint(9_999) + b"key" + text(b"value") + b"\x00"),
            "A key reaches beyond the batch.",
        ),
        "key-length-overlong": (
            sized(start + _LONG_VARINT + text(b"value") + b"\x00"),
            "A key length is a varint of six bytes.",
        ),
        "value-length-negative": (
            sized(start + text(b"key") + varint(-2) + b"\x00"),
            "A value length is -2 (read as null).",
        ),
        "value-length-beyond-record": (
            sized(start + text(b"key") + varint(17) + b"value\x00"),
            "A value reaches beyond its record.",
        ),
        "value-length-beyond-batch": (
            sized(start + text(b"key") + varint(9_999) + b"value\x00"),
            "A value reaches beyond the batch.",
        ),
        "header-count-negative": (_with_headers(varint(-1)), "A header count is negative."),
        "header-count-beyond": (_with_headers(varint(1_000_000)), "A header count is wild."),
        "header-count-too-large": (
            _with_headers(varint(2) + text(b"h") + text(b"1")),
            "A header count is one too large.",
        ),
        "header-count-too-small": (
            _with_headers(varint(0) + text(b"h") + text(b"1")),
            "A header count is one too small.",
        ),
        "header-key-negative": (_with_headers(varint(1) + varint(-1) + text(b"1")), "A header has no key."),
        "header-key-beyond": (
            _with_headers(varint(1) + varint(500) + b"h" + text(b"1")),
            "A header key reaches beyond the batch.",
        ),
        "header-value-beyond": (
            _with_headers(varint(1) + text(b"h") + varint(500) + b"1"),
            "A header value reaches beyond the batch.",
        ),
        "header-value-null": (_with_headers(varint(1) + text(b"h") + varint(-1)), "A header value is null (legal)."),
        "attributes-set": (sized(b"\x7f" + body[1:]), "The unused attributes of a record are set."),
    }


def _with_headers(headers: bytes) -> bytes:
    return sized(record_body(1, b"key", b"value", headers=headers))


def _strange() -> bytes:
    texts = [
        b"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
        b"two\nlines\r\nand\ta tab\x00and a zero",
        b"\xff\xfe\xfa not UTF-8 \xc3\x28 \xe2\x82 \xf0\x9f\x98",
        b"surrogates \xed\xa0\xbd\xed\xb8\x80 \xed\xa0\xbd \xed\xb0\x80 \xed\xa0",
        b"overlong \xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf \xf8\x88\x80\x80\x80 \xf4\x90\x80\x80",
        b"\x1b[31mred\x1b[0m \xe2\x80\xae right to left",
        b" ",
        b"",
    ]
    headers = varint(len(texts)) + b"".join(text(each) + text(each) for each in texts)
    records = [record(i, each, each) for i, each in enumerate(texts)]
    return batch(0, [*records, record(len(texts), b"k", b"v", headers=headers)])
