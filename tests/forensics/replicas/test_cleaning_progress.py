"""A log that real brokers cleaned, compared with itself before the cleaning: a benign difference."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.copies import compare_copies, replica_findings
from kforensics.forensics.core.broker_settings import CLEANUP_POLICY, Setting
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.replicas.differences import DifferenceKind
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import RULES

OLD = ".log.deleted"
# Records in differing batches: after the cleaning, and before it.
RECORD_COUNTS = {
    "compaction/broker-1/old-generation-kept-0": (10, 43),
    "compaction-3.9/broker-1/old-generation-kept-0": (10, 43),
    "crash-while-cleaning/broker-1/cleaning-0": (0, 9),
    "crash-while-swapping/broker-1/cleaning-0": (9, 69),
}


def write_uncleaned(partition: Path, broker: Path) -> None:
    """Write a log directory with the segments that the cleaner has marked for deletion, and those after them."""
    folder = broker / partition.name
    folder.mkdir(parents=True)
    end = 0
    for log in sorted(
        [*partition.glob(f"*{OLD}"), *partition.glob("*.log")], key=lambda path: (path.name[:20], -len(path.name))
    ):
        if int(log.name[:20]) >= end:
            shutil.copy(log, folder / f"{log.name[:20]}.log")
            with open_source(log) as source:
                end = max((batch.last_offset + 1 for batch in walk(source) if isinstance(batch, Batch)), default=end)
    (broker / "meta.properties").write_text("version=1\nnode.id=2\n")


@pytest.mark.parametrize("name", RECORD_COUNTS)
def test_different_cleaning_progress_is_benign(tmp_path: Path, name: str) -> None:
    partition = SAMPLES / name
    write_uncleaned(partition, tmp_path / "broker-2")
    comparison = compare_copies([*partitions_under(partition), *partitions_under(tmp_path)], RULES)
    (difference,) = comparison.differences
    assert difference.kind is DifferenceKind.CLEANED
    assert tuple(side.records for side in difference.sides) == RECORD_COUNTS[name]
    assert [one.code.name for one in replica_findings(comparison) if one.severity >= Severity.WARNING] == []


@pytest.mark.parametrize(
    ("is_left", "policy", "clean_shutdown", "is_benign"),
    [
        (True, None, False, True),
        (False, "compact,delete", False, True),
        (False, "delete", False, False),
        (False, None, False, False),
        (True, "compact", True, False),
    ],
    ids=["replaced", "policy", "other policy", "no sign of it", "stopped"],
)
def test_a_segment_may_be_cleaned_after_the_cleaners_checkpoint_was_copied(
    *, is_left: bool, policy: str | None, clean_shutdown: bool, is_benign: bool, tmp_path: Path
) -> None:
    """The file of the replaced segment shows it; seen in a copy of running brokers of 4.4.0. So does the policy."""
    last = {15: "plain @15-19"}
    records = {offset: [(f"k{key}".encode(), b"v") for key in range(5)] for offset in (5, 15)}
    log = {0: "plain @0-4; plain @5-9; plain @10-14", **last}
    whole = forge(tmp_path / "broker-2", log, node_id=2, records=records)
    log = {0: "gone plain @0-4; gone plain @5-9; plain @10-14", **last}
    cleaned = forge(tmp_path / "broker-1", log, records=records, clean_shutdown=clean_shutdown)
    if is_left:
        shutil.copy(file_of(whole), f"{file_of(cleaned)}.deleted")
    settings = () if policy is None else (Setting(CLEANUP_POLICY, policy, "metadata log, topic t", "topic t"),)
    comparison = compare_copies(partitions_under(tmp_path), replace(RULES, topic_settings=settings))
    assert ([one for one in replica_findings(comparison) if one.severity >= Severity.WARNING] == []) is is_benign


@pytest.mark.parametrize(("clean_shutdown", "expected"), [(False, set()), (True, {"replica-divergence"})])
def test_missing_batches_show_a_cleaner_after_its_checkpoint_was_copied(
    *, clean_shutdown: bool, expected: set[str], tmp_path: Path
) -> None:
    """A broker of 3.3.2 had cleaned a segment for the first time; nothing else in its copy showed it."""
    cleaned = {0: "plain @0; plain @2; plain @4; plain @6", 7: "plain @7"}
    whole = {0: "; ".join(f"plain @{offset}" for offset in range(7)), 7: "plain @7"}
    records = {offset: [(b"k", b"v")] for offset in range(8)}
    forge(tmp_path / "broker-1", cleaned, records=records, clean_shutdown=clean_shutdown)
    forge(tmp_path / "broker-2", whole, records=records, node_id=2)
    findings = replica_findings(compare_copies(partitions_under(tmp_path), RULES))
    assert {one.code.name for one in findings if one.severity >= Severity.WARNING} == expected


@pytest.mark.parametrize(
    ("absent", "key", "expected"),
    [
        (0, b"k", set()),
        (0, b"other", {"replica-key-divergence"}),
        (10, b"k", {"replica-divergence"}),
        (10, b"other", {"replica-divergence"}),
    ],
    ids=["superseded", "newest of its key", "where no cleaner was", "newest where no cleaner was"],
)
def test_a_replica_may_have_fetched_again_what_a_cleaner_had_left(
    *, absent: int, key: bytes, expected: set[str], tmp_path: Path
) -> None:
    """A broker of 0.10.2 truncated its log, and with it its cleaner checkpoint, and fetched from a compacted leader."""
    records = {offset: [(b"k", b"v")] for offset in (0, 5, 10, 15)} | {absent: [(key, b"v")]}
    bases = (0, 5, 10, 15)
    for number, (first_dirty, lacks) in enumerate(((0, {absent}), (5, set()), (10, {0} - {absent})), 1):
        segments = {base: "" if base in lacks else f"plain @{base}" for base in bases}
        forge(tmp_path / f"broker-{number}", segments, node_id=number, records=records, first_dirty=first_dirty)
    findings = replica_findings(compare_copies(partitions_under(tmp_path), RULES))
    assert {one.code.name for one in findings if one.severity >= Severity.WARNING} == expected
