import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.snapshot_lines import plain_snapshot
from kforensics.kafka_dump.styles import STYLES, DumpStyle
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.format.checksums import reference_crc32c
from kforensics.parsers.format.rows import Damage
from tests.kafka_dump.imitation import ALL_STYLES, ToolOutput, check_goldens, run

ENTRIES = [(1000, 3, 2, 60, 9, 1700000000000, 5, 42), (7, 0, -1, -1, 0, 1, -1, -1)]


def snapshot(count: int = 2, version: int = 1, tail: bytes = b"") -> bytes:
    rest = struct.pack(">i", count) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in ENTRIES) + tail
    return struct.pack(">hI", version, reference_crc32c()(rest)) + rest


GOOD = snapshot()
BATCH = "firstSequence: 2147483641 lastSequence: 2 lastOffset: 60 offsetDelta: 9 timestamp: 1700000000000"
WITH, WITHOUT = (
    "producerId: 1000 producerEpoch: 3 coordinatorEpoch: 5 currentTxnFirstOffset:",
    "producerId: 7 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset:",
)
LINES = {
    "4.3": (
        f"{WITH} OptionalLong[42] lastTimestamp: 1700000000000 {BATCH}\n{WITHOUT} OptionalLong.empty lastTimestamp: 1\n"
    ),
    "2.7": f"{WITH} Some(42) {BATCH}\n{WITHOUT} None \n",
}
LINES["4.2"] = LINES["3.9"] = LINES["4.3"].replace("lastTimestamp: 1\n", "lastTimestamp: 1 \n")
LINES["2.8"] = LINES["2.7"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)


def dump(content: bytes, style: DumpStyle) -> ToolOutput:
    Path("60.snapshot").write_bytes(content)
    return run(["60.snapshot"], IndexOptions(), style, "/d")


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_goldens(sample_logs: Path, style: DumpStyle, record_property: Callable[[str, object], None]) -> None:
    """Every golden run over snapshots is imitated byte for byte."""
    record_property("runs", check_goldens(sample_logs, style, (".snapshot",)))


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_lines(style: DumpStyle) -> None:
    """The line of a producer has three formats."""
    assert dump(GOOD, style) == (0, "Dumping 60.snapshot\n" + LINES[style.name], "")


NEW, OLD = STYLES["4.2"], STYLES["3.9"]
SCHEMA = "Snapshot failed schema validation: "
ENTRY = "Error reading field 'producer_entries': Error reading field '{}': java.nio.BufferUnderflowException"


@pytest.mark.parametrize(
    ("content", "new", "old"),
    [
        (b"", "null", "Error reading field 'version': java.nio.BufferUnderflowException"),
        (GOOD[:1], "null", "Error reading field 'version': java.nio.BufferUnderflowException"),
        (GOOD[:5], "null", "Error reading field 'crc': java.nio.BufferUnderflowException"),
        (GOOD[:9], "null", "Error reading field 'producer_entries': java.nio.BufferUnderflowException"),
        (GOOD[:-1], "null", ENTRY.format("current_txn_first_offset")),
        (GOOD[:56], "null", ENTRY.format("producer_id")),
        (GOOD[:65], "null", ENTRY.format("epoch")),
        (GOOD[:80], "null", ENTRY.format("offset_delta")),
        (
            snapshot(-1),
            "non-nullable field producerEntries was serialized as null",
            "Error reading field 'producer_entries': Array size -1 cannot be negative",
        ),
        (
            snapshot(99),
            "Tried to allocate a collection of size 99, but there are only 92 bytes remaining.",
            "Error reading field 'producer_entries': Error reading array of size 99, only 92 bytes available",
        ),
        (
            snapshot(version=2)[:40],
            "Snapshot contained an unknown file version 2",
            ENTRY.format("timestamp"),
        ),
    ],
)
def test_schema_errors(content: bytes, new: str, old: str) -> None:
    """Since 4.0 the version is checked first and the error for a short file is null; before, it names the field."""
    assert dump(content, NEW) == (0, "Dumping 60.snapshot\n", f"{SCHEMA}{new}\n")
    assert dump(content, OLD) == (0, "Dumping 60.snapshot\n", f"{SCHEMA}{old}\n")


def test_unknown_version_of_a_whole_file() -> None:
    """Up to 3.9 this is not a schema error."""
    error = "Snapshot contained an unknown file version 2\n"
    assert dump(snapshot(version=2), OLD)[2] == error
    assert dump(snapshot(version=2), NEW)[2] == SCHEMA + error


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_checksum(style: DumpStyle) -> None:
    """The checksum covers the file to its end, and no line is printed if it is wrong."""
    status, text, error = dump(GOOD + b"\0", style)
    assert (status, text) == (0, "Dumping 60.snapshot\n")
    assert error.startswith("Snapshot is corrupt (CRC is no longer valid). Stored crc: ")
    assert dump(snapshot(tail=b"12345"), style)[1].count("producerId") == 2


def test_missing() -> None:
    """A missing snapshot ends the run."""
    error = 'Exception in thread "main" java.nio.file.NoSuchFileException: 60.snapshot\n'
    assert run(["60.snapshot"], IndexOptions(), NEW, "/d") == (1, "Dumping 60.snapshot\n", error)


def test_plain_prints_the_complete_entries() -> None:
    """The complete entries of a truncated snapshot are printed, and the damage is reported."""
    Path("60.snapshot").write_bytes(GOOD[:-1])
    rows = list(plain_snapshot("60.snapshot"))
    assert [row for row in rows if isinstance(row, str)] == LINES["4.3"].splitlines(keepends=True)[:1]
    assert [row.reason for row in rows if isinstance(row, Damage)] == ["count", "truncated"]
