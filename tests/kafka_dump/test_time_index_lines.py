from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.index_lines import plain_time_index
from kforensics.kafka_dump.styles import STYLES, DumpStyle
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.format.rows import Damage
from tests.kafka_dump.imitation import ALL_STYLES, ToolOutput, check_goldens, run
from tests.kafka_dump.segments import TIME, batch, index, time_index

BATCHES = [batch(100), batch(103), batch(106)]
SIZE = len(BATCHES[0])
LOG = b"".join(BATCHES)
GOOD = time_index((TIME + 105, 5), (TIME + 108, 8))
S, J = STYLES["4.2"], STYLES["4.3"]
LINES = f"Dumping 100.timeindex\ntimestamp: {TIME + 105} offset: 105\ntimestamp: {TIME + 108} offset: 108\n"


@pytest.fixture
def segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a log of three batches of three records, and its indexes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "100.log").write_bytes(LOG)
    (tmp_path / "100.index").write_bytes(index((5, SIZE), (8, 2 * SIZE)))
    (tmp_path / "100.timeindex").write_bytes(GOOD)
    return tmp_path


def dump(style: DumpStyle = J, options: IndexOptions | None = None) -> ToolOutput:
    return run(["100.timeindex"], options or IndexOptions(), style, "/d")


def plain() -> tuple[list[str], list[Damage], list[str]]:
    summaries = Summaries("/d")
    rows = list(plain_time_index("100.timeindex", IndexOptions(), summaries))
    text = [row for row in rows if isinstance(row, str)]
    return text, [row for row in rows if isinstance(row, Damage)], summaries.lines(None)


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_goldens(sample_logs: Path, style: DumpStyle, record_property: Callable[[str, object], None]) -> None:
    """Every golden run over time indexes is imitated byte for byte."""
    record_property("runs", check_goldens(sample_logs, style, (".timeindex",)))


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_entries(segment: Path, style: DumpStyle) -> None:
    """Every entry has a line."""
    assert dump(style) == (0, LINES, "")
    assert dump(style, IndexOptions(verify_only=True)) == (0, "Dumping 100.timeindex\n", "")


def test_lost_offsets(segment: Path) -> None:
    """The offset must be the last of a batch; the heading names the file since 4.3."""
    (segment / "100.timeindex").write_bytes(time_index((TIME + 104, 4), (TIME + 109, 9)))
    lines = "Indexed offset: 104, found log offset: 105\nIndexed offset: 109, found log offset: -1\n"
    assert dump(S)[2] == f"The following indexed offsets are not found in the log.\n{lines}"
    assert dump(J)[2] == f"The following indexed offsets are not found in :/d/100.timeindex\n{lines}"


def test_wrong_times(segment: Path) -> None:
    """The timestamp must be the largest one of the batch's records, and later than the previous entry."""
    (segment / "100.timeindex").write_bytes(time_index((TIME + 108, 5), (TIME + 108, 8)))
    assert dump()[2] == (
        "Found timestamp mismatch in :/d/100.timeindex\n"
        f"  Index timestamp: {TIME + 108}, log timestamp: {TIME + 105}\n"
        "Found out of order timestamp in :/d/100.timeindex\n"
        f"  Index timestamp: {TIME + 108}, Previously indexed timestamp: {TIME + 108}\n"
    )


def test_emptied_batch(segment: Path) -> None:
    """The timestamp of a batch is -1 if it has no records, or only records before 1970."""
    (segment / "100.log").write_bytes(batch(100, kept=0) + batch(103, time=-1000))
    (segment / "100.index").write_bytes(b"")
    (segment / "100.timeindex").write_bytes(time_index((TIME, 2), (TIME + 1, 5)))
    assert dump()[2].count("log timestamp: -1\n") == 2


@pytest.mark.parametrize(("style", "status"), [(S, 0), (J, 1)], ids=["4.2", "4.3"])
def test_damage_after_the_match(segment: Path, style: DumpStyle, status: int) -> None:
    """The tool of 4.3 reads the log to its end before it searches for the offset."""
    (segment / "100.log").write_bytes(LOG + bytes(18))
    output = dump(style)
    assert output[0] == status
    if status:
        assert output[1] == "Dumping 100.timeindex\n"
        assert output[2].endswith("Found record size 0 smaller than minimum record overhead (14) in file /d/100.log.\n")
    else:
        assert output[1:] == (LINES, "")


def test_index_entry_outside_the_log(segment: Path) -> None:
    """The position comes from the offset index, by Kafka's search; -1 is not mistaken for an earlier search."""
    (segment / "100.index").write_bytes(index((5, -1)))
    error = f"Invalid position: -1 in read from FileRecords(size={len(LOG)}, file=/d/100.log, start=0, end=2147483647)"
    for style in (S, J):
        assert dump(style)[2] == f'Exception in thread "main" java.lang.IllegalArgumentException: {error}\n'


