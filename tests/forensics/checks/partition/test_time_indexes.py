"""Time indexes as brokers of all releases write them, and faulty ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition.time_indexes import findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.layouts import TIME_INDEX_ENTRY
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, file_of, forge, patch
from tests.forensics.partition_states import each_sample, partitions_under

FIRES = {"timeindex-mismatch": "test_an_entry_that_does_not_fit_the_log_is_found"}
SILENT = {"timeindex-mismatch": "test_time_indexes_of_brokers_fit_their_logs"}

MISMATCH = "timeindex-mismatch"
LOG: Segments = {
    0: "plain @0-4 ts 100; plain @5-9 ts 300; plain @10-14 ts 200; plain @15-19 ts 400",
    20: "plain @20-24 ts 500; plain @25-29 ts 600",
}
Entries = Sequence[tuple[int, int]]


def built(entries: Entries) -> bytes:
    """Return the bytes of a time index."""
    fields = ({"timestamp": timestamp, "relative_offset": offset} for timestamp, offset in entries)
    return b"".join(bytes(TIME_INDEX_ENTRY.build(each)) for each in fields)


def state_of(folder: Path) -> PartitionState:
    """Return the state of the only partition in a log directory."""
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(0), watches_indexes=True)


def with_index(folder: Path, entries: Entries | bytes, base_offset: int = 0) -> list[Finding]:
    """Return the findings after the time index of a segment was replaced."""
    (place,) = partitions_under(folder)
    data = entries if isinstance(entries, bytes) else built(entries)
    file_of(Path(place.folder), base_offset, "timeindex").write_bytes(data)
    return list(findings(state_of(folder)))


def key_facts(findings: Sequence[Finding]) -> list[tuple[str, Severity]]:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


@each_sample()
def test_time_indexes_of_brokers_fit_their_logs(partition: Partition) -> None:
    """Releases from 2.7 to 4.4 wrote them, for every format, as leaders, followers and cleaners."""
    assert list(findings(examine(partition, Rules(0), watches_indexes=True))) == []


SOUND: dict[str, Entries] = {
    "last offsets": [(100, 4), (300, 9), (400, 19)],
    "the record with the timestamp, leaders up to 3.6": [(100, 0), (300, 7), (400, 16)],
    "only the one that closing adds": [(400, 19)],
}


@pytest.mark.parametrize("entries", SOUND.values(), ids=SOUND)
def test_what_brokers_of_all_releases_write_is_sound(tmp_path: Path, entries: Entries) -> None:
    forge(tmp_path, LOG)
    assert with_index(tmp_path, entries) == []


@pytest.mark.parametrize("entries", [[(500, 4)], []], ids=["entries", "all zeros"])
def test_in_the_last_segment_zeros_may_follow_and_the_largest_may_be_missing(tmp_path: Path, entries: Entries) -> None:
    forge(tmp_path, LOG)
    assert with_index(tmp_path, built(entries) + bytes(1200), 20) == []


def test_log_append_time_is_compared_alike(tmp_path: Path) -> None:
    forge(tmp_path, LOG, log_append_time=True)
    assert list(findings(state_of(tmp_path))) == []


@pytest.mark.parametrize("text", ["plain @0 ts 0", "plain @0 ts 0; plain @1 ts 7"], ids=["alone", "first of two"])
def test_the_timestamp_0_is_no_zero_tail(tmp_path: Path, text: str) -> None:
    forge(tmp_path, {0: text, 2: "plain @2"})
    assert with_index(tmp_path, [(0, 0)] if ";" not in text else [(0, 0), (7, 1)]) == []


MISFITS: dict[str, tuple[Entries, int, str]] = {
    "too late": ([(101, 4), (400, 19)], 0, "has another maximum timestamp"),
    "of another batch": ([(300, 14), (400, 19)], 0, "has another maximum timestamp"),
    "offset after the log": ([(100, 4), (300, 9), (400, 77)], 24, "no batch of the segment has that offset"),
    "not the largest so far": (
        [(100, 4), (200, 14), (400, 19)],
        12,
        "an earlier batch of the segment has a larger one",
    ),
    "not the largest at the end": ([(100, 4), (300, 9)], 12, "the closed segment has timestamps up to 400"),
    "timestamps that fall": ([(300, 9), (100, 4), (400, 19)], 12, "does not ascend"),
    "the same twice": ([(100, 4), (100, 4), (400, 19)], 12, "does not ascend"),
    "offsets that fall": ([(100, 9), (300, 4), (400, 19)], 12, "does not ascend"),
    "below the base offset": ([(-7, -3), (400, 19)], 0, "below the base offset"),
}


@pytest.mark.parametrize(("entries", "position", "says"), MISFITS.values(), ids=MISFITS)
def test_an_entry_that_does_not_fit_the_log_is_found(
    tmp_path: Path, entries: Entries, position: int, says: str
) -> None:
    folder = forge(tmp_path, LOG)
    findings = [finding for finding in with_index(tmp_path, entries) if finding.position == position]
    assert key_facts(findings) == [(MISMATCH, Severity.WARNING)]
    assert findings[0].path == str(file_of(folder, 0, "timeindex"))
    assert says in findings[0].message


@pytest.mark.parametrize(("clean", "severity"), [(True, Severity.WARNING), (False, Severity.INFO)])
def test_the_active_index_of_a_running_broker_may_be_ahead_of_the_log(
    tmp_path: Path, clean: bool, severity: Severity
) -> None:
    folder = forge(tmp_path, LOG, clean_shutdown=clean)
    base = max(int(file.stem) for file in folder.glob("*.log"))
    path = file_of(folder, base, "timeindex")
    path.write_bytes(path.read_bytes() + built([(900, 500)]))
    (finding,) = (one for one in findings(state_of(tmp_path)) if one.path == str(path))
    assert key_facts([finding]) == [(MISMATCH, severity)]


@pytest.mark.parametrize(
    ("entries", "likely"), [([(500, 4), (650, 14), (900, 30)], True), ([(500, 4), (650, 14), (700, 14)], False)]
)
def test_a_log_may_have_grown_past_the_first_entries_that_a_truncation_left(
    tmp_path: Path, entries: Entries, likely: bool
) -> None:
    log = {0: "plain @0-4 ts 100", 20: "plain @20-24 ts 500; plain @25-29 ts 600; plain @30-34 ts 700"}
    forge(tmp_path, log, clean_shutdown=False)
    first, *_ = with_index(tmp_path, entries, 20)
    assert key_facts([first]) == [(MISMATCH, Severity.INFO)]
    assert ("truncated: likely" in first.benign[0]) == likely


@pytest.mark.parametrize(
    ("tail", "says"), [(b"\0\0", "not a whole number of entries"), (bytes(240), "240 zero bytes although its segment")]
)
def test_a_file_that_is_no_time_index_is_found(tmp_path: Path, tail: bytes, says: str) -> None:
    forge(tmp_path, LOG)
    (finding,) = with_index(tmp_path, built([(100, 4), (400, 19)]) + tail)
    assert key_facts([finding]) == [(MISMATCH, Severity.WARNING)]
    assert says in finding.message


@pytest.mark.parametrize(("is_empty", "severity"), [(True, Severity.INFO), (False, Severity.WARNING)])
def test_preallocated_zeros_of_a_segment_without_a_byte_matter_little(
    tmp_path: Path, *, is_empty: bool, severity: Severity
) -> None:
    """A folder into which a broker of 4.4.0 was copied twice has the active segment of the first time."""
    folder = forge(tmp_path, {0: "plain @0-4", 5: "plain @5-9", 10: "plain @10-14"}, compacted=True)
    file_of(folder, 5, "timeindex").write_bytes(bytes(1020))
    if is_empty:
        file_of(folder, 5).write_bytes(b"")
    (finding,) = (one for one in findings(state_of(tmp_path)) if "1020 zero bytes although" in one.message)
    assert key_facts([finding]) == [(MISMATCH, severity)]


def test_zeros_between_entries_are_found(tmp_path: Path) -> None:
    forge(tmp_path, LOG)
    (finding,) = with_index(tmp_path, built([(100, 4), (0, 0), (400, 19)]))
    assert (finding.code.name, finding.position) == (MISMATCH, 24)


def test_a_closed_segment_with_an_empty_time_index_is_reported(tmp_path: Path) -> None:
    forge(tmp_path, LOG)
    (finding,) = with_index(tmp_path, b"")
    assert key_facts([finding]) == [(MISMATCH, Severity.INFO)]


def test_a_time_index_that_is_not_there_is_no_finding(tmp_path: Path) -> None:
    file_of(forge(tmp_path, LOG), 0, "timeindex").unlink()
    assert list(findings(state_of(tmp_path))) == []


def test_a_time_index_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG)
    (partition,) = partitions_under(tmp_path)
    file_of(folder, 0, "timeindex").unlink()
    (finding,) = findings(examine(partition, Rules(0), watches_indexes=True))
    assert (finding.code.name, finding.exactness) == (MISMATCH, Exactness.UNVERIFIABLE)


def test_a_segment_without_timestamps_needs_no_entry(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-4", 5: "plain @5"})
    patch(file_of(folder, 0), 0, max_timestamp=-1, base_timestamp=-1)
    assert with_index(tmp_path, b"") == []


def test_in_a_cleaned_segment_a_timestamp_may_have_decreased(tmp_path: Path) -> None:
    """It is reported, but only as info."""
    forge(tmp_path, {0: "plain @0-4 ts 100; plain @5-9 cnt 2 ts 300", 20: "plain @20"}, compacted=True)
    (finding,) = with_index(tmp_path, [(100, 4), (350, 9)])
    assert (finding.severity, finding.exactness) == (Severity.INFO, Exactness.APPROXIMATE)
    assert any("cleaner" in phrase for phrase in finding.benign)


def test_what_the_next_start_rebuilds_is_less_severe(tmp_path: Path) -> None:
    forge(tmp_path, LOG, clean_shutdown=False)
    assert key_facts(with_index(tmp_path, [(501, 4)], 20)) == [(MISMATCH, Severity.INFO)]


def test_many_entries_are_one_finding_that_counts_them(tmp_path: Path) -> None:
    forge(tmp_path, {0: "; ".join(f"plain @{offset}" for offset in range(1301)), 1301: "plain @1301"})
    (finding,) = with_index(tmp_path, [(NOW + at * 2 + 1, at) for at in range(1300)])
    assert (finding.first_offset, finding.evidence) == (0, {"entries": 1000, "left_out": 300})
