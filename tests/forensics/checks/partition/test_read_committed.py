"""Transaction indexes that show or hide the wrong records from read_committed consumers."""

from __future__ import annotations

from operator import itemgetter
from os import utime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.forensics.checks.partition.read_committed import findings
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.batch_notation import NOW, parse_batches
from tests.forensics.forge import Aborted, Segments, aborted_transactions, cut, file_of, forge, keep_times, patch
from tests.forensics.partition_states import HOUR, each_sample, partitions_under, random_leader_log, state_under
from tests.reference.fold import fold

FIRES = {
    "txnindex-missing-entry": "test_18_data_without_an_entry_is_shown",
    "txnindex-extra-entry": "test_an_entry_without_its_transaction_is_found",
    "visibility-mismatch": "test_18_data_without_an_entry_is_shown",
}
SILENT = dict.fromkeys(FIRES, "test_consumers_of_real_brokers_receive_what_they_should")

MISSING, EXTRA, MISMATCH = "txnindex-missing-entry", "txnindex-extra-entry", "visibility-mismatch"
KeyFacts = list[tuple[str, Severity]]
NESTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3"
NESTED_COMMITTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 C 1 @2; M 1 0 A 1 @3"
TWO_BATCHES = "D 1 0 0-0 @0 T; D 1 0 1-3 @1-3 T; M 1 0 A 1 @4; D 1 0 4-4 @5 T; M 1 0 C 1 @6"
EMPTY_ABORT = "M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3"
HEAD_DELETED = {200: "gone D 3 0 0-9 @150-159 T; gone D 4 0 0-0 @120 N; plain @200-229; M 3 0 A 1 @230"}
NO_PREFIX = {100: "D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"}
CLEANED = {
    0: "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 1 @15; plain @19",
    20: "plain @20",
}
# An entry may survive its data and its marker by one cleaning.
OUTLIVED = {0: "gone D 1 0 0-2 @0-2 T; M 1 0 A 1 @3; gone D 2 0 0-0 @4 T; gone M 2 0 A 1 @5; plain @6", 7: "plain @7"}


