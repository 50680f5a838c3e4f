"""Transaction indexes with entries that no broker writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.checks.partition.transaction_indexes import findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.format.layouts import TRANSACTION_INDEX_ENTRY
from tests.forensics.forge import Aborted, Segments, aborted_transactions, cut, file_of, forge
from tests.forensics.partition_states import each_sample, random_leader_log, state_under

FIRES = {
    "txnindex-corrupt": "test_an_entry_that_no_broker_writes_is_found",
    "txnindex-lso-mismatch": "test_another_last_stable_offset_is_found",
}
SILENT = dict.fromkeys(FIRES, "test_brokers_write_sound_indexes")

CORRUPT, MISMATCH = "txnindex-corrupt", "txnindex-lso-mismatch"
INTERLEAVED = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"
NESTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3"
ONE_FETCH = "D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T"
SAME_PRODUCER = (
    "D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 1 0 1-1 @3-3 T; M 1 0 A 0 @4; D 3 0 1-1 @5-5 N; "
    "D 2 0 0-0 @6-6 T; M 2 0 A 0 @7"
)
BUMPED = "D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5"
TIMED_OUT = "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T"
EMPTY_ABORT = "M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3"
HEAD_DELETED = {200: "gone D 3 0 0-9 @150-159 T; gone D 4 0 0-0 @120 N; plain @200-229; M 3 0 A 1 @230"}
NO_PREFIX = "D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"
CLEANED = {
    0: "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 1 @15; plain @19",
    20: "plain @20",
}


def found_in(folder: Path) -> list[Finding]:
    """Return the findings in the one partition of a log directory."""
    return list(findings(state_under(folder)))


def key_facts(findings: Sequence[Finding]) -> list[tuple[str, Severity]]:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


def entry(producer_id: int, first: int, last: int, stable: int, *, version: int = 0) -> bytes:
    """Return the bytes of an entry."""
    fields = {"producer_id": producer_id, "first_offset": first, "last_offset": last, "last_stable_offset": stable}
    return bytes(TRANSACTION_INDEX_ENTRY.build({"version": version, **fields}))


@each_sample()
def test_brokers_write_sound_indexes(partition: Partition) -> None:
    assert list(findings(examine(partition, Rules(partition.newest_mtime_ms or 0)))) == []


SOUND = {
    "4 interleaved": (INTERLEAVED, [(1, 0, 4, 2)]),
    "5 nested": (NESTED, [(2, 1, 2, 0), (1, 0, 3, 4)]),
    "6 leader": (ONE_FETCH, [(1, 0, 1, 2)]),
    "6 follower": (ONE_FETCH, [(1, 0, 1, 3)]),
    "6 leader, same producer": (SAME_PRODUCER, [(1, 0, 1, 2), (1, 3, 4, 5), (2, 6, 7, 8)]),
    "6 follower, same producer": (SAME_PRODUCER, [(1, 0, 1, 6), (1, 3, 4, 6), (2, 6, 7, 8)]),
    "6 follower of an old release, same producer": (SAME_PRODUCER, [(1, 0, 1, 3), (1, 3, 4, 6), (2, 6, 7, 8)]),
    "7 transaction version 2": (BUMPED, [(1, 4, 5, 6)]),
    "9 timeout": (TIMED_OUT, [(1, 0, 3, 4)]),
    "15 nothing to abort": ("D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 A 4 @2", []),
    "21 prefix": (NO_PREFIX, [(2, 40, 101, 60)]),
    "22 compaction": (CLEANED, [(2, 9, 12, 13)]),
    "37 head deleted": (HEAD_DELETED, [(3, 150, 230, 231)]),
    "39 empty abort before 2.8": (EMPTY_ABORT, [(1, 0, 0, 1)]),
    "39 empty abort": (EMPTY_ABORT, []),
}


@pytest.mark.parametrize(("log", "index"), SOUND.values(), ids=SOUND)
def test_what_brokers_write_is_sound(tmp_path: Path, log: Segments, index: list[Aborted]) -> None:
    base = min(log) if isinstance(log, dict) else 100 if log is NO_PREFIX else 0
    forge(tmp_path, log, compacted=log is CLEANED, txnindex={base: index} if index else None)
    assert found_in(tmp_path) == []


SPOILT: dict[str, tuple[bytes, int]] = {
    "torn": (entry(2, 1, 2, 0) + entry(1, 0, 3, 4)[:-7], 34),
    "version": (entry(2, 1, 2, 0) + entry(1, 0, 3, 4, version=1), 34),
    "trailing zeros": (entry(2, 1, 2, 0) + entry(1, 0, 3, 4) + bytes(34), 68),
    "not ascending": (entry(1, 0, 3, 4) + entry(2, 1, 2, 0), 34),
    "twice": (entry(2, 1, 2, 0) + entry(1, 0, 3, 4) * 2, 68),
    "reversed": (entry(2, 1, 2, 0) + entry(1, 4, 3, 4), 34),
    "below the segment": (entry(2, -1, -1, 0) + entry(2, 1, 2, 0) + entry(1, 0, 3, 4), 0),
    "after the log": (entry(2, 1, 2, 0) + entry(1, 0, 3, 4) + entry(1, 4, 4, 5), 68),
}


@pytest.mark.parametrize(("index", "position"), SPOILT.values(), ids=SPOILT)
def test_an_entry_that_no_broker_writes_is_found(tmp_path: Path, index: bytes, position: int) -> None:
    folder = forge(tmp_path, NESTED, txnindex={0: index})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(CORRUPT, Severity.ERROR)]
    assert (finding.path, finding.position) == (str(file_of(folder, 0, "txnindex")), position)


def test_an_entry_of_the_next_segment_is_found(tmp_path: Path) -> None:
    log = {0: "D 1 0 0-0 @0 T; plain @1", 2: "M 1 0 A 1 @2"}
    forge(tmp_path, log, txnindex={0: [(1, 0, 2, 3)], 2: None})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(CORRUPT, Severity.ERROR)]
    assert (finding.producer_id, finding.first_offset, finding.last_offset) == (1, 0, 2)


def test_many_damaged_entries_are_one_finding(tmp_path: Path) -> None:
    forge(tmp_path, NESTED, txnindex={0: entry(1, 0, 3, 4, version=9) * 2000})
    (finding,) = found_in(tmp_path)
    assert finding.evidence == {"reason": "version", "ranges": 2000, "bytes": 68_000}


def torn(folder: Path) -> None:
    """Leave the last entry unfinished."""
    cut(file_of(folder, 0, "txnindex"), -7)


def ahead(folder: Path) -> None:
    """Add an entry for a marker that is not in the log yet."""
    path = file_of(folder, 0, "txnindex")
    path.write_bytes(path.read_bytes() + entry(1, 5, 9, 10))


@pytest.mark.parametrize("spoil", [torn, ahead])
@pytest.mark.parametrize(("clean", "severity"), [(True, Severity.ERROR), (False, Severity.INFO)])
def test_what_a_live_copy_has_too_is_no_alarm(
    tmp_path: Path, spoil: Callable[[Path], None], clean: bool, severity: Severity
) -> None:
    spoil(forge(tmp_path, NESTED, clean_shutdown=clean))
    assert key_facts(found_in(tmp_path)) == [(CORRUPT, severity)]


def test_an_index_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    folder = forge(tmp_path, NESTED)
    state = state_under(tmp_path)
    file_of(folder, 0, "txnindex").unlink()
    (finding,) = findings(state)
    assert (finding.code.name, finding.exactness) == (CORRUPT, Exactness.UNVERIFIABLE)


OTHER: dict[str, tuple[str, list[Aborted], Severity]] = {
    "too small": (INTERLEAVED, [(1, 0, 4, 1)], Severity.INFO),
    "6 too large": (ONE_FETCH, [(1, 0, 1, 4)], Severity.WARNING),
    "6 too small for a follower of an old release": (
        *(SAME_PRODUCER, [(1, 0, 1, 4), (1, 3, 4, 6), (2, 6, 7, 8)], Severity.INFO),
    ),
    "6 too large for followers of any release": (
        *(SAME_PRODUCER, [(1, 0, 1, 7), (1, 3, 4, 6), (2, 6, 7, 8)], Severity.CRITICAL),
    ),
    "6 too large, same producer alone": (
        *("D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 1 0 1-1 @3-3 T; M 1 0 C 0 @4",),
        *([(1, 0, 1, 4)], Severity.WARNING),
    ),
    "hides a later entry": (NESTED, [(2, 1, 2, 3), (1, 0, 3, 4)], Severity.CRITICAL),
    "last of all": (NESTED, [(2, 1, 2, 0), (1, 0, 3, 5)], Severity.WARNING),
}


@pytest.mark.parametrize(("log", "index", "severity"), OTHER.values(), ids=OTHER)
def test_another_last_stable_offset_is_found(
    tmp_path: Path, log: str, index: list[Aborted], severity: Severity
) -> None:
    forge(tmp_path, log, txnindex={0: index})
    assert key_facts(found_in(tmp_path)) == [(MISMATCH, severity)]


def test_in_what_was_cleaned_the_last_stable_offset_is_not_evaluated(tmp_path: Path) -> None:
    log = {0: "gone D 2 0 0-0 @0 T; D 1 0 0-1 @1-2 T; M 1 0 A 1 @3; gone M 2 0 C 1 @4; plain @5", 6: "plain @6"}
    assert aborted_transactions(log) == {0: [(1, 1, 3, 0)]}
    forge(tmp_path, log, compacted=True)
    assert found_in(tmp_path) == []


def test_a_transaction_open_since_before_the_log_may_have_set_it(tmp_path: Path) -> None:
    log = {100: "D 1 0 5-5 @100 T; M 1 0 A 1 @101; plain @102"}
    forge(tmp_path, log, txnindex={100: [(1, 90, 101, 60)]}, snapshots={100: None, 103: None})
    assert found_in(tmp_path) == []
    forge(tmp_path, log, txnindex={100: [(1, 90, 101, 100)]}, snapshots={100: None, 103: None})
    assert key_facts(found_in(tmp_path)) == [(MISMATCH, Severity.INFO)]


@pytest.mark.slow
@pytest.mark.parametrize(("stable", "is_right"), [(0, True), (3, True), (1, False), (2, False)])
def test_a_transaction_that_the_broker_has_forgotten_may_have_set_it(
    tmp_path: Path, stable: int, *, is_right: bool
) -> None:
    """It was open for the broker until it started without its snapshots, before or after it wrote the entry."""
    log = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; plain @3"
    folder = tmp_path / str(stable)
    forge(folder, log, snapshots={4: []}, txnindex={0: entry(2, 1, 2, stable)})
    assert (found_in(folder) == []) is is_right


def test_in_random_logs_only_a_wrong_last_stable_offset_is_found(tmp_path: Path) -> None:
    dice = Random(4)  # noqa: S311  # a seed, not a secret
    changed = 0
    for _ in range(40):
        log = random_leader_log(dice, 40) or "plain @0"
        index = aborted_transactions(log).get(0, [])
        forge(tmp_path, log, txnindex={0: index})
        assert found_in(tmp_path) == []
        if index:
            at = dice.randrange(len(index))
            index[at] = (*index[at][:3], index[at][3] - 1)
            forge(tmp_path, log, txnindex={0: index})
            assert key_facts(found_in(tmp_path)) == [(MISMATCH, Severity.INFO)], (log, index)
            changed += 1
    assert changed > 12
