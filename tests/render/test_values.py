import base64
import io
import json

import pytest

from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.formats import BytesFormat, Format
from kforensics.render.values import Redactor, shape, text_of
from kforensics.render.writers import open_writer
from tests.render.rows import HOSTILE_BYTES

RECORDS = TABLES["records"]
SECRET = b"0123456789abcdef"


def row(key: bytes | None, value: bytes | None, *headers: tuple[bytes, bytes | None]) -> tuple[object, ...]:
    """Return a row of the table records."""
    known = {"path": "p", "key": key, "value": value, "headers": headers}
    return tuple(known.get(name) for name in RECORDS.names)


def shown(wanted: BytesFormat | None, data: bytes | None, redact: Redactor | None = None) -> object:
    """Return what a value is shown as."""
    shaped = shape(RECORDS, None, wanted, redact)
    return shaped(row(None, data))[RECORDS.names.index("value")]


@pytest.mark.parametrize(
    ("wanted", "data", "expected"),
    [
        (BytesFormat.UTF8, "é".encode(), "é"),
        (BytesFormat.UTF8, b"a\xffb", "a�b"),
        (BytesFormat.UTF8, b"", ""),
        (BytesFormat.HEX, b"\x00\xff", "00ff"),
        (BytesFormat.HEX, b"", ""),
        (BytesFormat.BASE64, b"\x00\xff", "AP8="),
        (BytesFormat.INT, b"\xff\xff\xff\xfe", -2),
        (BytesFormat.INT, b"\x01\x02", "0x0102"),
        (BytesFormat.INT, b"", "0x"),
        (BytesFormat.LONG, b"\x80" + bytes(7), -(2**63)),
        (BytesFormat.LONG, bytes(4), "0x00000000"),
        (BytesFormat.JSON, b'{"a": [1, null]}', {"a": [1, None]}),
        (BytesFormat.JSON, b"7", 7),
        (BytesFormat.JSON, b"no json", "no json"),
        (BytesFormat.JSON, b"", ""),
        (BytesFormat.JSON, b"NaN", "NaN"),
        (BytesFormat.JSON, b"-Infinity", "-Infinity"),
        (BytesFormat.JSON, b"1e999", "1e999"),
        (BytesFormat.JSON, b'{"a":1,"a":2}', '{"a":1,"a":2}'),
        (BytesFormat.JSON, b"9" * 5000, "9" * 5000),
        (BytesFormat.JSON, b"[" * 100_000, "[" * 100_000),
        (BytesFormat.JSON, b'"\xff"', '"�"'),
        (None, b"\xff", b"\xff"),
    ],
)
def test_bytes_are_shown_as_asked(wanted: BytesFormat | None, data: bytes, expected: object) -> None:
    assert shown(wanted, data) == expected


@pytest.mark.parametrize("wanted", [*BytesFormat, None], ids=str)
def test_null_stays_null(wanted: BytesFormat | None) -> None:
    assert shown(wanted, None) is None
    assert shown(wanted, None, Redactor(SECRET)) is None


@pytest.mark.parametrize("wanted", [each for each in Format if each is not Format.TEXT], ids=str)
@pytest.mark.parametrize("value", [b"1e999", b"[" * 3000 + b"]" * 3000, b'{"a":NaN}', b'"\\ud800"'], ids=range(4))
def test_any_json_value_can_be_written_in_any_format(wanted: Format, value: bytes) -> None:
    """Nothing that a payload holds ends the run."""
    shaped = shape(RECORDS, BytesFormat.JSON, BytesFormat.JSON)
    out = io.BytesIO()
    writer = open_writer(wanted, out)
    writer.write(shaped.table, [shaped(row(value, value))])
    writer.close()
    if wanted is Format.NDJSON:
        json.loads(out.getvalue(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(BytesFormat.HEX, "ff"), (BytesFormat.BASE64, "/w=="), (BytesFormat.INT, "�"), (None, b"\xff")],
    ids=str,
)
def test_header_values_follow_formats_that_fit_any_bytes(wanted: BytesFormat | None, expected: object) -> None:
    shaped = shape(RECORDS, None, wanted)
    headers = shaped(row(None, None, (b"k\xff", b"\xff"), (b"k", None)))[RECORDS.names.index("headers")]
    assert headers == [{"key": "k�", "value": expected}, {"key": "k", "value": None}]


def test_redaction_is_the_same_for_the_same_bytes_and_secret() -> None:
    once, again, other = Redactor(SECRET), Redactor(SECRET), Redactor(SECRET[::-1])
    assert once(b"payload") == again(b"payload") != other(b"payload")
    assert once(b"payload") != once(b"payloae")
    assert once(b"") != once(b"\0")
    assert once(None) is None


@pytest.mark.parametrize("wanted", [*BytesFormat, None], ids=str)
def test_redacted_bytes_are_text_whatever_the_format(wanted: BytesFormat | None) -> None:
    """A hash shown as hex of its own hex would help nobody, and a number would not be one."""
    redact = Redactor(SECRET)
    expected = (redact(b"1234") or b"").decode()
    found = shown(wanted, b"1234", redact)
    assert (found.decode() if isinstance(found, bytes) else found) == expected
    assert text_of(wanted or BytesFormat.UTF8, redact)(b"1234") == expected


@pytest.mark.parametrize("wanted", [each for each in Format if each is not Format.TEXT], ids=str)
@pytest.mark.parametrize("shown_as", [*BytesFormat, None], ids=str)
def test_no_payload_survives_redaction(wanted: Format, shown_as: BytesFormat | None) -> None:
    secrets = [b"the key is secret", b"the value is secret", b"the header is secret", HOSTILE_BYTES]
    key, value, header, hostile = secrets
    shaped = shape(RECORDS, shown_as, shown_as, Redactor(SECRET))
    out = io.BytesIO()
    writer = open_writer(wanted, out)
    writer.write(shaped.table, [shaped(row(key, value, (b"h", header), (b"h", hostile))), shaped(row(hostile, b""))])
    writer.close()
    content = _plain(wanted, out.getvalue())
    for secret in secrets:
        for form in (secret, secret.hex().encode(), base64.b64encode(secret), secret[:8], secret[-8:]):
            assert form not in content
    assert b"redacted:" in content


def _plain(wanted: Format, content: bytes) -> bytes:
    """Return content as it is, or what compressed columns hold."""
    if wanted is Format.PARQUET:
        import pyarrow.parquet as pq

        return repr(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
    return content
