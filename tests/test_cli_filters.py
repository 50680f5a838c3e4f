"""The filters of ``kforensics dump``, compared with live consumers and with dumps without a filter."""

import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.damage import forge
from tests.command import DAMAGED, SAMPLES, dump, sentence

TRANSACTIONS = SAMPLES / "transactions-v2" / "broker-1"
INDEXED = SAMPLES / "records" / "broker-1" / "indexed-0"
TRUTH = {
    (scenario, topic, partition): state
    for scenario in ("transactions-v2", "records")
    for topic, partitions in json.loads((SAMPLES / scenario / "truth.json").read_bytes())["topics"].items()
    for partition, state in partitions.items()
    if state.get("read_uncommitted")
}
partitions = pytest.mark.parametrize("place", TRUTH, ids="-".join)
Place = tuple[str, str, str]


def records(place: Place, *words: object) -> list[dict[str, Any]]:
    """Return the records of a partition in the form of truth.json."""
    scenario, topic, partition = place
    folder = SAMPLES / scenario / "broker-1" / f"{topic}-{partition}"
    formats = ("--key-format", "hex", "--value-format", "hex")
    rows = dump("--format", "ndjson", "--records", "--no-control", *formats, *words, folder).objects
    names = ("offset", "timestamp", "timestamp_type", "key", "value")
    return [
        {name: row[name] for name in names} | {"headers": [[each["key"], each["value"]] for each in row["headers"]]}
        for row in rows
    ]


def truth(place: Place) -> list[dict[str, Any]]:
    """Return the records that a live consumer received."""
    found: list[dict[str, Any]] = TRUTH[place]["read_uncommitted"]
    return found


@partitions
def test_without_a_filter_all_records_of_a_live_consumer_are_dumped(place: Place) -> None:
    assert records(place) == truth(place)


