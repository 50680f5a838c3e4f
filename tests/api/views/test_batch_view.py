"""Batches that show their bytes field by field."""

import json
import re
from pathlib import Path

import pytest

import kforensics
from kforensics.api.views.batch_view import BatchView
from kforensics.api.views.hex_view import colour
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER
from tests.api.views.page import assert_harmless
from tests.command import CLASSIC, SAMPLES
from tests.forensics.forge import forge, patch


def _lines(view: BatchView) -> dict[str, str]:
    """Return what stands behind the name of each field of the header."""
    found = re.findall(r"^0x[0-9a-f]{8}  (\w+) +(.*)$", repr(view), re.MULTILINE)
    return {name: re.split(" {2,}", said)[-1] for name, said in reversed(found)}


def test_the_header_is_that_of_the_layout() -> None:
    view = kforensics.open(CLASSIC).batches[0]
    layout = fixed(BATCH_HEADER)
    header = view.groups[0].fields
    assert [(field.name, field.position) for field in header] == [*layout.offsets.items()]
    assert [field.doc for field in header] == [field.docs for field in BATCH_HEADER.subcons]
    row = view.row
    assert all(field.value == row[field.name] for field in header if field.name in row)
    assert view["producer_id"] == row["producer_id"]


def test_text_says_what_values_mean() -> None:
    data, marker = kforensics.open(CLASSIC).batches
    said = _lines(data)
    assert said["attributes"] == "none, CreateTime, transactional"
    assert re.fullmatch("0x[0-9a-f]{8}, which holds", said["crc"])
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$", said["max_timestamp"])
    assert _lines(marker)["attributes"] == "none, CreateTime, transactional, control"
    assert re.search(r"key  .* COMMIT$", repr(marker), re.MULTILINE)
    assert re.search(r"value  .* coordinator epoch 0$", repr(marker), re.MULTILINE)


def test_keys_and_values_are_those_that_a_consumer_saw() -> None:
    truth = json.loads((CLASSIC.parents[2] / "truth.json").read_text())
    (record,) = truth["topics"]["classic"]["0"]["read_uncommitted"]
    view = kforensics.open(CLASSIC).batches[0]
    fields = {field.name: field.value for field in view.groups[1].fields}
    seen = {name: bytes.fromhex(record[name]) if record[name] is not None else None for name in ("key", "value")}
    assert {name: fields[name] for name in seen} == seen
    assert [(one["offset"], one["key"], one["value"]) for one in view.records] == [
        (record["offset"], seen["key"], seen["value"])
    ]


def test_a_wrong_checksum_is_told(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-2; plain @3")
    (log,) = folder.glob("*.log")
    patch(log, 0, fix_crc=False, max_timestamp=5)
    assert "does NOT hold" in _lines(kforensics.open(log).batches[0])["crc"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_shown_beside_their_bytes(codec: str) -> None:
    log = kforensics.open(SAMPLES / "records")
    view = next(one for one in log.batches if one["compression_type"] == codec)
    assert f"bytes, {codec}" in repr(view)
    assert "decompressed: " in repr(view)
    assert {group.unpacked for group in view.groups} == {True, False}
    assert view.groups[2].fields[0].position == 0
    assert_harmless(view._repr_html_())


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_shown_too(magic: int) -> None:
    log = kforensics.open(SAMPLES / f"legacy-magic-{magic}")
    single = next(one for one in log.batches if one["magic"] == magic and one["compression_type"] == "none")
    wrapper = next(one for one in log.batches if one["magic"] == magic and one["compression_type"] == "gzip")
    assert [group.title for group in single.groups] == ["message"]
    assert wrapper.groups[1].title == "inner message 0"
    assert _lines(wrapper)["attributes"].startswith("gzip")
    assert_harmless(wrapper._repr_html_())


def test_hex_has_the_colour_of_its_field() -> None:
    view = kforensics.open(CLASSIC).batches[0]
    found = assert_harmless(view._repr_html_())
    spans = [value for element, name, value in found.attributes if (element, name) == ("span", "style")]
    assert set(spans) == {colour(index) for index in range(10)}
    # The bytes in hex, less what stands in the table below.
    dump = "".join(re.findall(r"\b[0-9a-f]{2}\b", found.text.split("batch header")[0]))
    assert view.data.hex() in dump


def test_a_large_batch_is_shown_in_part(tmp_path: Path) -> None:
    log = forge(tmp_path, "plain @0-99", records={0: [(b"k", b"v" * 100)] * 100})
    view = kforensics.open(log).batches[0]
    assert f"… and {len(view.data) - 1024} bytes more" in repr(view)
    assert "90 more records are not shown" in repr(view)
    assert len(view.records) == 100
    assert len(view._repr_html_()) < 100_000


def test_what_cannot_be_taken_apart_is_said() -> None:
    log = kforensics.open(SAMPLES / "damaged" / "records")
    said = [repr(view).split("\n")[-1] for view in log.batches]
    assert [line for line in said if line.startswith("cannot be taken apart to the end: record ")]
    for view in log.batches:
        assert_harmless(view._repr_html_())
