"""What tests build by hand is what the layouts of the package build."""

from __future__ import annotations

import pytest

from kforensics.parsers.format.checksums import crc32
from kforensics.parsers.format.layouts import LEGACY_HEADER_V0, LEGACY_HEADER_V1, RECORD, RECORD_HEADER
from kforensics.parsers.format.rows import Header
from tests.parsers.builders import NOW, message, record


@pytest.mark.parametrize("key", [None, b"", b"k" * 200])
@pytest.mark.parametrize(("delta", "time"), [(0, 0), (-1, 1), (2**31 - 1, 2**63 - 1), (-(2**31), -(2**63))])
def test_a_record(key: bytes | None, delta: int, time: int) -> None:
    headers: list[Header] = [(b"name", None), (b"", b"text")]
    built = record(delta, key, b"value", headers, timestamp_delta=time)
    fields = {"attributes": 0, "timestamp_delta": time, "offset_delta": delta, "key": key, "value": b"value"}
    parts = b"".join(RECORD_HEADER.build({"key": name, "value": text}) for name, text in headers)
    body = RECORD.build({"length": 0, **fields, "header_count": 2})[1:] + parts
    assert built == RECORD.build({"length": len(body), **fields, "header_count": 2}) + parts


@pytest.mark.parametrize("attributes", [0, 0x50, -128])
@pytest.mark.parametrize(("magic", "layout"), [(0, LEGACY_HEADER_V0), (1, LEGACY_HEADER_V1)])
def test_a_message(magic: int, layout: object, attributes: int) -> None:
    built = message(7, None, b"value", magic=magic, attributes=attributes)
    rest = b"\xff\xff\xff\xff" + b"\0\0\0\5value"
    fields = {"offset": 7, "magic": magic, "attributes": attributes, "timestamp": NOW, "size": len(built) - 12}
    assert built == layout.build({**fields, "crc": crc32(built[16:])}) + rest  # type: ignore[attr-defined]
