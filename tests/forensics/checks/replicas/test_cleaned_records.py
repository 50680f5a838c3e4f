"""Replicas compacted at different times may differ; what no cleaner does is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.copies import compare_copies, replica_findings
from kforensics.forensics.checks.replicas.cleaned_records import findings
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.replicas import key_differences
from kforensics.forensics.replicas.differences import DifferenceKind
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Content, file_of, patch
from tests.forensics.partition_states import HOUR, partitions_under
from tests.forensics.replicas.replicas import GROUPS, RULES, brief, compare, compared_group, forged

FIRES = {
    "replica-record-divergence": "test_other_records_at_the_same_offset_are_found",
    "replica-key-divergence": "test_what_cleaning_lost_of_a_key_is_found",
}
SILENT = dict.fromkeys(FIRES, "test_a_replica_that_was_cleaned_further_says_the_same")

RECORD, KEY = FIRES
Records = Mapping[int, Sequence[Content]]
# Offsets 0 to 5 as written: a twice, b and d once, c deleted. A cleaned batch keeps its last records here.
WRITTEN: Records = {0: [(b"a", b"0"), (b"b", b"1"), (b"c", b"2")], 3: [(b"c", None), (b"a", b"4"), (b"d", b"5")]}
BOTH = "plain @0-2; plain @3-5"
CLEANED = {"compacted": True}


def found_with(folder: Path, left: str, records: Records) -> list[Finding]:
    """Return the findings on a complete replica and one with the given records left after compaction."""
    cleaned = {0: left, 9: "plain @9"} if left else {9: "plain @9"}
    forged(folder, ({0: BOTH, 9: "plain @9"}, {"records": WRITTEN}), (cleaned, {"records": records, **CLEANED}))
    return list(findings(compare(folder)))


@pytest.mark.parametrize("name", GROUPS)
def test_replicas_of_uncleaned_topics_say_the_same(name: str) -> None:
    assert list(findings(compared_group(name))) == []


def test_a_replica_that_was_cleaned_further_says_the_same(tmp_path: Path) -> None:
    """It has only the newest record of each key; a tombstone is gone, and a key was written again later."""
    records = {0: [(b"x", b"0"), (b"x", b"1"), (b"b", b"2")], 3: [(b"c", b"0"), (b"c", None), (b"a", b"4")]}
    left = {0: [(b"b", b"2")], 3: [(b"a", b"4")]}
    newer = {9: [(b"x", b"9")]}
    forged(
        tmp_path,
        ({0: BOTH, 9: "plain @9"}, {"records": {**records, **newer}}),
        ({0: "plain @0-2 cnt 1; plain @3-5 cnt 1", 9: "plain @9"}, {**CLEANED, "records": {**left, **newer}}),
    )
    comparison = compare(tmp_path)
    assert [row.kind for row in comparison.differences] == [DifferenceKind.CLEANED]
    assert replica_findings(comparison) == ()


@pytest.mark.parametrize("left", ["plain @0; M 1 0 A 3 @3", "plain @0"], ids=["marker kept", "marker gone"])
def test_records_of_an_aborted_transaction_do_not_count(tmp_path: Path, left: str) -> None:
    """The cleaner removes them first, whatever their keys."""
    log = "plain @0; D 1 0 0-1 @1-2 T; M 1 0 A 3 @3"
    records = {0: [(b"a", b"0")], 1: [(b"a", b"1"), (b"b", b"2")]}
    forged(
        tmp_path,
        ({0: log, 4: "plain @4"}, {"records": records}),
        ({0: left, 4: "plain @4"}, {**CLEANED, "records": records}),
    )
    assert replica_findings(compare(tmp_path)) == ()


def test_records_without_a_key_do_not_count(tmp_path: Path) -> None:
    records = {0: [(None, b"0")], 1: [(b"a", b"1")]}
    forged(
        tmp_path,
        ({0: "plain @0; plain @1", 2: "plain @2"}, {"records": records}),
        ({0: "plain @1", 2: "plain @2"}, {**CLEANED, "records": records}),
    )
    assert replica_findings(compare(tmp_path)) == ()


def test_a_transaction_that_a_replica_that_lags_has_not_seen_the_end_of_decides_nothing(tmp_path: Path) -> None:
    records = {0: [(b"a", b"0")], 1: [(b"a", b"1")], 2: [(b"x", b"2")], 4: [(b"x", b"4")]}
    forged(
        tmp_path,
        ("plain @0; D 1 0 0-0 @1 T; plain @2", {"records": records}),
        ({0: "D 1 0 0-0 @1 T; M 1 0 C 3 @3", 4: "plain @4"}, {**CLEANED, "records": records}),
    )
    assert list(findings(compare(tmp_path))) == []


@pytest.mark.parametrize("cleaned_after", [False, True], ids=["after the range", "in the range"])
def test_what_a_damaged_batch_held_follows_from_the_damage(tmp_path: Path, cleaned_after: bool) -> None:
    """The cleaner removed the record because of a newer one that is no longer readable."""
    records = {at: [(b"a", b"%d" % at)] for at in range(3)} | {at: [(b"b", b"%d" % at)] for at in range(3, 5)}
    left = "plain @0; plain @2" if cleaned_after else "plain @0; plain @2; plain @3"
    forged(
        tmp_path,
        ({0: "plain @0; plain @1; plain @2; plain @3", 4: "plain @4"}, {"records": records}),
        ({0: left, 4: "plain @4"}, {**CLEANED, "records": records}),
    )
    patch(file_of(tmp_path / "broker-2" / "t-0"), 2, fix_crc=False, max_timestamp=1)
    findings = [
        (finding.code.name, finding.first_offset, finding.last_offset, finding.cause)
        for finding in replica_findings(compare(tmp_path))
    ]
    lost = [(KEY, 0, 2, "replica-divergence")] if cleaned_after else []
    assert findings == [("replica-divergence", 2, 2, None), *lost]


def test_a_key_of_which_a_replica_that_lags_has_not_seen_the_tombstone_is_not_lost(tmp_path: Path) -> None:
    records = {0: [(b"a", b"0")], 1: [(b"b", b"1")]}
    forged(
        tmp_path,
        ("plain @0; plain @1", {"records": records}),
        ({0: "plain @1; plain @4", 5: "plain @5"}, {**CLEANED, "records": records}),
    )
    assert list(findings(compare(tmp_path))) == []


@pytest.mark.parametrize(("last_key", "codes"), [(b"a", []), (b"x", [KEY])], ids=["newer at the leader", "lost"])
def test_a_follower_fetches_what_the_cleaner_of_its_leader_has_left(
    tmp_path: Path, last_key: bytes, codes: list[str]
) -> None:
    """Seen on 3.9.1: two followers out of sync; the one fetched before the leader compacted its log, the other after.

    The record that the cleaner kept was newer than the end of both.
    """
    records = {at: [(key, b"%d" % at)] for at, key in enumerate((b"a", b"a", b"x", b"y", last_key))}
    early, late = {0: "plain @0; plain @1", 2: "plain @2"}, {0: "plain @0", 2: "plain @2; plain @3"}
    leader = {0: "plain @0", 2: "plain @2; plain @3; plain @4"}
    forged(tmp_path, *((log, {**CLEANED, "records": records}) for log in (leader, early, late)))
    assert [finding.code.name for finding in findings(compare(tmp_path))][:1] == codes


def test_other_records_at_the_same_offset_are_found(tmp_path: Path) -> None:
    (finding,) = found_with(tmp_path, "plain @0-2; plain @3-5", {0: [(b"a", b"0"), (b"b", b"1"), (b"c", b"!")], **REST})
    assert brief([finding]) == [(RECORD, Severity.CRITICAL, 2, 2)]
    assert (finding.position, finding.evidence["other_position"]) == (0, 0)


REST = {3: WRITTEN[3]}
MERGED: Records = {0: [(b"a", b"0"), (b"b", b"1")], 3: [(b"a", b"3")], 6: [(b"c", b"6")]}
TWO_SECONDS = Setting("delete.retention.ms", "2000", "metadata", "topic t")
LOSSES: dict[str, tuple[str, Records, tuple[int, int], str]] = {
    "newest value": ("plain @0-2; plain @3-5 cnt 1", {0: WRITTEN[0], 3: [(b"d", b"5")]}, (0, 4), "value"),
    "tombstone": ("plain @0-2; plain @3-5 cnt 2", {0: WRITTEN[0], 3: WRITTEN[3][1:]}, (2, 3), "tombstone"),
    "all of a key": ("plain @3-5", REST, (1, 1), "key"),
}


@pytest.mark.parametrize(("left", "records", "offsets", "lost"), LOSSES.values(), ids=LOSSES)
def test_what_cleaning_lost_of_a_key_is_found(
    tmp_path: Path, left: str, records: Records, offsets: tuple[int, int], lost: str
) -> None:
    findings = [finding for finding in found_with(tmp_path, left, records) if finding.evidence["lost"] == lost]
    assert brief(findings) == [(KEY, Severity.ERROR, *offsets)]
    assert findings[0].exactness is (Exactness.APPROXIMATE if lost == "key" else Exactness.EXACT)
    assert "broker-2" in str(findings[0].evidence["replica"])


@pytest.mark.parametrize(
    ("clean_shutdown", "left", "severity"),
    [
        (False, "plain @0-1", Severity.INFO),
        (True, "plain @0-1", Severity.ERROR),
        (False, "plain @0-1; plain @4", Severity.ERROR),
    ],
    ids=["merged during the copy", "stopped in order", "not in the missing segment"],
)
def test_a_copy_may_lack_the_segment_of_a_record(
    tmp_path: Path, clean_shutdown: bool, left: str, severity: Severity
) -> None:
    """The copy of a broker of 4.4.0 had the first segment as it was, and the next one, merged into it, no more."""
    written = {0: "plain @0-1", 3: "plain @3", 6: "plain @6"}
    second = {"records": {**MERGED, 4: [(b"d", b"4")]}, "first_dirty": 6, "clean_shutdown": clean_shutdown}
    forged(tmp_path, (written, {"records": MERGED}), ({0: left, 6: written[6]}, second))
    assert brief([finding for finding in findings(compare(tmp_path)) if finding.evidence["key"] == b"a".hex()]) == [
        (KEY, severity, 0, 3)
    ]


@pytest.mark.parametrize(
    ("settings", "age_ms", "severity"),
    [
        ((), 24 * HOUR, Severity.WARNING),
        ((), 24 * HOUR - 1, Severity.ERROR),
        ((TWO_SECONDS,), 2000, Severity.WARNING),
        ((TWO_SECONDS,), 1999, Severity.ERROR),
    ],
)
def test_a_replica_that_was_away_may_keep_a_record_that_was_deleted(
    tmp_path: Path, settings: tuple[Setting, ...], age_ms: int, severity: Severity
) -> None:
    """A broker of 4.0.0 was down for 3 s, while the others wrote a tombstone and dropped it after 2 s."""
    records = {0: [(b"a", b"0")], 1: [(b"b", b"1")], 9: [(b"b", b"9")]}
    forged(
        tmp_path,
        ({0: f"plain @0 ts {NOW}; plain @1 ts {NOW}", 9: "plain @9"}, {"records": records, **CLEANED}),
        ({0: f"plain @1 ts {NOW}", 9: "plain @9"}, {"records": records, **CLEANED}),
    )
    rules = replace(RULES, as_of_ms=NOW + age_ms, topic_settings=settings)
    (finding,) = findings(compare_copies(partitions_under(tmp_path), rules))
    assert brief([finding]) == [(KEY, severity, 0, 0)]
    reason = "not ruled out" if severity is Severity.WARNING else "no, the record is younger"
    assert any(reason in text and "delete.retention.ms" in text for text in finding.benign)


@pytest.mark.parametrize(
    ("clean_shutdown", "set_aside", "severity"),
    [
        pytest.param(False, True, Severity.INFO, id="its cleaner was at work"),
        pytest.param(False, False, Severity.ERROR, id="killed"),
        pytest.param(True, True, Severity.ERROR, id="stopped in order"),
    ],
)
def test_a_replica_may_be_copied_before_one_cleaning_and_after_the_next(
    tmp_path: Path, clean_shutdown: bool, set_aside: bool, severity: Severity
) -> None:
    """A running broker of 3.9.1 had a record whose tombstone its copy no longer had."""
    aside = {f"t-0/{0:020d}.log.deleted": b""} if set_aside else {}
    options = {"records": WRITTEN, "clean_shutdown": clean_shutdown, "replaced": aside}
    forged(
        tmp_path, ({0: BOTH, 9: "plain @9"}, options), ({0: "plain @3-5", 9: "plain @9"}, {"records": REST, **CLEANED})
    )
    (finding,) = [finding for finding in findings(compare(tmp_path)) if finding.evidence["lost"] == "key"]
    assert finding.severity is severity


def test_keys_are_compared_in_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings do not depend on how many keys are kept in memory."""
    monkeypatch.setattr(key_differences, "KEYS_AT_ONCE", 1)
    findings = found_with(tmp_path, "plain @0-2; plain @3-5 cnt 1", {0: WRITTEN[0], 3: [(b"d", b"5")]})
    assert sorted(str(finding.evidence["lost"]) for finding in findings) == ["tombstone", "value"]
