"""Views of batches: bytes, fields and meanings."""

import json
import re
from pathlib import Path

import pytest

import kforensics
from kforensics.api.views.batch_view import BatchView, field_style
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from tests.api.views.page import assert_harmless
from tests.command import CLASSIC, SAMPLES
from tests.forensics.forge import forge, patch


def _lines(view: BatchView) -> dict[str, str]:
    """Return the last column of each header field by name."""
    lines = re.findall(r"^0x[0-9a-f]{8}  (\w+) +(.*)$", repr(view), re.MULTILINE)
    return {name: re.split(" {2,}", text)[-1] for name, text in reversed(lines)}


def test_header_fields_equal_the_layout() -> None:
    view = kforensics.open(CLASSIC).batches[0]
    layout = fixed_layout(BATCH_HEADER)
    header = view.groups[0].fields
    assert [(field.name, field.position) for field in header] == [*layout.offsets.items()]
    assert [field.doc for field in header] == [field.docs for field in BATCH_HEADER.subcons]
    row = view.row
    assert all(field.value == row[field.name] for field in header if field.name in row)
    assert view["producer_id"] == row["producer_id"]


def test_field_meanings() -> None:
    data, marker = kforensics.open(CLASSIC).batches
    meanings = _lines(data)
    assert meanings["attributes"] == "none, CreateTime, transactional"
    assert re.fullmatch("0x[0-9a-f]{8}, valid", meanings["crc"])
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$", meanings["max_timestamp"])
    assert _lines(marker)["attributes"] == "none, CreateTime, transactional, control"
    assert re.search(r"key  .* COMMIT$", repr(marker), re.MULTILINE)
    assert re.search(r"value  .* coordinator epoch 0$", repr(marker), re.MULTILINE)


def test_keys_and_values_equal_those_of_a_consumer() -> None:
    truth = json.loads((CLASSIC.parents[2] / "truth.json").read_text())
    (record,) = truth["topics"]["classic"]["0"]["read_uncommitted"]
    view = kforensics.open(CLASSIC).batches[0]
    fields = {field.name: field.value for field in view.groups[1].fields}
    seen = {name: bytes.fromhex(record[name]) if record[name] is not None else None for name in ("key", "value")}
    assert {name: fields[name] for name in seen} == seen
    assert [(one["offset"], one["key"], one["value"]) for one in view.records] == [
        (record["offset"], seen["key"], seen["value"])
    ]


def test_a_wrong_crc_is_shown(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-2; plain @3")
    (log,) = folder.glob("*.log")
    patch(log, 0, fix_crc=False, max_timestamp=5)
    assert "does NOT match" in _lines(kforensics.open(log).batches[0])["crc"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_shown_with_decompressed_bytes(codec: str) -> None:
    log = kforensics.open(SAMPLES / "records")
    view = next(one for one in log.batches if one["compression_type"] == codec)
    assert f"bytes, {codec}" in repr(view)
    assert "decompressed: " in repr(view)
    assert {group.unpacked for group in view.groups} == {True, False}
    assert view.groups[2].fields[0].position == 0
    assert_harmless(view._repr_html_())


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_formats_are_shown(magic: int) -> None:
    log = kforensics.open(SAMPLES / f"legacy-magic-{magic}")
    single = next(one for one in log.batches if one["magic"] == magic and one["compression_type"] == "none")
    wrapper = next(one for one in log.batches if one["magic"] == magic and one["compression_type"] == "gzip")
    assert [group.title for group in single.groups] == ["message"]
    assert wrapper.groups[1].title == "inner message 0"
    assert _lines(wrapper)["attributes"].startswith("gzip")
    assert_harmless(wrapper._repr_html_())


def test_hex_has_the_color_of_its_field() -> None:
    view = kforensics.open(CLASSIC).batches[0]
    html = assert_harmless(view._repr_html_())
    spans = [value for element, name, value in html.attributes if (element, name) == ("span", "style")]
    assert set(spans) == {field_style(index) for index in range(10)}
    # The hex dump, without the table of fields after it.
    dump = "".join(re.findall(r"\b[0-9a-f]{2}\b", html.text.split("batch header")[0]))
    assert view.data.hex() in dump


def test_a_large_batch_is_truncated(tmp_path: Path) -> None:
    log = forge(tmp_path, "plain @0-99", records={0: [(b"k", b"v" * 100)] * 100})
    view = kforensics.open(log).batches[0]
    assert f"… and {len(view.data) - 1024:,} more bytes" in repr(view)
    assert "90 more records not shown" in repr(view)
    assert len(view.records) == 100
    assert len(view._repr_html_()) < 100_000


def test_an_incomplete_batch_has_a_note() -> None:
    log = kforensics.open(SAMPLES / "damaged" / "records")
    last_lines = [repr(view).split("\n")[-1] for view in log.batches]
    assert [line for line in last_lines if line.startswith("incomplete: record ")]
    for view in log.batches:
        assert_harmless(view._repr_html_())
