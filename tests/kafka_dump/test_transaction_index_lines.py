import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.compared_files import IndexOptions
from kforensics.kafka_dump.styles import STYLES, Style
from kforensics.kafka_dump.transaction_index_lines import plain_transaction_index
from kforensics.parsers.format.rows import Damage
from tests.kafka_dump.imitation import ALL_STYLES, Told, check_goldens, run

GOOD = struct.pack(">hqqqq", 0, 5000, 100, 110, 105) + struct.pack(">hqqqq", 0, 5001, 105, 120, 121)
FIRST = "version: 0 producerId: 5000 firstOffset: 100 lastOffset: 110 lastStableOffset: 105\n"
SECOND = "version: 0 producerId: 5001 firstOffset: 105 lastOffset: 120 lastStableOffset: 121\n"
HEAD = "Dumping 100.txnindex\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def dump(content: bytes | None, style: Style = STYLES["4.3"], path: str = "100.txnindex") -> Told:
    if content is not None:
        Path(path).write_bytes(content)
    return run([path], IndexOptions(), style, "/d")


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_goldens(sample_logs: Path, style: Style, record_property: Callable[[str, object], None]) -> None:
    """Every golden run over transaction indexes is imitated to the byte."""
    record_property("runs", check_goldens(sample_logs, style, (".txnindex",)))


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_lines(style: Style) -> None:
    """An entry is a line, in every release the same; a tail that is no entry is passed over."""
    assert dump(GOOD + b"x" * 33, style) == (0, HEAD + FIRST + SECOND, "")


@pytest.mark.parametrize(("first_bytes", "version"), [(b"\x00\x01", 0), (b"\xff\x00", -1), (b"\x80\x7f", -128)])
def test_versions_that_are_taken(first_bytes: bytes, version: int) -> None:
    """Only the first byte of the version counts, and only above 0."""
    assert dump(first_bytes + GOOD[2:]) == (0, HEAD + FIRST.replace("version: 0", f"version: {version}") + SECOND, "")


def test_versions_that_are_not() -> None:
    """All entries are read before the first is printed."""
    error = (
        'Exception in thread "main" org.apache.kafka.common.KafkaException: Unexpected aborted transaction version 1 '
        "in transaction index /d/100.txnindex, current version is 0\n"
    )
    assert dump(GOOD[:34] + b"\x01\x00" + GOOD[36:]) == (1, HEAD, error)


def test_zero_tail() -> None:
    """Zeros are aborts of producer 0 for the tool, and no entries for the plain style."""
    said = dump(GOOD[:34] + bytes(34))
    assert said[1].endswith("version: 0 producerId: 0 firstOffset: 0 lastOffset: 0 lastStableOffset: 0\n")
    rows = list(plain_transaction_index("100.txnindex"))
    assert [row if isinstance(row, str) else row.reason for row in rows] == [FIRST, "zero-tail"]


def test_missing() -> None:
    """A file that is not there has no entries; its name is looked at all the same."""
    assert dump(None) == (0, HEAD, "")
    error = 'Exception in thread "main" java.lang.NumberFormatException: For input string: "x"\n'
    assert dump(None, path="x.txnindex") == (1, "Dumping x.txnindex\n", error)


def test_plain_goes_on_behind_an_unknown_version() -> None:
    """One bad entry hides no other."""
    Path("100.txnindex").write_bytes(b"\x07\x00" + GOOD[2:] + b"x")
    rows = list(plain_transaction_index("100.txnindex"))
    assert [row for row in rows if isinstance(row, str)] == [SECOND]
    assert [row.reason for row in rows if isinstance(row, Damage)] == ["version", "ragged"]
