"""Where in files the damage is."""

from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.plots import MOST_MARKS, damage_map
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


def test_a_sound_file_is_not_drawn(log: Path) -> None:
    found = kforensics.open(log)
    chart = damage_map(found.files, found.damage)
    assert layers(chart) == [[]]
    assert chart.to_dict()["title"]["subtitle"] == ["0 of 1 files have damage"]


def test_what_was_overwritten_is_drawn_where_it_is(log: Path) -> None:
    """No further off than the four hundredth part of a file."""
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


def test_a_single_byte_is_seen(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    rows = _rows(log)
    (bad,) = [row for row in rows if row["bytes"] != "read"]
    assert bad["reasons"] == "crc"
    assert bad["first byte"] <= len(data) // 2 <= bad["last byte"]


def test_space_set_aside_holds_nothing(log: Path) -> None:
    size = log.stat().st_size
    with log.open("ab") as out:
        out.truncate(4 * size)
    rows = _rows(log)
    assert [row["bytes"] for row in rows] == ["read", "holds nothing"]
    assert rows[0]["to"] == pytest.approx(0.25, abs=0.01)


def test_stretches_of_a_file_cover_it() -> None:
    log = kforensics.open(DAMAGED)
    chart = damage_map(log.files, log.damage)
    rows = layers(chart)[0]
    by_file: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_file.setdefault(row["file"], []).append(row)
    assert len(by_file) == 40
    for found in by_file.values():
        assert found[0]["from"] == 0
        assert found[-1]["to"] == 1
        assert [row["to"] for row in found[:-1]] == [row["from"] for row in found[1:]]
    assert all_rows(chart) <= MOST_MARKS
    assert chart.to_dict()["title"]["subtitle"][1] == "the 40 worst are shown"


def test_a_broker_killed_in_mid_write_left_a_torn_batch() -> None:
    rows = _rows(SAMPLES / "crash-before-recovery")
    assert {row["bytes"] for row in rows} >= {"read", "holds nothing"}
