import base64
import io
import json

import pytest

from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.formats import BytesFormat, Format
from kforensics.render.payloads import Redactor, row_converter, text_converter
from kforensics.render.writers import open_writer
from tests.render.rows import HOSTILE_BYTES

RECORDS = TABLES["records"]
SECRET = b"0123456789abcdef"


def row(key: bytes | None, value: bytes | None, *headers: tuple[bytes, bytes | None]) -> tuple[object, ...]:
    """Return a row of the table records."""
    known = {"path": "p", "key": key, "value": value, "headers": headers}
    return tuple(known.get(name) for name in RECORDS.names)


def shown(bytes_format: BytesFormat | None, data: bytes | None, redact: Redactor | None = None) -> object:
    """Return a value in a format."""
    convert = row_converter(RECORDS, None, bytes_format, redact)
    return convert(row(None, data))[RECORDS.names.index("value")]


@pytest.mark.parametrize(
    ("bytes_format", "data", "expected"),
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
def test_bytes_are_converted_to_each_format(bytes_format: BytesFormat | None, data: bytes, expected: object) -> None:
    assert shown(bytes_format, data) == expected


@pytest.mark.parametrize("bytes_format", [*BytesFormat, None], ids=str)
def test_null_stays_null(bytes_format: BytesFormat | None) -> None:
    assert shown(bytes_format, None) is None
    assert shown(bytes_format, None, Redactor(SECRET)) is None


@pytest.mark.parametrize("output_format", [name for name in Format if name is not Format.TEXT], ids=str)
@pytest.mark.parametrize("value", [b"1e999", b"[" * 3000 + b"]" * 3000, b'{"a":NaN}', b'"\\ud800"'], ids=range(4))
def test_any_json_value_can_be_written_in_any_format(output_format: Format, value: bytes) -> None:
    """No payload makes a writer fail."""
    convert = row_converter(RECORDS, BytesFormat.JSON, BytesFormat.JSON)
    out = io.BytesIO()
    writer = open_writer(output_format, out)
    writer.write(convert.table, [convert(row(value, value))])
    writer.close()
    if output_format is Format.NDJSON:
        json.loads(out.getvalue(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("bytes_format", "expected"),
    [(BytesFormat.HEX, "ff"), (BytesFormat.BASE64, "/w=="), (BytesFormat.INT, "�"), (None, b"\xff")],
    ids=str,
)
def test_header_values_use_only_formats_for_any_bytes(bytes_format: BytesFormat | None, expected: object) -> None:
    convert = row_converter(RECORDS, None, bytes_format)
    headers = convert(row(None, None, (b"k\xff", b"\xff"), (b"k", None)))[RECORDS.names.index("headers")]
    assert headers == [{"key": "k�", "value": expected}, {"key": "k", "value": None}]


def test_equal_bytes_and_secrets_have_equal_hashes() -> None:
    once, again, other = Redactor(SECRET), Redactor(SECRET), Redactor(SECRET[::-1])
    assert once(b"payload") == again(b"payload") != other(b"payload")
    assert once(b"payload") != once(b"payloae")
    assert once(b"") != once(b"\0")
    assert once(None) is None


@pytest.mark.parametrize("bytes_format", [*BytesFormat, None], ids=str)
def test_redacted_bytes_are_text_in_every_format(bytes_format: BytesFormat | None) -> None:
    """Formats for bytes do not apply to the hash, which is text."""
    redact = Redactor(SECRET)
    expected = (redact(b"1234") or b"").decode()
    value = shown(bytes_format, b"1234", redact)
    assert (value.decode() if isinstance(value, bytes) else value) == expected
    assert text_converter(bytes_format or BytesFormat.UTF8, redact)(b"1234") == expected


@pytest.mark.parametrize("output_format", [name for name in Format if name is not Format.TEXT], ids=str)
@pytest.mark.parametrize("shown_as", [*BytesFormat, None], ids=str)
def test_no_payload_survives_redaction(output_format: Format, shown_as: BytesFormat | None) -> None:
    secrets = [b"the key is secret", b"the value is secret", b"the header is secret", HOSTILE_BYTES]
    key, value, header, hostile = secrets
    convert = row_converter(RECORDS, shown_as, shown_as, Redactor(SECRET))
    out = io.BytesIO()
    writer = open_writer(output_format, out)
    writer.write(convert.table, [convert(row(key, value, (b"h", header), (b"h", hostile))), convert(row(hostile, b""))])
    writer.close()
    content = _plain(output_format, out.getvalue())
    for secret in secrets:
        for form in (secret, secret.hex().encode(), base64.b64encode(secret), secret[:8], secret[-8:]):
            assert form not in content
    assert b"redacted:" in content


def _plain(output_format: Format, content: bytes) -> bytes:
    """Return content without compression."""
    if output_format is Format.PARQUET:
        import pyarrow.parquet as pq

        return repr(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
    return content
