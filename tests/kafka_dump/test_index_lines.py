from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.errors import InputMissingError
from kforensics.kafka_dump.index_lines import plain_index
from kforensics.kafka_dump.styles import STYLES, DumpStyle
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.format.rows import Damage
from tests.kafka_dump.imitation import ALL_STYLES, ToolOutput, check_goldens, run
from tests.kafka_dump.segments import batch, index

BATCHES = [batch(100), batch(103), batch(106)]
SIZE = len(BATCHES[0])
LOG = b"".join(BATCHES)
GOOD = index((5, SIZE), (8, 2 * SIZE))
S, J = STYLES["4.2"], STYLES["4.3"]


@pytest.fixture
def segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a log of three batches of three records."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "100.log").write_bytes(LOG)
    (tmp_path / "100.index").write_bytes(GOOD)
    return tmp_path


def dump(style: DumpStyle = J, *, options: IndexOptions | None = None, directory: str = "/d") -> ToolOutput:
    return run(["100.index"], options or IndexOptions(), style, directory)


def plain(path: str = "100.index") -> tuple[list[str], list[Damage], list[str]]:
    summaries = Summaries("/d")
    rows = list(plain_index(path, IndexOptions(), summaries))
    text = [row for row in rows if isinstance(row, str)]
    return text, [row for row in rows if isinstance(row, Damage)], summaries.lines(None)


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_goldens(sample_logs: Path, style: DumpStyle, record_property: Callable[[str, object], None]) -> None:
    """Every golden run over indexes is imitated byte for byte."""
    record_property("runs", check_goldens(sample_logs, style, (".index",)))


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_entries(segment: Path, style: DumpStyle) -> None:
    """Every entry has a line."""
    text = f"Dumping 100.index\noffset: 105 position: {SIZE}\noffset: 108 position: {2 * SIZE}\n"
    assert dump(style) == (0, text, "")
    assert dump(style, options=IndexOptions(verify_only=True)) == (0, "Dumping 100.index\n", "")


@pytest.mark.parametrize("style", [S, J], ids=["4.2", "4.3"])
def test_mismatches(segment: Path, style: DumpStyle) -> None:
    """The offset of an entry must be the last of the batch at its position."""
    (segment / "100.index").write_bytes(index((4, SIZE), (8, SIZE)))
    summary = (
        "Mismatches in :/d/100.index\n  Index offset: 108, log offset: 105\n  Index offset: 104, log offset: 105\n"
    )
    assert dump(style)[2] == summary


def test_order_of_mismatches(segment: Path) -> None:
    """Scala prints the newest mismatch first, Java the highest offset first and each offset once."""
    (segment / "100.index").write_bytes(index((7, SIZE), (4, SIZE), (7, 2 * SIZE)))
    assert dump(S)[2].split("\n")[1:4] == [
        "  Index offset: 107, log offset: 108",
        "  Index offset: 104, log offset: 105",
        "  Index offset: 107, log offset: 105",
    ]
    assert dump(J)[2].split("\n")[1:-1] == [
        "  Index offset: 107, log offset: 108",
        "  Index offset: 104, log offset: 105",
    ]


IN_LOG = f"FileRecords(size={len(LOG)}, file=/d/100.log, start=0, end=2147483647)"
ABORTS = {
    -1: f"java.lang.IllegalArgumentException: Invalid position: -1 in read from {IN_LOG}",
    len(LOG)
    + 1: f"java.lang.IllegalArgumentException: Slice from position {len(LOG) + 1} exceeds end position of {IN_LOG}",
    len(LOG): "java.util.NoSuchElementException",
    15: (
        "org.apache.kafka.common.errors.CorruptRecordException: Found record size 2 smaller than minimum record "
        "overhead (14) in file /d/100.log."
    ),
}


@pytest.mark.parametrize("position", ABORTS)
def test_aborts(segment: Path, position: int) -> None:
    """A position without a batch ends the run with Kafka's exception after the lines before it."""
    (segment / "100.index").write_bytes(GOOD[:8] + index((5, position)))
    text = f"Dumping 100.index\noffset: 105 position: {SIZE}\n"
    assert dump() == (1, text, f'Exception in thread "main" {ABORTS[position]}\n')


def test_missing_files(segment: Path) -> None:
    """The log is opened first; a missing index fails as if Kafka had created it, but is not created."""
    (segment / "100.index").unlink()
    error = 'Exception in thread "main" java.lang.IllegalArgumentException: Invalid max index size: -1\n'
    assert dump() == (1, "Dumping 100.index\n", error)
    assert not (segment / "100.index").exists()
    (segment / "100.log").unlink()
    error = 'Exception in thread "main" java.nio.file.NoSuchFileException: /d/100.log\n'
    assert dump() == (1, "Dumping 100.index\n", error)


def test_names(segment: Path) -> None:
    """A name must begin with a number."""
    error = 'Exception in thread "main" java.lang.NumberFormatException: For input string: "x"\n'
    assert run(["x.index"], IndexOptions(), J, "/d") == (1, "Dumping x.index\n", error)


@pytest.mark.parametrize(("style", "line"), [(STYLES["2.7"], ""), (STYLES["2.8"], "100.index is empty.\n")])
@pytest.mark.parametrize("content", [b"", b"1234567"])
def test_empty(segment: Path, style: DumpStyle, line: str, content: bytes) -> None:
    """Tools up to 2.7 print nothing for an index without entries."""
    (segment / "100.index").write_bytes(content)
    assert dump(style) == (0, f"Dumping 100.index\n{line}", "")


