import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.index_lines import plain_transaction_index
from kforensics.kafka_dump.styles import STYLES, DumpStyle
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.format.rows import Damage
from tests.kafka_dump.imitation import ALL_STYLES, ToolOutput, check_goldens, run

GOOD = struct.pack(">hqqqq", 0, 5000, 100, 110, 105) + struct.pack(">hqqqq", 0, 5001, 105, 120, 121)
FIRST = "version: 0 producerId: 5000 firstOffset: 100 lastOffset: 110 lastStableOffset: 105\n"
SECOND = "version: 0 producerId: 5001 firstOffset: 105 lastOffset: 120 lastStableOffset: 121\n"
HEAD = "Dumping 100.txnindex\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)


def dump(content: bytes | None, style: DumpStyle = STYLES["4.3"], path: str = "100.txnindex") -> ToolOutput:
    if content is not None:
        Path(path).write_bytes(content)
    return run([path], IndexOptions(), style, "/d")


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_goldens(sample_logs: Path, style: DumpStyle, record_property: Callable[[str, object], None]) -> None:
    """Every golden run over transaction indexes is imitated byte for byte."""
    record_property("runs", check_goldens(sample_logs, style, (".txnindex",)))


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_lines(style: DumpStyle) -> None:
    """Every entry has a line, which is the same in every release; an incomplete entry at the end is ignored."""
    assert dump(GOOD + b"x" * 33, style) == (0, HEAD + FIRST + SECOND, "")


@pytest.mark.parametrize(("first_bytes", "version"), [(b"\x00\x01", 0), (b"\xff\x00", -1), (b"\x80\x7f", -128)])
def test_accepted_versions(first_bytes: bytes, version: int) -> None:
    """Only the first byte of the version is checked, and only a value above 0 is rejected."""
    assert dump(first_bytes + GOOD[2:]) == (0, HEAD + FIRST.replace("version: 0", f"version: {version}") + SECOND, "")


def test_rejected_versions() -> None:
    """The tool reads all entries before it prints the first."""
    error = (
        'Exception in thread "main" org.apache.kafka.common.KafkaException: Unexpected aborted transaction version 1 '
        "in transaction index /d/100.txnindex, current version is 0\n"
    )
    assert dump(GOOD[:34] + b"\x01\x00" + GOOD[36:]) == (1, HEAD, error)


def test_zero_tail() -> None:
    """The tool prints zeros as aborts of producer 0; the plain style reports them as damage."""
    output = dump(GOOD[:34] + bytes(34))
    assert output[1].endswith("version: 0 producerId: 0 firstOffset: 0 lastOffset: 0 lastStableOffset: 0\n")
    rows = list(plain_transaction_index("100.txnindex"))
    assert [row if isinstance(row, str) else row.reason for row in rows] == [FIRST, "zero-tail"]


def test_missing() -> None:
    """A missing file has no entries, but its name must be valid."""
    assert dump(None) == (0, HEAD, "")
    error = 'Exception in thread "main" java.lang.NumberFormatException: For input string: "x"\n'
    assert dump(None, path="x.txnindex") == (1, "Dumping x.txnindex\n", error)


def test_plain_continues_after_an_unknown_version() -> None:
    """A bad entry does not hide the others."""
    Path("100.txnindex").write_bytes(b"\x07\x00" + GOOD[2:] + b"x")
    rows = list(plain_transaction_index("100.txnindex"))
    assert [row for row in rows if isinstance(row, str)] == [SECOND]
    assert [row.reason for row in rows if isinstance(row, Damage)] == ["version", "ragged"]