@partitions
def test_offsets_are_half_open(place: Place) -> None:
    offsets = [record["offset"] for record in truth(place)]
    low, high = offsets[len(offsets) // 4], offsets[-(len(offsets) // 4) - 1]
    seen = truth(place)
    assert records(place, "--offset", f"{low}:{high}") == [each for each in seen if low <= each["offset"] < high]
    assert records(place, "--offset", f"{high}:") == [each for each in seen if each["offset"] >= high]
    assert records(place, "--offset", f":{low}") == [each for each in seen if each["offset"] < low]
    assert records(place, "--offset", low) == [each for each in seen if each["offset"] == low]


@partitions
def test_times_are_half_open_in_ms_and_iso(place: Place) -> None:
    seen = truth(place)
    times = sorted(record["timestamp"] for record in seen if record["timestamp"] >= 0)
    low, high = times[len(times) // 3], times[-1]
    expected = [each for each in seen if low <= each["timestamp"] < high]
    assert records(place, "--time", f"{low}:{high}") == expected
    iso = [datetime.fromtimestamp(each / 1000, UTC).isoformat(timespec="milliseconds") for each in (low, high)]
    assert records(place, "--time", f"{iso[0]}:{iso[1]}") == expected
    assert records(place, "--time", f"{iso[0].replace('+00:00', 'Z')}:{high}") == expected
    assert records(place, "--time", f":{high}") == [each for each in seen if each["timestamp"] < high]


@partitions
def test_keys_are_matched(place: Place) -> None:
    seen = [each for each in truth(place) if each["key"] and bytes.fromhex(each["key"]).decode("utf-8", "replace")]
    found = [each for each in seen if "1" in bytes.fromhex(each["key"]).decode("utf-8", "replace")]
    assert records(place, "--key", "1") == found


@pytest.mark.parametrize("pattern", ["[1-3]$", r"^\D*\d\D*$", "(?i)K[^0]"])
@partitions
def test_keys_are_matched_by_patterns(place: Place, pattern: str) -> None:
    expected = [
        each
        for each in truth(place)
        if each["key"] is not None and re.search(pattern, bytes.fromhex(each["key"]).decode("utf-8", "replace"))
    ]
    assert records(place, "--key", pattern) == expected


def _is_of_3_and_1(row: dict[str, Any]) -> bool:
    return (row["producer_id"], row["producer_epoch"]) == (3, 1)


@pytest.mark.parametrize(
    ("words", "keeps"),
    [
        (["--producer-id", "2"], lambda row: row["producer_id"] == 2),
        (["--producer-id", "-1"], lambda row: row["producer_id"] == -1),
        (["--producer-epoch", "3"], lambda row: row["producer_epoch"] == 3),
        (["--producer-id", "3", "--producer-epoch", "1"], _is_of_3_and_1),
        (["--leader-epoch", "0"], lambda row: row["partition_leader_epoch"] == 0),
        (["--leader-epoch", "9"], lambda row: row["partition_leader_epoch"] == 9),
        (["--transactional"], lambda row: row["is_transactional"]),
        (["--no-transactional"], lambda row: not row["is_transactional"]),
        (["--control"], lambda row: row["is_control"]),
        (["--no-control", "--transactional"], lambda row: row["is_transactional"] and not row["is_control"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_filters_of_batches(words: list[str], keeps: Callable[[dict[str, Any]], bool]) -> None:
    partition = TRANSACTIONS / "interleaved-0"
    every = dump("--format", "ndjson", "--batches", partition).objects
    kept = [row for row in every if keeps(row)]
    assert dump("--format", "ndjson", "--batches", *words, partition).objects == kept
    positions = {row["position"] for row in kept}
    rows = dump("--format", "ndjson", "--records", *words, partition).objects
    assert {row["batch_position"] for row in rows} == positions
    assert dump(*words, partition).text.count("baseOffset") == len(kept)


def test_a_batch_line_precedes_selected_records_only() -> None:
    lines = dump("--print-data-log", "--key", "^left 3-1$", TRANSACTIONS / "interleaved-0").lines
    assert [line.split()[0] for line in lines] == ["Dumping", "Log", *["baseOffset:", "|"] * 4]


def test_files_without_batches_are_left_out_by_a_filter() -> None:
    text = dump("--producer-id", 2, TRANSACTIONS / "interleaved-0").text
    assert [line for line in text.splitlines() if line.startswith("Dumping")] == [
        f"Dumping {TRANSACTIONS / 'interleaved-0' / '00000000000000000000.log'}"
    ]
    rows = dump("--producer-id", 2, "--format", "ndjson", TRANSACTIONS / "interleaved-0").objects
    assert {row["table"] for row in rows} == {"batches"}
    only = TRANSACTIONS / "interleaved-0" / "leader-epoch-checkpoint"
    assert "none of these files has any; leave out the filters" in sentence(dump("--producer-id", 2, only))


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """Return a copy of a partition whose index has an entry for every batch."""
    return Path(shutil.copytree(INDEXED, tmp_path / "indexed-0"))


def _shifted(index: bytes) -> bytes:
    return b"".join(struct.pack(">ii", offset, position + 1) for offset, position in struct.iter_unpack(">ii", index))


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "positions one byte off": _shifted,
    "positions of the batch behind": lambda index: b"".join(
        struct.pack(">ii", offset, position)
        for (offset, _), (_, position) in zip(
            struct.iter_unpack(">ii", index[:-8]), struct.iter_unpack(">ii", index[8:]), strict=True
        )
    ),
    "positions beyond the log": lambda index: index[:-4] + b"\x7f\xff\xff\xff",
    "negative positions": lambda index: index[:4] + b"\xff" * 4 + index[8:],
    "ragged": lambda index: index + b"\x00\x00\x00",
    "zero tail": lambda index: index + bytes(800),
    "only zeros": lambda index: bytes(len(index)),
    "empty": lambda _: b"",
    "noise": lambda index: bytes(byte ^ 0x5A for byte in index),
    "backwards": lambda index: b"".join(index[at : at + 8] for at in range(len(index) - 8, -1, -8)),
    "as it was": lambda index: index,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=list(SPOILT))
def test_an_index_that_cannot_be_trusted_changes_no_row(indexed: Path, spoil: Callable[[bytes], bytes]) -> None:
    rows = {row["offset"]: row for row in dump("--format", "ndjson", "--records", indexed).objects}
    for path in indexed.glob("*.index"):
        path.write_bytes(spoil(path.read_bytes()))
    for first, end in ((0, 1), (3, 9), (17, 60), (55, 57), (56, 100), (99, 100)):
        found = dump("--format", "ndjson", "--records", "--offset", f"{first}:{end}", indexed)
        assert found.objects == [rows[offset] for offset in range(first, end)]
        assert (found.code, found.err) == (0, "")


def test_an_index_that_is_missing_or_locked_changes_no_row(indexed: Path) -> None:
    words = ("--format", "ndjson", "--records", "--offset", "70:80")
    rows = dump(*words, indexed).objects
    for path in indexed.glob("*.index"):
        path.unlink()
        os.mkfifo(path)
    assert dump(*words, indexed / "00000000000000000056.log").objects == rows


def test_damage_is_reported_inside_the_range_only(indexed: Path) -> None:
    """With a valid index only the bytes from the start of the range are read."""
    path = indexed / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[150:155] = b"\xff" * 5
    path.write_bytes(data)
    assert dump("--offset", "20:22", path).err == ""
    assert "0x8d" in dump("--offset", "0:22", path).err


def test_one_flipped_offset_does_not_end_the_range(tmp_path: Path) -> None:
    """No checksum covers the base offset."""
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    batches = [forge.plain(base) for base in (0, 3, 6, 9, 12)]
    batches[1] = forge.flip(batches[1], 2)
    path.write_bytes(b"".join(batches))
    rows = dump("--format", "ndjson", "--records", "--offset", "6:9", path).objects
    assert [row["offset"] for row in rows] == [6, 7, 8]


def test_filters_continue_after_damage() -> None:
    ended = dump("--format", "ndjson", "--records", "--offset", "10:13", DAMAGED / "batches" / "noise-between-0")
    assert [row["offset"] for row in ended.rows("records")] == [10, 11, 12]
    assert [row["reason"] for row in ended.rows("damage")] == ["length"]


def test_binary_keys_are_matched_and_null_keys_never_match(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(
        forge.batch(0, [forge.record(0, b"\xffkey", b""), forge.record(1, None, b""), forge.record(2, b"", b"")])
    )
    for pattern, offsets in (("key", [0]), ("^$", [2]), ("", [0, 2])):
        found = dump("--format", "ndjson", "--records", "--key", pattern, path).objects
        assert [row["offset"] for row in found] == offsets


def test_patterns_mean_the_same_in_ascii_and_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    keys = ["order-7", "\u00f6rder-7", "order-7\n", "\u00f6rder-7\n", "order-\u0667", "\U0001f600", "\n\n", "7", ""]
    path.write_bytes(forge.batch(0, [forge.record(number, key.encode(), b"") for number, key in enumerate(keys)]))
    for pattern in (r"\d$", r"\d\Z", "^.rder", r"^\w+$", "^$", r"^\W+\Z", r"\b7", "(?:\u00f6|7$)"):
        found = dump("--format", "ndjson", "--records", "--key", pattern, path).objects
        assert [row["offset"] for row in found] == [
            number for number, key in enumerate(keys) if re.search(pattern, key)
        ]