def test_missing_index(segment: Path) -> None:
    """The offset index is opened before the time index, and is not created."""
    (segment / "100.index").unlink()
    error = 'Exception in thread "main" java.lang.IllegalArgumentException: Invalid max index size: -1\n'
    assert dump() == (1, "Dumping 100.timeindex\n", error)
    assert not (segment / "100.index").exists()


def test_a_first_entry_of_zeros(segment: Path) -> None:
    """The tool prints an entry for a time index of zeros only; the plain style does not."""
    (segment / "100.timeindex").write_bytes(bytes(24))
    assert dump()[1] == "Dumping 100.timeindex\ntimestamp: 0 offset: 100\n"
    text, damage, summary = plain()
    assert (text, [row.reason for row in damage], summary) == ([], ["zero-tail"], [])


def test_empty(segment: Path) -> None:
    """Nothing is printed for a time index without entries."""
    (segment / "100.timeindex").write_bytes(b"12345678901")
    assert dump() == (0, "Dumping 100.timeindex\n", "")


CORRUPT = "Corrupt time index found, time index file (/d/100.timeindex) has non-zero size but the last"
RAGGED = "found 25 bytes which is neither positive nor a multiple of 12"


@pytest.mark.parametrize(
    ("content", "error", "old_end"),
    [
        (GOOD + bytes(12), f"{CORRUPT} timestamp is 0 which is less than the first timestamp {TIME + 105}", ""),
        (time_index((5, 5), (6, -1)), f"{CORRUPT} offset is 99 which is less than the first offset 100", ""),
        (GOOD + b"1", f"Time index file /d/100.timeindex is corrupt, {RAGGED}", "."),
    ],
)
def test_sanity_check(segment: Path, content: bytes, error: str, old_end: str) -> None:
    """The three errors in the order in which Kafka checks for them; a tail of zeros is one of them."""
    assert dump(J, IndexOptions(sanity_only=True))[1].endswith("\n100.timeindex passed sanity check.\n")
    (segment / "100.timeindex").write_bytes(content)
    name = "org.apache.kafka.storage.internals.log.CorruptIndexException"
    expected = (1, "Dumping 100.timeindex\n", f'Exception in thread "main" {name}: {error}\n')
    assert dump(J, IndexOptions(sanity_only=True)) == expected
    old = dump(STYLES["2.7"], IndexOptions(sanity_only=True))[2]
    assert old == f'Exception in thread "main" kafka.log.CorruptIndexException: {error}{old_end}\n'


def test_plain_healthy(segment: Path) -> None:
    """Leaders up to 3.6 wrote the offset of a record inside a batch, which is not a mismatch."""
    (segment / "100.timeindex").write_bytes(time_index((TIME + 105, 4), (TIME + 108, 8)))
    assert plain()[1:] == ([], [])


def test_plain_zero_tail(segment: Path) -> None:
    """Zeros are damage, not entries."""
    (segment / "100.timeindex").write_bytes(GOOD + bytes(24) + b"xy")
    text, damage, summary = plain()
    assert len(text) == 2
    assert ([row.reason for row in damage], summary) == (["zero-tail", "ragged"], [])


@pytest.mark.parametrize(
    ("entry", "heading"),
    [
        ((TIME + 99, 5), "Found timestamp mismatch in :/d/100.timeindex"),
        ((TIME + 106, 5), "Found timestamp mismatch in :/d/100.timeindex"),
        ((TIME + 109, 9), "The following indexed offsets are not found in :/d/100.timeindex"),
        ((TIME + 109, -1), "The following indexed offsets are not found in :/d/100.timeindex"),
    ],
)
def test_plain_reports_what_no_release_wrote(segment: Path, entry: tuple[int, int], heading: str) -> None:
    """The batch with the offset must have the timestamp."""
    (segment / "100.timeindex").write_bytes(time_index(entry))
    assert plain()[2][0] == heading


def test_plain_allows_for_compaction(segment: Path) -> None:
    """Compaction may have removed the latest record of a batch, but no record becomes later."""
    (segment / "100.log").write_bytes(batch(100, kept=1) + batch(103, kept=0) + BATCHES[2])
    (segment / "100.timeindex").write_bytes(time_index((TIME + 102, 2), (TIME + 105, 5)))
    assert plain()[2] == []
    (segment / "100.timeindex").write_bytes(time_index((TIME + 50, 2)))
    assert plain()[2][1] == f"  Index timestamp: {TIME + 50}, log timestamp: {TIME + 100}"


def test_plain_order(segment: Path) -> None:
    """Timestamps that do not rise are reported, and offsets that fall are still found."""
    (segment / "100.timeindex").write_bytes(time_index((TIME + 108, 8), (TIME + 105, 5)))
    assert plain()[2] == [
        "Found out of order timestamp in :/d/100.timeindex",
        f"  Index timestamp: {TIME + 105}, Previously indexed timestamp: {TIME + 108}",
    ]