def found_in(folder: Path, as_of_ms: int = NOW + HOUR // 2) -> list[Finding]:
    """Return the findings in the one partition of a log directory."""
    return list(findings(state_under(folder, as_of_ms=as_of_ms)))


def key_facts(findings: list[Finding]) -> KeyFacts:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


def ranges(finding: Finding) -> list[tuple[int, int, int, bool]]:
    """Return producer, offsets and whether they are shown, for each range of a mismatch."""
    rows: Any = finding.evidence["ranges"]
    return [(row["producer_id"], row["first_offset"], row["last_offset"], row["shown"]) for row in rows]


@each_sample()
def test_consumers_of_real_brokers_receive_what_they_should(partition: Partition) -> None:
    assert list(findings(examine(partition, Rules(partition.newest_mtime_ms or 0)))) == []


STALE = {0: "gone D 1 0 0-1 @0-1 T; gone M 1 0 A 1 @2; plain @3", 4: "D 1 0 2-3 @4-5 T; M 1 0 C 1 @6", 7: "plain @7"}


@pytest.mark.parametrize(
    ("clean_shutdown", "first_dirty", "entry", "severity"),
    [
        (False, 7, (1, 0, 2, 3), Severity.INFO),
        (True, 7, (1, 0, 2, 3), Severity.CRITICAL),
        (False, None, (1, 0, 2, 3), Severity.CRITICAL),
        (False, 7, (1, 4, 6, 7), Severity.CRITICAL),
    ],
    ids=["cleaned meanwhile", "stopped", "never cleaned", "of a transaction that is there"],
)
def test_an_index_may_be_from_before_the_cleaner_removed_the_marker(
    tmp_path: Path, *, clean_shutdown: bool, first_dirty: int | None, entry: Aborted, severity: Severity
) -> None:
    """A copy of a running broker of 4.4.0 had the log of a cleaned segment with its transaction index from before."""
    index = {0: [entry]} if entry[2] < 4 else {0: [], 4: [entry]}
    folder = forge(tmp_path, STALE, first_dirty=first_dirty, clean_shutdown=clean_shutdown, txnindex=index)
    assert dict(key_facts(found_in(folder.parent)))[MISMATCH] == severity


MERGED = {0: "D 1 0 0-1 @0-1 T; M 1 0 A 1 @2", 3: "D 1 0 2-3 @3-4 T; M 1 0 A 1 @5; plain @6", 7: "plain @7"}


@pytest.mark.parametrize(
    ("clean_shutdown", "first_dirty", "severity"),
    [(False, 7, None), (True, 7, Severity.CRITICAL), (False, None, Severity.CRITICAL), (False, 3, None)],
    ids=["cleaned meanwhile", "stopped", "never cleaned", "its checkpoint copied before"],
)
def test_an_entry_may_be_in_the_index_of_the_segment_that_the_cleaner_merged_its_own_into(
    tmp_path: Path, *, clean_shutdown: bool, first_dirty: int | None, severity: Severity | None
) -> None:
    """A copy of a running broker of 4.1.1 had the logs of before, the index of after, and no index of the other."""
    index = {0: [(1, 0, 2, 3), (1, 3, 5, 6)], 3: None}
    folder = forge(tmp_path, MERGED, first_dirty=first_dirty, clean_shutdown=clean_shutdown, txnindex=index)
    assert dict(key_facts(found_in(folder.parent))).get(MISSING) == severity


def test_18_data_without_an_entry_is_shown(tmp_path: Path) -> None:
    folder = forge(tmp_path, NESTED, txnindex={0: [(1, 0, 3, 4)]})
    missing, mismatch = found_in(tmp_path)
    assert key_facts([missing, mismatch]) == [(MISSING, Severity.CRITICAL), (MISMATCH, Severity.CRITICAL)]
    assert (missing.producer_id, missing.first_offset, missing.last_offset) == (2, 1, 2)
    assert missing.path == str(file_of(folder, 0, "txnindex"))
    assert (ranges(mismatch), mismatch.cause) == ([(2, 1, 1, True)], MISSING)
    assert (mismatch.evidence["records_shown"], mismatch.evidence["records_hidden"]) == (1, 0)


def test_18_an_entry_for_a_committed_transaction_hides_it(tmp_path: Path) -> None:
    forge(tmp_path, NESTED_COMMITTED, txnindex={0: [(2, 1, 2, 0), (1, 0, 3, 4)]})
    extra, mismatch = found_in(tmp_path)
    assert key_facts([extra, mismatch]) == [(EXTRA, Severity.CRITICAL), (MISMATCH, Severity.CRITICAL)]
    assert "COMMIT" in extra.message
    assert (ranges(mismatch), mismatch.cause) == ([(2, 1, 1, False)], EXTRA)


def test_a_lost_index_shows_all_that_was_aborted(tmp_path: Path) -> None:
    folder = forge(tmp_path, NESTED, txnindex={0: None})
    findings = found_in(tmp_path)
    assert [finding.code.name for finding in findings] == [MISSING, MISSING, MISMATCH]
    assert [finding.path for finding in findings[:2]] == [str(file_of(folder))] * 2
    assert ranges(findings[2]) == [(1, 0, 0, True), (2, 1, 1, True)]


def test_an_entry_that_begins_too_late_shows_the_beginning(tmp_path: Path) -> None:
    forge(tmp_path, TWO_BATCHES, txnindex={0: [(1, 1, 4, 5)]})
    missing, mismatch = found_in(tmp_path)
    assert key_facts([missing, mismatch]) == [(MISSING, Severity.CRITICAL), (MISMATCH, Severity.CRITICAL)]
    assert "covers it only from offset 1" in missing.message
    assert ranges(mismatch) == [(1, 0, 0, True)]


def test_the_offsets_of_a_mismatch_are_those_of_the_batches(tmp_path: Path) -> None:
    """A wrong entry hides everything up to the producer's next ABORT, over several segments."""
    log = {
        0: "D 1 0 0-2 @0-2 T; M 1 0 C 1 @3",
        4: "D 1 0 3-3 @4 T; plain @5; D 1 0 4-5 @6-7 T; M 1 0 C 1 @8",
        9: "D 1 0 6-6 @9 T; M 1 0 A 1 @10; D 1 0 7-7 @11 T; M 1 0 C 1 @12",
    }
    forge(tmp_path, log, txnindex={4: [(1, 4, 8, 9)]})
    extra, mismatch = found_in(tmp_path)
    assert key_facts([extra, mismatch]) == [(EXTRA, Severity.CRITICAL), (MISMATCH, Severity.CRITICAL)]
    assert ranges(mismatch) == [(1, 4, 4, False), (1, 6, 7, False)]
    assert (mismatch.evidence["batches"], mismatch.evidence["records_hidden"]) == (2, 3)


EXTRAS: dict[str, tuple[Segments, list[Aborted], str]] = {
    "no marker": ("plain @0-4; D 1 0 0-0 @5 N; plain @6", [(1, 1, 5, 6)], "that producer has no marker"),
    "marker of another": ("M 2 0 A 1 @0; plain @1", [(1, 0, 0, 1)], "that producer has no marker"),
    "no transaction": ("plain @0-2; M 1 0 A 1 @3", [(1, 1, 3, 4)], "ended no transaction"),
    "begins elsewhere": ("plain @0-2; D 1 0 0-0 @3 T; M 1 0 A 1 @4", [(1, 1, 4, 5)], "started at offset 3"),
    "nothing to hide": ("M 1 0 C 1 @0; plain @1", [(1, 0, 0, 1)], "is a COMMIT"),
    "on disk": ({100: "plain @100-102; M 1 0 A 1 @103"}, [(1, 101, 103, 104)], "ended no transaction"),
}


@pytest.mark.parametrize(("log", "index", "words"), EXTRAS.values(), ids=EXTRAS)
def test_an_entry_without_its_transaction_is_found(
    tmp_path: Path, log: Segments, index: list[Aborted], words: str
) -> None:
    base = min(log) if not isinstance(log, str) else 0
    folder = forge(tmp_path, log, txnindex={base: index})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(EXTRA, Severity.ERROR)]
    assert words in finding.message
    assert (finding.path, finding.position) == (str(file_of(folder, base, "txnindex")), 0)


