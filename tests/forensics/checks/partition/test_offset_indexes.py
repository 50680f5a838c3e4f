"""Offset indexes as brokers of all releases write them, and faulty ones."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.partition import structure
from kforensics.forensics.checks.partition.offset_indexes import findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from lab.places import SAMPLES
from tests.forensics.forge import Segments, cut, file_of, forge
from tests.forensics.partition_states import each_sample, partitions_under

FIRES = {
    "index-corrupt": "test_a_file_that_is_no_index_is_found",
    "index-mismatch": "test_an_entry_that_does_not_fit_the_log_is_found",
}
SILENT = dict.fromkeys(FIRES, "test_indexes_of_brokers_fit_their_logs")

CORRUPT, MISMATCH = "index-corrupt", "index-mismatch"
ENTRY = fixed_layout(OFFSET_INDEX_ENTRY)
LOG: Segments = {0: "plain @0-4; plain @5-9; plain @10-14; plain @15-19", 20: "plain @20-24; plain @25-29"}
PARTIALLY_COMPACTED: Segments = {0: "plain @0-4; plain @5-9; plain @12-16 cnt 2", 20: "plain @20-24"}
Entries = Sequence[tuple[int, int]]


def built(entries: Entries) -> bytes:
    """Return the bytes of an index."""
    fields = ({"relative_offset": offset, "position": position} for offset, position in entries)
    return b"".join(bytes(OFFSET_INDEX_ENTRY.build(each)) for each in fields)


def positions(folder: Path, base_offset: int = 0) -> list[int]:
    """Return the positions of the batches of a segment except the first, and the end of the last one."""
    log = file_of(folder, base_offset)
    index = file_of(folder, base_offset, "index").read_bytes()
    return [position for _, position in ENTRY.struct.iter_unpack(index)] + [log.stat().st_size]


def state_of(folder: Path) -> PartitionState:
    """Return the state of the only partition in a log directory."""
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(0), watches_indexes=True)


def with_index(folder: Path, entries: Entries | bytes, base_offset: int = 0) -> list[Finding]:
    """Return the findings after the index of a segment was replaced."""
    (place,) = partitions_under(folder)
    data = entries if isinstance(entries, bytes) else built(entries)
    file_of(Path(place.folder), base_offset, "index").write_bytes(data)
    return list(findings(state_of(folder)))


def key_facts(findings: Sequence[Finding]) -> list[tuple[str, Severity]]:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


@each_sample()
def test_indexes_of_brokers_fit_their_logs(partition: Partition) -> None:
    """Releases from 2.7 to 4.4 wrote them, for every format, as leaders, followers and cleaners."""
    assert list(findings(examine(partition, Rules(0), watches_indexes=True))) == []


def test_samples_have_entries_to_compare() -> None:
    """These tests must not pass because a sample is missing."""
    samples = SAMPLES
    entries = {
        scenario: sum(path.stat().st_size for path in (samples / scenario).rglob("*.index")) // ENTRY.size
        for scenario in ("legacy-2.7", "legacy-magic-0", "legacy-magic-1", "compaction-3.9", "records", "replication")
    }
    assert min(entries.values()) > 4, entries


@pytest.mark.parametrize("log", [LOG, PARTIALLY_COMPACTED], ids=["whole", "partially compacted"])
def test_an_index_not_looked_at_proves_nothing(tmp_path: Path, log: Segments) -> None:
    folder = forge(tmp_path, log)
    file_of(folder, 0, "index").write_bytes(b"torn")
    (partition,) = partitions_under(tmp_path)
    assert list(findings(examine(partition, Rules(0)))) == []


# By the number of the batch, counted from 1, at whose position an entry points.
SOUND: dict[str, tuple[Segments, Entries]] = {
    "an entry for each batch, since 3.9.1": (LOG, [(9, 1), (14, 2), (19, 3)]),
    "an entry for some": (LOG, [(14, 2)]),
    "one for an append of three batches, 2.0 to 3.9.0": (LOG, [(19, 1)]),
    "first offsets, up to 1.1": (LOG, [(5, 1), (15, 3)]),
    "mixed, after a recovery by another release": (LOG, [(5, 1), (14, 2), (15, 3)]),
    "largest offset the cleaner kept, up to 3.9.0": (PARTIALLY_COMPACTED, [(14, 1)]),
    "none": (LOG, []),
}


@pytest.mark.parametrize(("log", "entries"), SOUND.values(), ids=SOUND)
def test_what_brokers_of_all_releases_write_is_sound(tmp_path: Path, log: Segments, entries: Entries) -> None:
    at = [0, *positions(forge(tmp_path, log))]
    assert with_index(tmp_path, [(offset, at[batch]) for offset, batch in entries]) == []


@pytest.mark.parametrize("entries", [[(29, 1)], []], ids=["entries", "all zeros"])
def test_zeros_after_the_entries_of_the_last_segment_are_sound(tmp_path: Path, entries: Entries) -> None:
    at = [0, *positions(forge(tmp_path, LOG), 20)]
    index = built([(offset - 20, at[batch]) for offset, batch in entries])
    assert with_index(tmp_path, index + bytes(4096), 20) == []


def test_an_index_that_was_set_aside_is_sound(tmp_path: Path) -> None:
    """Its ten unwritten megabytes are a sparse part of the file."""
    folder = forge(tmp_path, LOG)
    with file_of(folder, 20, "index").open("r+b") as index:
        index.truncate(10_485_760)
    assert list(findings(state_of(tmp_path))) == []


MISFITS: dict[str, tuple[Entries, int, int, str]] = {
    "inside a batch": ([(9, 1), (14, 2)], 0, 1, "where no batch starts"),
    "before the log": ([(9, 1), (14, 2)], 0, -1000, "where no batch starts"),
    "end of the log": ([(9, 1), (24, 4)], 8, 0, "but the batches of the segment end at position"),
    "after the log": ([(9, 1), (24, 4)], 8, 7, "but the batches of the segment end at position"),
    "offset before its position": ([(4, 1), (14, 2)], 0, 0, "already contains the offset"),
    "inner offset": ([(9, 1), (12, 2)], 8, 0, "but no batch from there on ends with that offset"),
    "offset after the log": ([(9, 1), (40, 3)], 8, 0, "but no batch from there on ends with that offset"),
}


@pytest.mark.parametrize(("entries", "at_entry", "by", "says"), MISFITS.values(), ids=MISFITS)
def test_an_entry_that_does_not_fit_the_log_is_found(
    tmp_path: Path, entries: Entries, at_entry: int, by: int, says: str
) -> None:
    folder = forge(tmp_path, LOG)
    at = [0, *positions(folder)]
    moved = [
        (offset, at[batch] + (by if number * ENTRY.size == at_entry else 0))
        for number, (offset, batch) in enumerate(entries)
    ]
    (finding,) = with_index(tmp_path, moved)
    assert key_facts([finding]) == [(MISMATCH, Severity.ERROR)]
    assert (finding.path, finding.position) == (str(file_of(folder, 0, "index")), at_entry)
    assert says in finding.message
    assert str(moved[at_entry // ENTRY.size][1]) in finding.message


def test_an_offset_in_a_gap_of_the_log_is_found(tmp_path: Path) -> None:
    at = [0, *positions(forge(tmp_path, PARTIALLY_COMPACTED))]
    (finding,) = with_index(tmp_path, [(11, at[2])])
    assert (finding.code.name, finding.first_offset) == (MISMATCH, 11)


def spoilt(good: bytes) -> dict[str, tuple[bytes, int, str]]:
    """Return invalid indexes, each with the position of the fault."""
    return {
        "ragged": (good + b"\0\0\0", len(good), f"has {len(good) + 3} bytes"),
        "shorter than an entry": (good[:5], 0, "has 5 bytes"),
        "descending": (good[8:16] + good[:8], 8, "does not ascend"),
        "repeated": (good[:8] * 2, 8, "does not ascend"),
        "the same offset twice": (good[:8] + good[:4] + good[12:16], 8, "does not ascend"),
        "zeros in front": (bytes(8) + good, 8, "zero entries before"),
        "below the base offset": (good + built([(-4, 9999)]), len(good), "below the base offset"),
        "zeros between": (good[:8] + bytes(16) + good[8:], 24, "zero entries before"),
    }


@pytest.mark.parametrize("how", spoilt(bytes(24)))
def test_a_file_that_is_no_index_is_found(tmp_path: Path, how: str) -> None:
    folder = forge(tmp_path, LOG)
    index, position, says = spoilt(file_of(folder, 0, "index").read_bytes())[how]
    (finding,) = with_index(tmp_path, index)
    assert key_facts([finding]) == [(CORRUPT, Severity.WARNING)]
    assert (finding.path, finding.position) == (str(file_of(folder, 0, "index")), position)
    assert says in finding.message


def test_zeros_after_the_entries_of_a_closed_segment_are_reported(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG)
    (finding,) = with_index(tmp_path, file_of(folder, 0, "index").read_bytes() + bytes(800))
    assert key_facts([finding]) == [(CORRUPT, Severity.INFO)]
    assert "800 zero bytes" in finding.message


def test_an_index_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG)
    (partition,) = partitions_under(tmp_path)
    file_of(folder, 0, "index").unlink()
    (finding,) = findings(examine(partition, Rules(0), watches_indexes=True))
    assert (finding.code.name, finding.exactness) == (CORRUPT, Exactness.UNVERIFIABLE)


def test_an_index_that_is_not_there_is_no_finding(tmp_path: Path) -> None:
    """A broker rebuilds it at startup."""
    file_of(forge(tmp_path, LOG), 0, "index").unlink()
    assert list(findings(state_of(tmp_path))) == []


STOPS = {
    "in order": (True, 20, Severity.ERROR),
    "not, but flushed": (False, 0, Severity.ERROR),
    "not, and to be recovered": (False, 20, Severity.WARNING),
}


@pytest.mark.parametrize(("clean", "base_offset", "severity"), STOPS.values(), ids=STOPS)
def test_what_the_next_start_rebuilds_is_less_severe(
    tmp_path: Path, clean: bool, base_offset: int, severity: Severity
) -> None:
    """Without a clean shutdown a broker recovers the segments from the recovery point; here only the last one."""
    at = positions(forge(tmp_path, LOG, clean_shutdown=clean), base_offset)
    (finding,) = with_index(tmp_path, [(9, at[0] + 1)], base_offset)
    assert key_facts([finding]) == [(MISMATCH, severity)]
    assert ("not ruled out" in finding.benign[0]) == (severity is Severity.WARNING)


AHEAD = {
    "of a running broker": (False, 20, Severity.INFO),
    "of a stopped broker": (True, 20, Severity.ERROR),
    "of a closed segment": (False, 0, Severity.ERROR),
}


@pytest.mark.parametrize(("clean", "base_offset", "severity"), AHEAD.values(), ids=AHEAD)
def test_an_index_may_be_ahead_of_the_log_in_a_copy(
    tmp_path: Path, clean: bool, base_offset: int, severity: Severity
) -> None:
    """The log was copied first, and the broker went on writing."""
    end = positions(forge(tmp_path, LOG, clean_shutdown=clean), base_offset)[-1]
    (finding,) = with_index(tmp_path, [(9, end)], base_offset)
    assert key_facts([finding]) == [(MISMATCH, severity)]
    assert ("while the broker was running" in finding.benign[0]) == (severity is Severity.INFO)


LEFT_OVER = {
    "after the log end": (False, 20, [(9, 1, 0), (14, 1, 7)], Severity.INFO),
    "after the log end, where a batch starts": (False, 20, [(14, 1, 0)], Severity.INFO),
    "in the log": (False, 20, [(9, 1, 7)], Severity.WARNING),
    "of a stopped broker": (True, 20, [(9, 1, 0), (14, 1, 7)], Severity.ERROR),
    "of a closed segment": (False, 0, [(24, 3, 7)], Severity.ERROR),
}


@pytest.mark.parametrize(("clean", "base_offset", "entries", "severity"), LEFT_OVER.values(), ids=LEFT_OVER)
def test_an_entry_may_be_left_from_before_a_truncation(
    tmp_path: Path, clean: bool, base_offset: int, entries: Sequence[tuple[int, int, int]], severity: Severity
) -> None:
    """A follower of 4.4.0 truncated its log, wrote a shorter one, and was killed: its index still had a later entry."""
    at = [0, *positions(forge(tmp_path, LOG, clean_shutdown=clean), base_offset)]
    (finding,) = with_index(tmp_path, [(offset, at[batch] + by) for offset, batch, by in entries], base_offset)
    assert key_facts([finding]) == [(MISMATCH, severity)]
    assert ("before the log was truncated: possible" in finding.benign[0]) == (severity is Severity.INFO)


LONGER: Segments = {0: "plain @0-4", 20: "plain @20-24; plain @25-29; plain @30-34; plain @35-39"}
STALE = [(12, 1, 7), (16, 2, 7), (22, 3, 900)]
REGROWN = {
    "up to the last one": (False, [(9, 0, 0), *STALE], {Severity.INFO}),
    "one not ascending": (False, [(9, 0, 0), (14, 1, 0), (12, 1, 7), (22, 3, 900)], {Severity.INFO}),
    "in the log only": (False, [(9, 0, 0), *STALE[:2]], {Severity.WARNING}),
    "one that fits after it": (False, [(12, 0, 7), (14, 1, 0), (22, 3, 900)], {Severity.WARNING, Severity.INFO}),
    "none that fits before it": (False, STALE, {Severity.WARNING, Severity.INFO}),
    "of a stopped broker": (True, [(9, 0, 0), *STALE], {Severity.ERROR}),
}


@pytest.mark.parametrize(("clean", "entries", "severities"), REGROWN.values(), ids=REGROWN)
def test_a_log_may_have_grown_past_the_first_entries_that_a_truncation_left(
    tmp_path: Path, clean: bool, entries: Sequence[tuple[int, int, int]], severities: set[Severity]
) -> None:
    """A follower of 0.11 truncated its log, appended less than before, and was killed."""
    at = positions(forge(tmp_path, LONGER, clean_shutdown=clean), 20)
    results = with_index(tmp_path, [(offset, at[batch] + by) for offset, batch, by in entries], 20)
    assert {finding.severity for finding in results if finding.code.name == MISMATCH} == severities
    assert all("truncated: likely" in finding.benign[0] for finding in results) == (severities == {Severity.INFO})


OUTGROWN = {
    "all after the truncation": (False, [30], [(14, 2, 7), (16, 3, 7)], {Severity.INFO}),
    "after one that fits": (False, [30], [(9, 1, 0), (14, 2, 7)], {Severity.INFO}),
    "one before the truncation": (False, [30], [(9, 1, 7), (14, 2, 7)], {Severity.WARNING}),
    "no snapshot shows a truncation": (False, [], [(14, 2, 7)], {Severity.WARNING}),
    "a snapshot in the last leader epoch": (False, [35], [(16, 3, 7)], {Severity.WARNING}),
    "of a stopped broker": (True, [30], [(14, 2, 7)], {Severity.ERROR}),
}


@pytest.mark.parametrize(("clean", "snapshots", "entries", "severities"), OUTGROWN.values(), ids=OUTGROWN)
def test_a_log_may_have_grown_past_all_entries_that_a_truncation_left(
    tmp_path: Path,
    clean: bool,
    snapshots: Sequence[int],
    entries: Sequence[tuple[int, int, int]],
    severities: set[Severity],
) -> None:
    """A replica of 3.9.1 truncated its log to where an unclean leader continued, and grew beyond the entry it left."""
    folder = forge(
        tmp_path,
        LONGER,
        clean_shutdown=clean,
        leader_epochs={0: 0, 30: 1},
        snapshots={offset: [] for offset in snapshots},
    )
    at = positions(folder, 20)
    results = with_index(tmp_path, [(offset, at[batch - 1] + by) for offset, batch, by in entries], 20)
    assert {finding.severity for finding in results if finding.code.name == MISMATCH} == severities
    assert all("truncated: likely" in finding.benign[0] for finding in results) == (severities == {Severity.INFO})


PREALLOCATED = {
    "as a running broker has them": (240, 240, Severity.INFO),
    "rounded down to entries": (248, 240, Severity.INFO),
    "cut to its entries": (0, 0, Severity.ERROR),
    "one cut to its entries": (240, 0, Severity.ERROR),
    "of different sizes": (240, 480, Severity.ERROR),
}


@pytest.mark.parametrize(("size", "time_size", "severity"), PREALLOCATED.values(), ids=PREALLOCATED)
def test_a_partition_alone_shows_by_its_indexes_that_it_was_not_closed(
    tmp_path: Path, size: int, time_size: int, severity: Severity
) -> None:
    """Neither a checkpoint nor a marker of a clean shutdown was copied with it."""
    folder = forge(tmp_path / "broker", LOG, clean_shutdown=False)
    index, times = file_of(folder, 20, "index"), file_of(folder, 20, "timeindex")
    index.write_bytes(built([(9, positions(folder, 20)[0]), (16, 900)]).ljust(size, b"\0"))
    times.write_bytes(times.read_bytes().ljust(time_size, b"\0"))
    alone = shutil.copytree(folder, tmp_path / "alone" / folder.name)
    (finding,) = findings(state_of(alone.parent))
    assert key_facts([finding]) == [(MISMATCH, severity)]


CLEANINGS = {
    "of a running broker": ({"first_dirty": 20, "clean_shutdown": False}, 20, Severity.INFO),
    "of a stopped broker": ({"first_dirty": 20}, 20, Severity.ERROR),
    "of no cleaner": ({"clean_shutdown": False}, 20, Severity.ERROR),
    "of a segment that was active": ({"first_dirty": 20, "clean_shutdown": False}, 40, Severity.INFO),
    "of a segment that is active": ({"clean_shutdown": False}, 40, Severity.WARNING),
}


@pytest.mark.parametrize(("options", "base_offset", "severity"), CLEANINGS.values(), ids=CLEANINGS)
def test_an_index_may_be_of_a_cleaning_after_the_copy_of_the_log(
    tmp_path: Path, options: dict[str, Any], base_offset: int, severity: Severity
) -> None:
    """A broker of 4.4.0 cleaned segments beyond the checkpoint of its cleaner between the copies of log and index."""
    log = {0: "plain @0-4", 20: "plain @20-24; plain @25-29", 40: "plain @40-44; plain @45-49"}
    at = positions(forge(tmp_path, log, **options), base_offset)
    (finding,) = with_index(tmp_path, [(9, at[0] + 1)], base_offset)
    assert key_facts([finding]) == [(MISMATCH, severity)]


@pytest.mark.parametrize(
    ("offset", "deleted", "stopped", "severity"),
    [
        (19, True, False, Severity.INFO),
        (9, True, False, Severity.ERROR),
        (19, False, False, Severity.ERROR),
        (19, True, True, Severity.ERROR),
    ],
    ids=["merged", "own-entry", "nothing-deleted", "stopped"],
)
def test_an_index_may_be_of_segments_that_the_first_cleaning_merged(
    tmp_path: Path, offset: int, deleted: bool, stopped: bool, severity: Severity
) -> None:
    """3.7.2 replaced an empty segment and its index between the copies of the two, without a cleaner checkpoint yet."""
    folder = forge(tmp_path, {0: "plain @0-9", 10: "plain @10-19", 20: "plain @20-29"}, clean_shutdown=stopped)
    if deleted:
        (folder / "00000000000000000005.log.deleted").write_bytes(b"")
    (finding,) = with_index(tmp_path, [(offset, 900)])
    assert key_facts([finding]) == [(MISMATCH, severity)]


def test_an_entry_that_points_to_where_nothing_was_written_is_found(tmp_path: Path) -> None:
    """Preallocated space is not damage that could explain it."""
    folder = forge(tmp_path, LOG)
    end = positions(folder, 20)[-1]
    with file_of(folder, 20).open("ab") as log:
        log.write(bytes(4096))
    (finding,) = with_index(tmp_path, [(15, end + 8)], 20)
    assert key_facts([finding]) == [(MISMATCH, Severity.ERROR)]


def test_entries_of_a_segment_without_batches_are_found(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG)
    file_of(folder, 20).write_bytes(b"")
    (finding,) = findings(state_of(tmp_path))
    assert (finding.code.name, finding.path) == (MISMATCH, str(file_of(folder, 20, "index")))


def test_entries_that_speak_of_damaged_batches_are_passed_over(tmp_path: Path) -> None:
    """The fault is in the log: here in a batch in the middle, and in a torn last one."""
    folder = forge(tmp_path, LOG)
    log, at = file_of(folder, 0), positions(folder)
    data = log.read_bytes()
    log.write_bytes(data[: at[0]] + bytes(at[1] - at[0]) + data[at[1] :])
    cut(log, -10)
    assert list(findings(state_of(tmp_path))) == []


def test_what_was_not_lost_is_evaluated_in_a_damaged_log_too(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG)
    log, at = file_of(folder, 0), positions(folder)
    data = log.read_bytes()
    log.write_bytes(data[: at[0]] + bytes(at[1] - at[0]) + data[at[1] :])
    inside, inner = with_index(tmp_path, [(9, at[0]), (14, at[1] + 1), (17, at[2])])
    assert (inside.code.name, inside.first_offset) == (MISMATCH, 14)
    assert (inner.code.name, inner.first_offset) == (MISMATCH, 17)


def test_where_offsets_of_the_log_are_wrong_the_finding_follows_from_that(tmp_path: Path) -> None:
    """No checksum covers the base offset, so the batch looks valid and the entries do not match it."""
    folder = forge(tmp_path, LOG)
    with file_of(folder, 0).open("r+b") as log:
        log.seek(positions(folder)[0])
        log.write((700).to_bytes(8, "big"))
    (partition,) = partitions_under(tmp_path)
    results = list(findings(examine(partition, Rules(0), [structure.COLLECTOR], watches_indexes=True)))
    assert {(finding.code.name, finding.cause) for finding in results} == {(MISMATCH, "offset-not-monotonic")}


def test_many_entries_are_one_finding_that_counts_them(tmp_path: Path) -> None:
    text = "; ".join(f"plain @{offset}" for offset in range(1301))
    at = positions(forge(tmp_path, text))
    (finding,) = with_index(tmp_path, [(number, place + 1) for number, place in enumerate(at[:-1], start=1)])
    assert (finding.first_offset, finding.evidence) == (1, {"entries": 1000, "left_out": 300})
    assert "999 more of its entries" in finding.message