LAST = "has non-zero size but the last offset is 91 which is less than the base offset 100"
RAGGED = "bytes which is neither positive nor a multiple of 8"


@pytest.mark.parametrize(
    ("style", "content", "error"),
    [
        (J, index((5, SIZE), (-9, 1)), f"Corrupt index found, index file /d/100.index {LAST}"),
        (STYLES["2.7"], index((5, SIZE), (-9, 1)), f"Corrupt index found, index file (/d/100.index) {LAST}."),
        (S, GOOD + b"123", f"Index file /d/100.index is corrupt, found 19 {RAGGED}"),
        (STYLES["2.7"], b"123", f"Index file /d/100.index is corrupt, found 3 {RAGGED}."),
    ],
)
def test_failed_sanity_checks(segment: Path, style: DumpStyle, content: bytes, error: str) -> None:
    """A failed check ends the run; 2.7 and 2.8 have other messages than later releases."""
    (segment / "100.index").write_bytes(content)
    output = dump(style, options=IndexOptions(sanity_only=True))
    assert output == (1, "Dumping 100.index\n", f'Exception in thread "main" {style.corrupt_index}: {error}\n')


def test_passed_sanity_check(segment: Path) -> None:
    """A zero tail passes."""
    (segment / "100.index").write_bytes(GOOD + bytes(64))
    assert dump(options=IndexOptions(sanity_only=True))[1].endswith("\n100.index passed sanity check.\n")


def test_max_message_size(segment: Path) -> None:
    """A batch that does not fit into the slice is not found."""
    assert dump(options=IndexOptions(max_message_size=SIZE))[0] == 0
    status, _, error = dump(options=IndexOptions(max_message_size=SIZE - 1))
    assert (status, error) == (1, 'Exception in thread "main" java.util.NoSuchElementException\n')


def test_a_first_entry_of_zeros(segment: Path) -> None:
    """The tool prints an entry for an index of zeros only; the plain style does not."""
    (segment / "100.index").write_bytes(bytes(64))
    assert dump()[1] == "Dumping 100.index\noffset: 100 position: 0\n"
    text, damage, summary = plain()
    assert (text, [row.reason for row in damage], summary) == ([], ["zero-tail"], [])


def test_plain_continues_after_damage(segment: Path) -> None:
    """Zeros in the middle, a ragged end and a position outside the log do not end the output."""
    (segment / "100.index").write_bytes(GOOD[:8] + bytes(16) + index((7, 9999)) + GOOD[8:] + b"123")
    text, damage, summary = plain()
    assert text == [
        f"offset: 105 position: {SIZE}\n",
        "offset: 107 position: 9999\n",
        f"offset: 108 position: {2 * SIZE}\n",
    ]
    assert [row.reason for row in damage] == ["zeros", "ragged"]
    assert summary == ["Mismatches in :/d/100.index", "  Index offset: 107, log offset: -1"]


@pytest.mark.parametrize(
    ("entry", "healthy"),
    [
        ((5, SIZE), True),
        ((3, SIZE), True),
        ((8, SIZE), True),
        ((4, SIZE), False),
        ((2, SIZE), False),
        ((9, SIZE), False),
        ((5, SIZE + 1), False),
        ((5, -1), False),
    ],
)
def test_plain_reports_what_no_release_wrote(segment: Path, entry: tuple[int, int], *, healthy: bool) -> None:
    """Some release wrote the first offset of the batch, its last one, or the last one of a later batch."""
    (segment / "100.index").write_bytes(index(entry))
    assert bool(plain()[2]) != healthy


def test_plain_accepts_entries_of_the_cleaner(segment: Path) -> None:
    """The cleaner up to 3.9.0 writes the last record that it kept, which may be inside a batch."""
    (segment / "100.log").write_bytes(BATCHES[0] + batch(103, kept=2))
    (segment / "100.index").write_bytes(index((4, 0)))
    assert plain()[2] == []


def test_plain_reads_past_damage_in_the_log(segment: Path) -> None:
    """A corrupt batch makes its own entry a mismatch and no other entry."""
    (segment / "100.log").write_bytes(BATCHES[0] + b"\xff" * SIZE + BATCHES[2])
    assert plain()[2] == ["Mismatches in :/d/100.index", "  Index offset: 105, log offset: -1"]


def test_plain_without_a_log(segment: Path) -> None:
    """Entries are printed, with a note that they were not compared."""
    (segment / "100.log").unlink()
    text, _, summary = plain()
    assert len(text) == 2
    assert summary == ["100.index was not compared with its log: cannot read 100.log: there is no such file"]


def test_plain_bounds_hostile_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work for entries that go backwards is limited."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kforensics.kafka_dump.compared_files.MIN_BYTES", 0)
    (tmp_path / "100.log").write_bytes(LOG)
    (tmp_path / "100.index").write_bytes(index((5, 2 * SIZE), (9, 0)) * 100)
    assert plain()[2][-1] == "100.index was compared with its log in part only: too many entries lead back"


def test_plain_without_an_index(segment: Path) -> None:
    """A missing index raises an error."""
    with pytest.raises(InputMissingError):
        plain("nothing/100.index")


def test_directory_in_place_of_an_index(segment: Path) -> None:
    """The message is Java's."""
    (segment / "7.log").touch()
    (segment / "7.index").mkdir()
    assert run(["7.index"], IndexOptions(), J, "/d")[2] == (
        'Exception in thread "main" java.io.FileNotFoundException: 7.index (Is a directory)\n'
    )
