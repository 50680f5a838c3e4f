"""What lost segments and damaged batches explain, and the faults that they must not hide."""

from __future__ import annotations

from pathlib import Path

import pytest

import kforensics
from tests.forensics.forge import file_of, forge, patch, snapshot_entries

OPEN = "D 1 0 0-4 @1-5 T"


def found(folder: Path) -> dict[str, tuple[str, str | None]]:
    """Return severity and cause of the findings of an audit, by code."""
    findings = kforensics.audit(str(folder), processes=1).findings.to_pylist()
    return {row["code"]: (row["severity"], row["cause"]) for row in findings}


def damage(folder: Path, *offsets: int, base: int = 0, **fields: int) -> None:
    """Change batches so that their checksums fail."""
    for offset in offsets:
        patch(file_of(folder, base), offset, fix_crc=False, **fields or {"crc": 1})


@pytest.mark.parametrize(
    ("log", "code"),
    [
        ("plain @0; D 1 5 0-4 @1-5 N; plain @6; D 1 3 0-4 @7-11 N; plain @12", "epoch-regressed"),
        (f"plain @0; {OPEN}; plain @6; M 1 3 C 3 @7; plain @8; M 1 2 C 3 @9; plain @10", "marker-epoch-regressed"),
        (
            f"plain @0; {OPEN}; plain @6; M 1 1 C 3 @7; plain @8; D 1 0 5-9 @9-13 T; M 1 1 C 3 @14",
            "txn-write-after-marker",
        ),
    ],
)
def test_damage_between_two_batches_does_not_explain_that_the_second_one_is_older(
    tmp_path: Path, log: str, code: str
) -> None:
    folder = forge(tmp_path, log)
    damage(folder, 6)
    if "@8;" in log:
        damage(folder, 8)
    assert found(folder)[code] == ("error", None)


@pytest.mark.parametrize(
    ("offset", "fields"),
    [
        (0, {"producer_id": 2}),
        (5, {"producer_id": 2}),
        (0, {"base_sequence": 77}),
        (5, {"base_sequence": 77}),
        (0, {"last_offset_delta": 40}),
        (5, {"last_offset_delta": 40}),
        (0, {"producer_epoch": 7}),
    ],
)
def test_no_field_of_a_damaged_batch_is_believed(tmp_path: Path, offset: int, fields: dict[str, int]) -> None:
    log = "D 1 0 0-4 @0-4 T; D 1 0 5-9 @5-9 T; M 1 0 A 3 @10; D 2 0 0-4 @11-15 T; M 2 0 C 3 @16; D 1 0 10-14 @17-21 N"
    folder = forge(tmp_path, log)
    damage(folder, offset, **fields)
    serious = {code for code, (severity, _) in found(folder).items() if severity in ("error", "critical")}
    assert serious <= {"batch-crc-mismatch", "index-mismatch"}


def test_bytes_before_the_first_readable_batch_may_have_been_batches(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5; D 1 0 5-9 @6-10 T; M 1 0 C 3 @11")
    log = file_of(folder)
    data = log.read_bytes()
    log.write_bytes(b"\xff" * 70 + data[70:])
    assert "seq-gap" not in found(folder)


@pytest.mark.parametrize("count", [990, 1100])
def test_faults_after_very_many_damaged_batches_are_reported(tmp_path: Path, count: int) -> None:
    last = count + 1
    damaged = "; ".join(f"plain @{offset}" for offset in range(1, last))
    faults = f"D 1 0 0-4 @{last + 1}-{last + 5} N; D 1 0 7-9 @{last + 6}-{last + 8} N; plain @{last + 9}"
    folder = forge(tmp_path, f"plain @0; {damaged}; plain @{last}; {faults}")
    damage(folder, *range(1, last))
    assert found(folder)["seq-gap"] == ("error", None)


def stuck(folder: Path, log: dict[int, str], offset: int, *, lost: bool, **fields: int) -> tuple[str, str | None]:
    """Return severity and cause of what an audit says of a stuck transaction; a segment is lost or a batch damaged."""
    partition = forge(folder, log, log_append_time=True)
    if lost:
        file_of(partition, 6).unlink()
    else:
        damage(partition, offset, base=offset, **fields)
    return found(partition)["lso-stuck"]


@pytest.mark.parametrize("lost", [False, True], ids=["damaged", "lost"])
def test_a_transaction_that_goes_on_after_the_damage_is_stuck(tmp_path: Path, *, lost: bool) -> None:
    log = {0: f"plain @0; {OPEN}", 6: "plain @6-9", 10: "plain @10", 11: "D 1 0 5-9 @11-15 T; plain @16-30"}
    assert stuck(tmp_path, log, 10, lost=lost) == ("critical", "txn-late")


@pytest.mark.parametrize("lost", [False, True], ids=["damaged", "lost"])
def test_a_transaction_that_may_have_ended_in_the_damage_is_no_error(tmp_path: Path, *, lost: bool) -> None:
    log = {0: f"plain @0; {OPEN}", 6: "M 1 0 A 3 @6; plain @7-9", 10: "plain @10", 11: "plain @11-30"}
    assert stuck(tmp_path, log, 6, lost=lost, producer_id=3) == ("warning", "txn-late")


@pytest.mark.parametrize(
    ("known", "expected"),
    [(5, ("warning", None)), (11, ("info", "batch-crc-mismatch"))],
    ids=["snapshot of before", "snapshot of what is damaged"],
)
def test_what_is_damaged_later_does_not_explain_a_snapshot_that_is_older_than_the_log(
    tmp_path: Path, known: int, expected: tuple[str, str | None]
) -> None:
    log = {
        0: "D 1 0 0-4 @0-4 N",
        5: "D 1 0 5-9 @5-9 N; plain @10",
        11: "D 1 0 10-14 @11-15 N; plain @16-29",
        30: "plain @30",
    }
    if known == 5:
        log[11] = "plain @11-29"
    stored = snapshot_entries(log, 5 if known == 5 else 30)
    folder = forge(tmp_path, log, snapshots={30: stored})
    damage(folder, 11, base=11, **({} if known == 5 else {"producer_id": 9}))
    assert found(folder)["snapshot-state-mismatch"] == expected


@pytest.mark.parametrize("later", [211, None], ids=["damaged later", "lost later"])
def test_damage_after_a_marker_without_data_does_not_explain_the_sequences_after_it(
    tmp_path: Path, later: int | None
) -> None:
    first = "plain @0; M 1 0 A 3 @1; D 1 0 50-54 @2-6 T; M 1 0 C 3 @7; plain @8-12"
    folder = forge(tmp_path, {0: first, 13: "plain @13-99", 100: "plain @100-199", 200: "plain @200-210; plain @211"})
    if later is None:
        file_of(folder, 100).unlink()
    else:
        damage(folder, later, base=200)
    assert found(folder)["seq-gap"][0] == "error"


def test_a_damaged_batch_with_a_wrong_offset_does_not_reach_into_the_next_segment(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-4; plain @5-9", 10: "plain @10-14", 15: "plain @15"})
    damage(folder, 5, last_offset_delta=40)
    assert found(folder)["segment-overlap"] == ("warning", "batch-crc-mismatch")
