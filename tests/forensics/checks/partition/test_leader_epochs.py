"""Decreasing leader epochs, and checkpoints that disagree with the batches."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from os import utime
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.partition.leader_epochs import findings
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.forge import Segments, file_of, forge, patch
from tests.forensics.partition_states import SAMPLES, each_sample, partitions_under, state_of, state_under

FIRES = {
    "leader-epoch-regressed": "test_an_epoch_below_the_one_before_is_found",
    "leader-epoch-checkpoint-mismatch": "test_a_file_that_disagrees_with_the_log_is_found",
    "leader-epoch-missing": "test_an_epoch_that_the_file_does_not_know_is_found",
}
SILENT = dict.fromkeys(FIRES, "test_leader_epochs_of_brokers_are_sound")

REGRESSED, MISMATCH, MISSING = FIRES
NAME = "leader-epoch-checkpoint"
LOG: Segments = {0: "plain @0-4; plain @5-9", 10: "plain @10-14; plain @15-19"}
EPOCHS = {0: 0, 5: 3, 10: 4}
Entries = Sequence[tuple[int, int]]


def checkpoint(entries: Entries) -> Mapping[str, bytes]:
    """Return a leader epoch checkpoint, as ``forge`` takes it."""
    lines = [f"{epoch} {start}\n" for epoch, start in entries]
    return {f"t-0/{NAME}": f"0\n{len(lines)}\n{''.join(lines)}".encode()}


def found_in(folder: Path) -> list[Finding]:
    """Return the findings in the one partition of a log directory."""
    return list(findings(state_under(folder)))


def key_facts(findings: Sequence[Finding]) -> list[tuple[str, Severity, int | None]]:
    """Return codes, severities and first offsets."""
    return [(finding.code.name, finding.severity, finding.first_offset) for finding in findings]


@each_sample()
def test_leader_epochs_of_brokers_are_sound(partition: Partition) -> None:
    assert list(findings(examine(partition, Rules(0)))) == []


SOUND: dict[str, Entries] = {
    "each epoch from its first batch": [(0, 0), (3, 5), (4, 10)],
    "a leader elected since": [(0, 0), (3, 5), (4, 10), (9, 20)],
    "an entry after the end, not yet truncated": [(0, 0), (3, 5), (4, 10), (9, 70)],
}


@pytest.mark.parametrize("entries", SOUND.values(), ids=SOUND)
def test_more_entries_than_epochs_are_sound(tmp_path: Path, entries: Entries) -> None:
    forge(tmp_path, LOG, leader_epochs=EPOCHS, replaced=checkpoint(entries))
    assert found_in(tmp_path) == []


def test_an_epoch_whose_first_batches_were_cleaned_is_sound(tmp_path: Path) -> None:
    log = {0: "plain @0-4; plain @8-9", 10: "plain @10-14"}
    forge(tmp_path, log, leader_epochs={0: 0, 8: 3}, compacted=True, replaced=checkpoint([(0, 0), (1, 5), (3, 6)]))
    assert found_in(tmp_path) == []


@pytest.mark.parametrize(
    "entries", [[(3, 7), (4, 10)], [(4, 12)], [(3, 10), (4, 10)]], ids=["inside", "epochs gone", "between two, 1.1.1"]
)
def test_the_first_entry_moves_up_with_the_log_start(tmp_path: Path, entries: Entries) -> None:
    forge(tmp_path, LOG, leader_epochs=EPOCHS, log_start=entries[0][1], replaced=checkpoint(entries))
    assert found_in(tmp_path) == []


def test_without_an_orderly_stop_the_log_start_on_record_may_be_older(tmp_path: Path) -> None:
    moved = checkpoint([(3, 7), (4, 10)])
    forge(tmp_path, LOG, leader_epochs=EPOCHS, log_start=2, clean_shutdown=False, replaced=moved)
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("entries", [[(0, 2), (3, 5), (4, 10)], [(3, 7), (4, 10)]], ids=["inside", "an epoch gone"])
def test_after_a_crash_the_log_start_may_be_back_where_it_was(tmp_path: Path, entries: Entries) -> None:
    """Deleting records moves the first entry at once; a crash loses the log start, and an orderly stop follows."""
    forge(tmp_path, LOG, leader_epochs=EPOCHS, replaced=checkpoint(entries))
    assert [(code, severity) for code, severity, _ in key_facts(found_in(tmp_path))] == [(MISMATCH, Severity.INFO)]


def test_a_log_start_after_the_end_explains_nothing(tmp_path: Path) -> None:
    forge(tmp_path, LOG, leader_epochs={0: 2}, replaced=checkpoint([(2, 70)]))
    assert key_facts(found_in(tmp_path)) == [(MISMATCH, Severity.ERROR, 0)]


@pytest.mark.parametrize(
    ("age_s", "options", "severity"),
    [
        (1, {}, Severity.INFO),
        (-1, {}, Severity.ERROR),
        (1, {"clean_shutdown": True}, Severity.ERROR),
        (1, {"high_watermark": 22}, Severity.ERROR),
        (1, {"replaced": {"replication-offset-checkpoint": None}}, Severity.ERROR),
    ],
    ids=["copied", "file older", "stopped", "end lost", "end unknown"],
)
def test_retention_may_have_deleted_all_of_a_log_after_it_was_copied(
    tmp_path: Path, age_s: int, options: dict[str, Any], severity: Severity
) -> None:
    """Seen on 4.0.0: the active segment was copied, then written to, rolled and deleted."""
    log = {0: "plain @0-4", 5: "plain @5-9"}
    replaced = {**checkpoint([(0, 24)]), **options.pop("replaced", {})}
    folder = forge(tmp_path, log, **{"clean_shutdown": False, **options}, replaced=replaced)
    written = file_of(folder, 5).stat().st_mtime + age_s
    utime(folder / NAME, (written, written))
    assert key_facts(found_in(tmp_path)) == [(MISMATCH, severity, 0)]


def test_a_log_whose_head_is_gone_begins_within_an_epoch(tmp_path: Path) -> None:
    forge(tmp_path, {10: "plain @10-14; plain @15-19"}, leader_epochs={4: 1, 15: 2})
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("entries", [[(0, 0), (4, 10)], [(0, 0)]], ids=["the lower one", "neither"])
def test_an_epoch_below_the_one_before_is_found(tmp_path: Path, entries: Entries) -> None:
    """A broker drops the entry of the higher epoch when it assigns the lower one; only the batches show it."""
    epochs, file = {0: 0, 5: 7, 10: 4}, checkpoint(entries)
    folder = forge(tmp_path, LOG, leader_epochs=epochs, replaced=file)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(REGRESSED, Severity.ERROR, 10)]
    assert (finding.path, finding.position, finding.last_offset) == (str(file_of(folder, 10)), 0, 19)
    assert finding.evidence == {"leader_epoch": 4, "leader_epoch_before": 7}


def test_batches_without_an_epoch_do_not_hide_a_fall(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG, leader_epochs={0: 7, 15: 4}, replaced=checkpoint([(4, 15)]))
    patch(file_of(folder, 10), 10, partition_leader_epoch=-1)
    assert key_facts(found_in(tmp_path)) == [(REGRESSED, Severity.ERROR, 15)]


@pytest.mark.parametrize("topic", ["switched", "switched-and-elected", "left-behind"])
def test_a_broker_forgets_the_epochs_before_an_older_format(topic: str) -> None:
    """The topic was switched to older message formats and back, and its ``leader-epoch-checkpoint`` begins after."""
    (partition,) = partitions_under(SAMPLES / "format-downgrade" / "broker-0" / f"{topic}-0")
    state = state_of(partition)
    assert state.log.ends_in_old_format == (partition.leader_epochs is None)
    assert list(findings(state)) == []


def test_epochs_after_an_older_format_are_compared(tmp_path: Path) -> None:
    """What follows the last batch of an older format is known to the broker, so an entry that is absent is found."""
    shutil.copytree(SAMPLES / "format-downgrade" / "broker-0", tmp_path / "log-dir")
    folder = tmp_path / "log-dir" / "switched-0"
    (folder / NAME).write_text("0\n1\n0 19\n")
    assert key_facts(found_in(folder)) == [(MISMATCH, Severity.INFO, 18)]
    (folder / NAME).write_text("0\n0\n")
    assert key_facts(found_in(folder)) == [(MISSING, Severity.WARNING, 18)]


def test_epochs_that_keep_falling_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    text = "; ".join(f"plain @{offset}" for offset in range(2100))
    forge(tmp_path, text, leader_epochs={at: (at + 1) % 2 for at in range(2100)}, replaced=checkpoint([(0, 1)]))
    findings = [finding for finding in found_in(tmp_path) if finding.code.name == REGRESSED]
    assert len(findings) == 1000
    assert findings[-1].evidence["left_out"] == 50


WRONG: dict[str, tuple[Entries, int | None, str]] = {
    "starts too late": ([(0, 0), (3, 6), (4, 10)], 5, "starts at offset 6, but the batch at offset 5 already has it"),
    "starts too early": (
        [(0, 0), (3, 5), (4, 9)],
        10,
        "starts at offset 9, but the batches up to offset 9 have an older",
    ),
    "epochs decrease": ([(0, 0), (4, 5), (3, 10)], None, "epoch 3 at offset 10 after epoch 4 at offset 5"),
    "offsets decrease": ([(0, 0), (3, 10), (4, 5)], None, "epoch 4 at offset 5 after epoch 3 at offset 10"),
    "the same offset twice": ([(0, 0), (3, 5), (4, 5)], None, "epochs and offsets must ascend"),
}


@pytest.mark.parametrize(("entries", "offset", "sentence"), WRONG.values(), ids=WRONG)
def test_a_file_that_disagrees_with_the_log_is_found(
    tmp_path: Path, entries: Entries, offset: int | None, sentence: str
) -> None:
    folder = forge(tmp_path, LOG, leader_epochs=EPOCHS, replaced=checkpoint(entries))
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(MISMATCH, Severity.ERROR, offset)]
    assert finding.path == str(folder / NAME)
    assert sentence in finding.message


REJECTED = {"version": b"1\n0\n", "count": b"0\n7\n0 0\n", "number": b"0\n1\n0 zero\n", "negative": b"0\n1\n0 -1\n"}


@pytest.mark.parametrize("text", REJECTED.values(), ids=REJECTED)
def test_a_file_that_a_broker_refuses_is_found(tmp_path: Path, text: bytes) -> None:
    forge(tmp_path, LOG, replaced={f"t-0/{NAME}": text})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(MISMATCH, Severity.ERROR, None)]
    assert "Brokers reject leader-epoch-checkpoint" in finding.message


ABSENT: dict[str, tuple[Entries, list[int]]] = {
    "one in the middle": ([(0, 0), (4, 10)], [5]),
    "the newest": ([(0, 0), (3, 5)], [10]),
    "all": ([], [0, 5, 10]),
}


@pytest.mark.parametrize(("entries", "offsets"), ABSENT.values(), ids=ABSENT)
def test_an_epoch_that_the_file_does_not_know_is_found(tmp_path: Path, entries: Entries, offsets: list[int]) -> None:
    forge(tmp_path, LOG, leader_epochs=EPOCHS, replaced=checkpoint(entries))
    assert key_facts(found_in(tmp_path)) == [(MISSING, Severity.WARNING, offset) for offset in offsets]


@pytest.mark.parametrize(
    ("log", "clean_shutdown", "severity"),
    [
        ({58: "plain @58-59"}, False, Severity.INFO),
        ({58: "plain @58-59"}, True, Severity.WARNING),
        ({58: "plain @58-59", 60: "plain @60"}, False, Severity.WARNING),
        ({0: "plain @0-1"}, False, Severity.WARNING),
    ],
    ids=["copied", "stopped", "rolled", "new"],
)
def test_a_log_may_have_begun_again_while_it_was_copied(
    tmp_path: Path, log: dict[int, str], clean_shutdown: bool, severity: Severity
) -> None:
    """As that of a follower which truncated it fully. The log of a stopped broker, or one of two segments, has not."""
    first = min(log)
    forge(tmp_path, log, leader_epochs={first: 3}, clean_shutdown=clean_shutdown, replaced=checkpoint([]))
    assert key_facts(found_in(tmp_path)) == [(MISSING, severity, first)]


@pytest.mark.parametrize(
    ("snapshot", "age_s", "severity"),
    [(10, 1, Severity.INFO), (10, -1, Severity.WARNING), (5, 1, Severity.WARNING)],
    ids=["copied", "file older", "not rolled"],
)
def test_the_copy_of_a_log_may_be_from_before_it_began_again(
    tmp_path: Path, snapshot: int, age_s: int, severity: Severity
) -> None:
    """A log that begins again has a snapshot at its new begin; its old segment was copied and is gone by now."""
    log = {0: "plain @0-4", 5: "plain @5-9"}
    folder = forge(tmp_path, log, clean_shutdown=False, snapshots={snapshot: []}, replaced=checkpoint([]))
    written = file_of(folder, 5).stat().st_mtime + age_s
    utime(folder / NAME, (written, written))
    assert key_facts(found_in(tmp_path)) == [(MISSING, severity, 0)]


@pytest.mark.parametrize(
    ("entries", "clean_shutdown", "age_s", "severity"),
    [
        ("the newest", False, -1, Severity.INFO),
        ("the newest", False, 1, Severity.WARNING),
        ("the newest", True, -1, Severity.WARNING),
        ("one in the middle", False, -1, Severity.WARNING),
    ],
)
def test_the_copy_of_the_file_may_be_from_before_an_epoch_began(
    tmp_path: Path, entries: str, clean_shutdown: bool, age_s: int, severity: Severity
) -> None:
    """Seen on 2.8.2: a follower fetched old batches after its start, while its files were copied."""
    known, (missing,) = ABSENT[entries]
    folder = forge(tmp_path, LOG, leader_epochs=EPOCHS, clean_shutdown=clean_shutdown, replaced=checkpoint(known))
    newest = max(path.stat().st_mtime for path in folder.glob("*.log")) + age_s
    utime(folder / NAME, (newest, newest))
    assert key_facts(found_in(tmp_path)) == [(MISSING, severity, missing)]


@pytest.mark.parametrize(("written", "severity"), [(5, Severity.INFO), (15, Severity.WARNING)])
def test_the_file_is_compared_with_the_segment_in_which_the_epoch_began(
    tmp_path: Path, written: int, severity: Severity
) -> None:
    """The active segment is always younger."""
    log = {0: "plain @0-4", 5: "plain @5-9", 10: "plain @10-14"}
    epochs = {0: 0, 5: 3}
    folder = forge(tmp_path, log, leader_epochs=epochs, clean_shutdown=False, replaced=checkpoint([(0, 0)]))
    for base, time in ((0, 1), (5, 10), (10, 20)):
        utime(file_of(folder, base), (1_700_000_000 + time,) * 2)
    utime(folder / NAME, (1_700_000_000 + written,) * 2)
    assert key_facts(found_in(tmp_path)) == [(MISSING, severity, 5)]


def test_a_file_that_is_missing_is_one_finding(tmp_path: Path) -> None:
    forge(tmp_path, LOG, leader_epochs=EPOCHS, replaced={f"t-0/{NAME}": None})
    assert key_facts(found_in(tmp_path)) == [(MISSING, Severity.WARNING, 0)]


def test_a_broker_deletes_the_file_as_soon_as_its_topic_has_an_older_message_format(tmp_path: Path) -> None:
    """A broker of 2.8 does, before there is a batch of that format; brokers with an id of the directory do not."""
    older = {f"t-0/{NAME}": None, "meta.properties": b"broker.id=1\nversion=0\n"}
    forge(tmp_path, LOG, leader_epochs=EPOCHS, replaced=older)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(MISSING, Severity.INFO, 0)]
    assert finding.benign[-1] == "older message format since the last batch: possible"


def test_a_copy_of_the_segments_alone_misses_nothing(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG, leader_epochs=EPOCHS)
    for path in (*folder.glob("*.snapshot"), folder / NAME, folder / "partition.metadata"):
        path.unlink()
    assert found_in(tmp_path) == []


def test_a_log_without_leader_epochs_needs_no_file(tmp_path: Path) -> None:
    forge(tmp_path, LOG, leader_epochs={0: -1}, replaced={f"t-0/{NAME}": None})
    assert found_in(tmp_path) == []