HEALTHY_SCENARIOS: dict[str, tuple[Segments, dict[int, list[Aborted] | None], bool]] = {
    "21 prefix": (NO_PREFIX, {100: [(2, 40, 101, 60)]}, False),
    "22 empty": (CLEANED, {}, True),
    "22 begins in what was cleaned": (CLEANED, {0: [(2, 7, 12, 13)]}, True),
    "37 data deleted with the head": (HEAD_DELETED, {200: [(3, 150, 230, 231)]}, False),
    "39 written up to 2.7": (EMPTY_ABORT, {0: [(1, 0, 0, 1)]}, False),
    "outlives its data": (OUTLIVED, {0: [(1, 0, 3, 4), (2, 4, 5, 6)]}, True),
    "goes with its data": (OUTLIVED, {0: None}, True),
}


@pytest.mark.parametrize(("log", "index", "compacted"), HEALTHY_SCENARIOS.values(), ids=HEALTHY_SCENARIOS)
def test_what_brokers_do_to_an_index_is_no_finding(
    tmp_path: Path, log: Segments, index: dict[int, list[Aborted] | None], compacted: bool
) -> None:
    forge(tmp_path, log, compacted=compacted, txnindex=index)
    assert found_in(tmp_path) == []


def test_an_entry_whose_marker_was_cleaned_before_its_data_is_found(tmp_path: Path) -> None:
    log = {0: "plain @0; D 1 0 0-2 @1-3 T cnt 1; gone M 1 0 A 1 @4; plain @5", 6: "plain @6"}
    forge(tmp_path, log, compacted=True, txnindex={0: [(1, 1, 4, 5)]})
    assert key_facts(found_in(tmp_path)) == [(EXTRA, Severity.ERROR)]


def test_22_an_empty_batch_without_an_entry_shows_nothing(tmp_path: Path) -> None:
    forge(tmp_path, CLEANED, compacted=True, txnindex={0: None})
    assert key_facts(found_in(tmp_path)) == [(MISSING, Severity.INFO)]


def set_times(partition: Path, written_ms: int, copied_ms: int) -> None:
    """Set when the files of a partition, and then the checkpoints beside it, were last written."""
    for file in partition.iterdir():
        utime(file, ns=(written_ms * 1_000_000,) * 2)
    for file in partition.parent.glob("*-checkpoint"):
        utime(file, ns=(copied_ms * 1_000_000,) * 2)


