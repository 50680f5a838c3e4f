"""The map of damaged bytes."""

from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.plots import MAX_MARKS, damage_map
from tests.command import DAMAGED, SAMPLES
from tests.forensics.forge import file_of, forge
from tests.plots.drawn import all_rows, layers


def _rows(path: Path) -> list[dict[str, Any]]:
    log = kforensics.open(path)
    (rows,) = layers(damage_map(log.files, log.damage))
    return rows


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return file_of(forge(tmp_path, "; ".join(f"plain @{at}" for at in range(200))))


def test_an_intact_file_is_not_shown(log: Path) -> None:
    files = kforensics.open(log)
    chart = damage_map(files.files, files.damage)
    assert layers(chart) == [[]]
    assert chart.to_dict()["title"]["subtitle"] == ["0 of 1 files have damage"]


def test_overwritten_bytes_are_at_their_position(log: Path) -> None:
    """Positions are exact to a cell, the four hundredth part of a file."""
    data = bytearray(log.read_bytes())
    start, end = len(data) // 3, len(data) // 2
    data[start:end] = b"\xff" * (end - start)
    log.write_bytes(data)
    rows = _rows(log)
    assert [row["bytes"] for row in rows] == ["read", "not decoded", "read"]
    cell, batch = len(data) / 400, len(data) // 200 + 2
    assert start - batch - cell <= rows[1]["first byte"] <= start
    assert end - 1 <= rows[1]["last byte"] <= end + batch + cell
    assert rows[1]["reasons"]
    assert (rows[0]["from"], rows[-1]["to"]) == (0, 1)


def test_a_single_corrupt_byte_is_visible(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    rows = _rows(log)
    (bad,) = [row for row in rows if row["bytes"] != "read"]
    assert bad["reasons"] == "crc"
    assert bad["first byte"] <= len(data) // 2 <= bad["last byte"]


def test_preallocated_space_is_empty(log: Path) -> None:
    size = log.stat().st_size
    with log.open("ab") as out:
        out.truncate(4 * size)
    rows = _rows(log)
    assert [row["bytes"] for row in rows] == ["read", "empty"]
    assert rows[0]["to"] == pytest.approx(0.25, abs=0.01)


def test_sections_cover_a_file() -> None:
    log = kforensics.open(DAMAGED)
    chart = damage_map(log.files, log.damage)
    rows = layers(chart)[0]
    by_file: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_file.setdefault(row["file"], []).append(row)
    assert len(by_file) == 40
    for sections in by_file.values():
        assert sections[0]["from"] == 0
        assert sections[-1]["to"] == 1
        assert [row["to"] for row in sections[:-1]] == [row["from"] for row in sections[1:]]
    assert all_rows(chart) <= MAX_MARKS
    assert chart.to_dict()["title"]["subtitle"][1] == "the 40 worst are shown"


def test_a_torn_batch_of_a_killed_broker_is_visible() -> None:
    rows = _rows(SAMPLES / "crash-before-recovery")
    assert {row["bytes"] for row in rows} >= {"read", "empty"}