LIVE: dict[str, tuple[bool, int, Severity, Exactness]] = {
    "copied while it was written": (False, NOW + HOUR // 2, Severity.INFO, Exactness.UNVERIFIABLE),
    "the broker had stopped": (True, NOW + HOUR // 2, Severity.CRITICAL, Exactness.EXACT),
    "written long before": (False, NOW + 2 * HOUR, Severity.CRITICAL, Exactness.EXACT),
}


@pytest.mark.parametrize(("clean", "as_of_ms", "severity", "exactness"), LIVE.values(), ids=LIVE)
def test_a_marker_may_be_younger_than_the_copy_of_its_index(
    tmp_path: Path, clean: bool, as_of_ms: int, severity: Severity, exactness: Exactness
) -> None:
    set_times(forge(tmp_path, NESTED, clean_shutdown=clean, txnindex={0: [(2, 1, 2, 0)]}), NOW, as_of_ms)
    findings = found_in(tmp_path, as_of_ms)
    assert key_facts(findings) == [(MISSING, severity), (MISMATCH, severity)]
    assert {finding.exactness for finding in findings} == {exactness}


@pytest.mark.parametrize(("written_ms", "severity"), [(HOUR // 2, Severity.INFO), (2 * HOUR, Severity.CRITICAL)])
def test_a_copy_does_not_age_when_it_is_evaluated_later(written_ms: int, severity: Severity, tmp_path: Path) -> None:
    """Its files show when it was made, whatever ``--as-of`` says."""
    partition = forge(tmp_path, NESTED, clean_shutdown=False, txnindex={0: [(2, 1, 2, 0)]})
    set_times(partition, NOW, NOW + written_ms)
    assert key_facts(found_in(tmp_path, NOW + 48 * HOUR)) == [(MISSING, severity), (MISMATCH, severity)]


@pytest.mark.parametrize(
    ("snapshot", "severity"),
    [(None, Severity.INFO), (3, Severity.INFO), (4, Severity.CRITICAL)],
    ids=["none", "before the marker", "after it"],
)
def test_a_snapshot_of_an_orderly_stop_shows_that_a_marker_is_older_than_the_copy(
    snapshot: int | None, severity: Severity, tmp_path: Path
) -> None:
    """A 4.3.1 whose index had been deleted while it was stopped, copied soon after its start."""
    partition = forge(tmp_path, NESTED, txnindex={0: [(2, 1, 2, 0)]})
    (tmp_path / ".kafka_cleanshutdown").unlink()
    written = file_of(partition, 4, "snapshot")
    if snapshot is None:
        written.unlink()
    else:
        written.rename(file_of(partition, snapshot, "snapshot"))
    set_times(partition, NOW, NOW + HOUR // 2)
    assert key_facts(found_in(tmp_path, NOW + HOUR // 2)) == [(MISSING, severity), (MISMATCH, severity)]


def test_files_that_have_not_kept_their_times_do_not_make_a_copy_late(tmp_path: Path) -> None:
    """All are of the time of a second copy; brokers of 3.3.2 and 4.4.0 had written the marker during the first one."""
    partition = forge(tmp_path, NESTED, clean_shutdown=False, txnindex={0: [(2, 1, 2, 0)]})
    set_times(partition, NOW + 48 * HOUR, NOW + 48 * HOUR)
    assert key_facts(found_in(tmp_path, NOW + 48 * HOUR)) == [(MISSING, Severity.INFO), (MISMATCH, Severity.INFO)]


def test_an_entry_missing_before_others_is_no_matter_of_time(tmp_path: Path) -> None:
    forge(tmp_path, NESTED, clean_shutdown=False, txnindex={0: [(1, 0, 3, 4)]})
    assert key_facts(found_in(tmp_path)) == [(MISSING, Severity.CRITICAL), (MISMATCH, Severity.CRITICAL)]


def test_a_damaged_index_is_named_as_the_cause(tmp_path: Path) -> None:
    cut(file_of(forge(tmp_path, NESTED), 0, "txnindex"), -7)
    missing, mismatch = found_in(tmp_path)
    assert (missing.cause, mismatch.cause) == ("txnindex-corrupt", MISSING)


def test_below_the_log_start_no_entry_is_needed(tmp_path: Path) -> None:
    forge(tmp_path, NESTED + "; plain @4-9", log_start=4, txnindex={0: None})
    assert found_in(tmp_path) == []


def test_an_entry_may_begin_where_a_broker_began_to_load(tmp_path: Path) -> None:
    forge(tmp_path, TWO_BATCHES, log_start=1, txnindex={0: [(1, 1, 4, 5)]})
    assert found_in(tmp_path) == []


def test_after_the_last_stable_offset_nothing_is_shown_yet(tmp_path: Path) -> None:
    forge(tmp_path, "D 3 0 0-0 @0 T; D 1 0 0-0 @1 T; M 1 0 A 1 @2", txnindex={0: None})
    assert key_facts(found_in(tmp_path)) == [(MISSING, Severity.CRITICAL)]


def test_where_no_index_was_captured_nothing_is_said(tmp_path: Path) -> None:
    folder = forge(tmp_path, NESTED, txnindex={0: None})
    for kind in ("index", "timeindex"):
        file_of(folder, 0, kind).unlink()
    assert found_in(tmp_path) == []


def test_an_index_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    folder = forge(tmp_path, NESTED)
    state = state_under(tmp_path)
    file_of(folder, 0, "txnindex").unlink()
    assert list(findings(state)) == []


def test_a_marker_may_lie_in_damage(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-0 @0 T; M 1 0 A 1 @1; plain @2")
    patch(file_of(folder), 1, fix_crc=False, length=-5)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(EXTRA, Severity.WARNING)]
    assert finding.exactness is Exactness.APPROXIMATE
    assert any("cannot be read: possible" in phrase for phrase in finding.benign)


def test_of_very_many_the_first_are_reported(tmp_path: Path) -> None:
    """A thousand findings are enough; the others are counted."""
    many = 1003
    log = "; ".join(f"D 1 0 {n}-{n} @{2 * n} T; M 1 0 A 1 @{2 * n + 1}" for n in range(many))
    forge(tmp_path, log, txnindex={0: None})
    *missing, mismatch = found_in(tmp_path)
    assert len(missing) == MOST
    assert missing[-1].evidence["left_out"] == many - MOST
    assert (len(ranges(mismatch)), mismatch.evidence["batches"]) == (MOST, many)


def consumed(log: str, index: list[Aborted]) -> set[int]:
    """Return the first offsets of the batches that a consumer with an index keeps, batch after batch."""
    kept, aborted, left = set(), set[int](), sorted(index, key=itemgetter(1))
    for batch in parse_batches(log):
        while left and left[0][1] <= batch.last_offset:
            aborted.add(left.pop(0)[0])
        if batch.marker is not None:
            aborted -= {batch.producer_id} if batch.marker.outcome is TransactionOutcome.ABORTED else set()
        elif not (batch.is_transactional and batch.producer_id in aborted):
            kept.add(batch.base_offset)
    return kept


def spoilt(dice: Random, index: list[Aborted]) -> list[Aborted]:
    """Return an index that lacks an entry, has an extra one, or one that starts elsewhere."""
    index = list(index)
    at = dice.randrange(len(index) + 1)
    wrong = (dice.randrange(1, 6), dice.randrange(20), 20 + dice.randrange(20), 0)
    if at == len(index):
        return sorted([*index, wrong], key=itemgetter(2))
    producer_id, first, last, stable = index.pop(at)
    if dice.random() < 0.5:
        index.insert(at, (producer_id, max(0, first + dice.choice((-2, -1, 1))), last, stable))
    return index


@pytest.mark.slow
def test_in_random_logs_what_differs_is_what_a_consumer_meets(tmp_path: Path) -> None:
    """Whenever a consumer is wrong, an entry explains it; correct indexes cause no finding."""
    dice = Random(21)  # noqa: S311  # a seed, not a secret
    mismatches = 0
    for _ in range(40):
        log = random_leader_log(dice, 40) or "plain @0"
        right = aborted_transactions(log).get(0, [])
        index = spoilt(dice, right)
        forge(tmp_path, log, txnindex={0: right})
        assert found_in(tmp_path) == []
        forge(tmp_path, log, txnindex={0: index})
        findings = found_in(tmp_path)
        stable = fold(parse_batches(log)).last_stable_offset().last_stable_offset
        differ = {offset for offset in consumed(log, right) ^ consumed(log, index) if offset < stable}
        visibility_errors = [ranges(finding) for finding in findings if finding.code.name == MISMATCH]
        batches = {batch.base_offset: batch.producer_id for batch in parse_batches(log)}
        assert differ == {
            offset
            for offset, producer_id in batches.items()
            for owner, first, last, _ in (visibility_errors[0] if visibility_errors else ())
            if owner == producer_id and first <= offset <= last
        }
        assert not visibility_errors or findings[-1].cause in {MISSING, EXTRA}, (log, index)
        mismatches += bool(visibility_errors)
    assert mismatches > 5


HEAD_BEING_DELETED = {
    100: "D 1 0 0-0 @100 T; M 1 0 A 1 @101",
    102: "D 1 0 1-1 @102 T; M 1 0 A 1 @103",
    104: "D 1 0 2-2 @104 T; M 1 0 A 1 @105",
    106: "plain @106",
}
RENAMED = {"t-0/00000000000000000050.log.deleted": b"", "t-0/00000000000000000100.txnindex.deleted": b""}


@pytest.mark.parametrize(
    ("without", "deleted", "clean", "expected"),
    [
        ((100,), RENAMED, False, {100: Severity.INFO}),
        ((100, 102), RENAMED, False, {100: Severity.INFO, 102: Severity.INFO}),
        ((102,), RENAMED, False, {102: Severity.CRITICAL}),
        ((100,), RENAMED, True, {100: Severity.CRITICAL}),
        ((100,), {}, False, {100: Severity.CRITICAL}),
        ((102,), RENAMED | {f"t-0/{104:020d}.timeindex": None}, False, {102: Severity.INFO}),
        ((102,), RENAMED | {f"t-0/{102:020d}.index": None}, False, {102: Severity.INFO}),
        ((102,), RENAMED | {f"t-0/{100:020d}.timeindex": None}, False, {102: Severity.CRITICAL}),
        ((102,), {f"t-0/{104:020d}.timeindex": None}, False, {102: Severity.INFO}),
        ((102,), {f"t-0/{104:020d}.timeindex": None}, True, {102: Severity.CRITICAL}),
        ((102,), {f"t-0/{106:020d}.timeindex": None}, False, {102: Severity.CRITICAL}),
    ],
)
def test_an_index_that_was_renamed_while_it_was_copied(
    without: tuple[int, ...],
    deleted: dict[str, bytes | None],
    clean: bool,
    expected: dict[int, Severity],
    tmp_path: Path,
) -> None:
    """A running broker of 4.0.0 renamed the index of its first segment after the segment had been copied.

    One of 4.4.0 deleted eight segments while their files were copied in another order: of each, others were missing.
    One of 4.1.1 did so, too, and no renamed file was in the copy.
    """
    none = dict.fromkeys(without)
    forge(tmp_path, HEAD_BEING_DELETED, clean_shutdown=clean, txnindex=none, replaced=deleted)
    findings = found_in(tmp_path)
    assert {row.first_offset: row.severity for row in findings if row.code.name == MISSING} == expected
    (mismatch,) = [row for row in findings if row.code.name == MISMATCH]
    assert mismatch.severity == max(expected.values())


SHORT_RETENTION = {
    100: "D 1 0 0-0 @100 T; M 1 0 A 1 @101",
    102: "D 1 0 1-1 @102 T ts {}; M 1 0 A 1 @103 ts {}".format(*(NOW + 8_000,) * 2),
    104: f"plain @104 ts {NOW + 10_000}",
}


@pytest.mark.parametrize(
    ("setting", "without", "clean", "expected"),
    [
        (("retention.ms", "9000"), (100,), False, {100: Severity.INFO}),
        (("retention.ms", "9000"), (100, 102), False, {100: Severity.INFO, 102: Severity.CRITICAL}),
        (("retention.ms", "1000"), (100, 102), False, {100: Severity.INFO, 102: Severity.INFO}),
        (("retention.ms", "9000"), (102,), False, {102: Severity.CRITICAL}),
        (("retention.ms", "9000"), (100,), True, {100: Severity.CRITICAL}),
        (("retention.ms", "11000"), (100,), False, {100: Severity.CRITICAL}),
        (("retention.ms", "-1"), (100,), False, {100: Severity.CRITICAL}),
        (("retention.bytes", "200"), (100, 102), False, {100: Severity.INFO, 102: Severity.CRITICAL}),
        (("retention.bytes", "100000"), (100,), False, {100: Severity.CRITICAL}),
    ],
)
def test_an_index_whose_segment_retention_was_to_delete_when_it_was_copied(
    setting: tuple[str, str], without: tuple[int, ...], clean: bool, expected: dict[int, Severity], tmp_path: Path
) -> None:
    """A broker of 4.4.0 deleted a segment after its other files had been copied; no renamed file was in the copy."""
    forge(tmp_path, SHORT_RETENTION, clean_shutdown=clean, txnindex=dict.fromkeys(without))
    settings = (Setting(*setting, "metadata log, topic t", "topic t"),)
    (partition,) = partitions_under(tmp_path)
    rows = findings(examine(partition, Rules(NOW + HOUR, topic_settings=settings)))
    assert {row.first_offset: row.severity for row in rows if row.code.name == MISSING} == expected


@pytest.mark.parametrize(
    ("first_epoch", "clean", "severity"),
    [
        (102, False, Severity.INFO),
        (101, False, Severity.INFO),
        (100, False, Severity.CRITICAL),
        (102, True, Severity.CRITICAL),
    ],
)
def test_a_cleaner_drops_the_entries_below_a_log_start_that_was_just_moved(
    first_epoch: int, clean: bool, severity: Severity, tmp_path: Path
) -> None:
    """A cleaner of 4.4.0 kept a record of an aborted transaction, but not its entry, 8 s after the log start moved."""
    epochs = {"t-0/leader-epoch-checkpoint": f"0\n1\n0 {first_epoch}\n".encode()}
    forge(tmp_path, SHORT_RETENTION, clean_shutdown=clean, txnindex={100: None}, replaced=epochs)
    assert key_facts(found_in(tmp_path)) == [(MISSING, severity), (MISMATCH, severity)]


@pytest.mark.parametrize(
    ("start_after_ms", "copied_later_ms", "severity"),
    [
        (12_000, 0, Severity.CRITICAL),
        (2_001, 0, Severity.CRITICAL),
        (2_000, 0, Severity.INFO),
        (-50_000, 0, Severity.INFO),
        (12_000, HOUR, Severity.INFO),
    ],
    ids=["written later", "a little later", "at the same time", "a minute before", "files without times"],
)
def test_leader_epochs_that_a_broker_has_rebuilt_do_not_show_a_moved_log_start(
    start_after_ms: int, copied_later_ms: int, severity: Severity, tmp_path: Path
) -> None:
    """A broker of 3.4.1 had lost its transaction index and its leader epochs, and delivered aborted records.

    Its checkpoint of log start offsets was younger than the new epochs and lacked the partition. Within a minute after
    DeleteRecords or retention it is older.
    """
    epochs = {"t-0/leader-epoch-checkpoint": b"0\n1\n2 102\n", "log-start-offset-checkpoint": b"0\n0\n"}
    forge(tmp_path, SHORT_RETENTION, clean_shutdown=False, txnindex={100: None}, replaced=epochs)
    written_ms = NOW + 60_000 + copied_later_ms
    keep_times(tmp_path, written_ms, written_ms)
    for name, time_ms in (("t-0/leader-epoch-checkpoint", 0), ("log-start-offset-checkpoint", start_after_ms)):
        utime(tmp_path / name, ns=((written_ms + time_ms) * 1_000_000,) * 2)
    assert key_facts(found_in(tmp_path)) == [(MISSING, severity), (MISMATCH, severity)]


@pytest.mark.parametrize(("policy", "severity"), [("compact,delete", Severity.INFO), ("compact", Severity.CRITICAL)])
def test_retention_deletes_nothing_of_a_topic_that_is_only_compacted(
    policy: str, severity: Severity, tmp_path: Path
) -> None:
    forge(tmp_path, SHORT_RETENTION, clean_shutdown=False, txnindex={100: None})
    settings = tuple(
        Setting(name, value, "metadata log, topic t", "topic t")
        for name, value in (("retention.ms", "9000"), ("cleanup.policy", policy))
    )
    (partition,) = partitions_under(tmp_path)
    rows = list(findings(examine(partition, Rules(NOW + HOUR, topic_settings=settings))))
    assert key_facts(rows) == [(MISSING, severity), (MISMATCH, severity)]
