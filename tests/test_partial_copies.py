"""What is left of a partition gives no false verdict: a segment that is lost is one finding, and so is what follows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kforensics
from tests.command import SAMPLES, run
from tests.forensics.forge import forge
from tests.thorough import some

SERIOUS = ("error", "critical")
AS_OF = "2026-11-29"
# Damage up to the end of a segment is also what is missing before the next one.
ALLOWED = {"batch-crc-mismatch", "batch-length-invalid", "batch-truncated", "segment-missing"}


def serious(path: Path) -> set[str]:
    """Return the codes of the findings at error or above."""
    findings = kforensics.audit(str(path), processes=1, as_of=AS_OF).findings.to_pylist()
    return {finding["code"] for finding in findings if finding["severity"] in SERIOUS}


def segmented() -> list[Path]:
    """Return the folders of sample partitions with a segment that has one before and one after it."""
    folders = {path.parent for path in SAMPLES.rglob("*.log") if path.stem.isdigit()}
    names = (folder for folder in folders if "." not in folder.name and not folder.name.startswith("__"))
    return sorted(folder for folder in names if len(list(folder.glob("*.log"))) > 2)


@pytest.mark.parametrize("folder", some(segmented(), 3, 0), ids=lambda folder: str(folder.relative_to(SAMPLES)))
def test_what_follows_from_a_lost_segment_is_no_verdict_of_its_own(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "whole" / folder.name
    shutil.copytree(folder, kept)
    before = serious(kept)
    for segment in sorted(folder.glob("*.log"))[1:-1]:
        copy = tmp_path / segment.stem / folder.name
        shutil.copytree(folder, copy, ignore=lambda _, names, stem=segment.stem: [n for n in names if stem in n])
        assert serious(copy) - before <= {"segment-missing"}, segment.name


@pytest.mark.parametrize("folder", some(segmented(), 3, 1), ids=lambda folder: str(folder.relative_to(SAMPLES)))
def test_what_follows_from_damage_is_no_verdict_of_its_own(folder: Path, tmp_path: Path) -> None:
    before = serious(folder)
    for number, segment in enumerate(sorted(folder.glob("*.log"))):
        copy = tmp_path / str(number) / folder.name
        shutil.copytree(folder, copy)
        for checkpoint in folder.parent.glob("*checkpoint"):
            shutil.copy2(checkpoint, copy.parent)
        damaged = bytearray(segment.read_bytes())
        start = len(damaged) // 3 + 20  # not the base offset of a batch, which no checksum covers
        damaged[start : start + 30] = bytes(30)
        (copy / segment.name).write_bytes(damaged)
        assert serious(copy) - before <= ALLOWED, segment.name


@pytest.mark.parametrize("folder", some(segmented(), 3, 2), ids=lambda folder: str(folder.relative_to(SAMPLES)))
def test_what_follows_from_a_segment_that_is_cut_off_is_no_verdict_of_its_own(folder: Path, tmp_path: Path) -> None:
    """As by a copy that was broken off, and continued with the next segment."""
    before = serious(folder)
    for number, segment in enumerate(sorted(folder.glob("*.log"))[:-1]):
        copy = tmp_path / str(number) / folder.name
        shutil.copytree(folder, copy)
        for checkpoint in folder.parent.glob("*checkpoint"):
            shutil.copy2(checkpoint, copy.parent)
        (copy / segment.name).write_bytes(segment.read_bytes()[: segment.stat().st_size // 3])
        assert serious(copy) - before <= ALLOWED, segment.name


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "damaged"])
@pytest.mark.parametrize("name", ["transactions-v2/broker-1/segments-0", "state-lost-after-crash/broker-1/open-0"])
def test_all_commands_say_the_same_of_what_is_left(name: str, tmp_path: Path, *, is_lost: bool) -> None:
    segments = sorted((SAMPLES / name).glob("*.log"))
    for segment in segments[1:-1] if is_lost else segments:
        copy = tmp_path / segment.stem / Path(name).name
        shutil.copytree(SAMPLES / name, copy)
        if is_lost:
            (copy / segment.name).unlink()
        else:
            damaged = bytearray(segment.read_bytes())
            start = len(damaged) // 3 + 20
            damaged[start : start + 30] = bytes(30)
            (copy / segment.name).write_bytes(damaged)
        audited = findings_of("audit", copy)
        for command in ("lso", "transactions", "producers", "duplicates", "verify"):
            for finding, verdict in findings_of(command, copy).items():
                assert audited.get(finding, verdict) == verdict, (segment.name, command)


def findings_of(command: str, path: Path) -> dict[tuple[object, ...], tuple[str, str | None]]:
    """Return severity and cause of the findings of a command, by what they are about."""
    words = (command, "--quiet", "--no-config", "--as-of", AS_OF, "--format", "json", path)
    rows = json.loads(run(*words).text)["tables"]["findings"]
    about = ("code", "topic", "partition", "path", "first_offset")
    return {tuple(row[name] for name in about): (row["severity"], row["cause"]) for row in rows}


# A cleaner has been in the first segment: offsets are missing inside it. It has also removed the data of a transaction
# that was aborted in the next one, and a marker whose data had been deleted before the log start.
CLEANED = {
    100: "gone D 1 0 0-9 @90-99 T; gone M 1 0 C 3 @100; D 1 3 0-1 @101-102 T; M 1 3 C 3 @103; plain @110-111;"
    "gone D 2 0 0-3 @112-115 T",
    116: "M 2 0 A 3 @116; plain @117",
    118: "plain @118",
}


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "in its log directory"])
def test_a_folder_without_checkpoints_may_have_been_cleaned(tmp_path: Path, *, is_alone: bool) -> None:
    folder = forge(tmp_path, CLEANED, first_dirty=118, clean_shutdown=False)
    if is_alone:
        shutil.copytree(folder, tmp_path / "alone" / folder.name)
        folder = tmp_path / "alone" / folder.name
    assert serious(folder) == set()


@pytest.mark.parametrize(
    ("log", "severity"),
    [
        ({0: "plain @0-99; gone plain @100-104", 105: "plain @105-110"}, "warning"),
        ({0: "plain @0-99; gone plain @100-199", 200: "plain @200-210"}, "critical"),
    ],
    ids=["few", "a segment"],
)
def test_few_missing_offsets_without_checkpoints_may_be_of_a_cleaner(
    tmp_path: Path, log: dict[int, str], severity: str
) -> None:
    folder = forge(tmp_path, log)
    shutil.copytree(folder, tmp_path / "alone" / folder.name)
    findings = kforensics.audit(str(tmp_path / "alone"), processes=1).findings.to_pylist()
    assert [row["severity"] for row in findings if row["code"] == "segment-missing"] == [severity]


def test_compacted_message_format_1_without_checkpoints_lost_no_segment(tmp_path: Path) -> None:
    folder = SAMPLES / "legacy-magic-1" / "broker-0" / "compact-gzip-0"
    shutil.copytree(folder, tmp_path / folder.name)
    assert serious(tmp_path / folder.name) == set()


def test_an_internal_topic_without_checkpoints_lost_no_segment(tmp_path: Path) -> None:
    """Its cleaner may have emptied the first segment, and then an id begins with any state."""
    folder = SAMPLES / "coordinators-cleaned" / "broker-1"
    for topic in ("__transaction_state", "__consumer_offsets"):
        for partition in folder.glob(f"{topic}-*"):
            copy = tmp_path / partition.name / partition.name
            shutil.copytree(partition, copy)
            for segment in sorted(copy.glob("*.log"))[:-1]:
                segment.write_bytes(b"")
                for index in copy.glob(f"{segment.stem}.*index"):
                    index.write_bytes(b"")
            assert serious(copy) == set(), partition.name


def test_a_newest_segment_that_is_missing_explains_what_is_open(tmp_path: Path) -> None:
    """A broker that was shut down cleanly had flushed it: what is open before it may have ended there."""
    folder = Path(shutil.copytree(SAMPLES / "transactions-v2" / "broker-1", tmp_path / "broker-1"))
    newest = max((folder / "segments-0").glob("*.log"))
    assert newest.stat().st_size > 0
    for file in (folder / "segments-0").glob(f"{newest.stem}.*"):
        file.unlink()
    found = kforensics.audit(folder, as_of="2026-11-21T13:00", processes=1).findings.to_pylist()
    here = {row["code"]: row for row in found if row["topic"] == "segments" and row["severity"] != "info"}
    assert {code: row["severity"] for code, row in here.items()} == {
        "segment-missing": "critical",
        "atomicity-marker-missing": "critical",
        "lso-stuck": "warning",
        "txn-late": "warning",
    }
    missing = here["segment-missing"]
    assert (missing["first_offset"], missing["last_offset"]) == (int(newest.stem), 65)
    (beyond,) = (row for row in found if row["code"] == "checkpoint-hw-beyond-end")
    assert (beyond["severity"], beyond["cause"]) == ("info", "segment-missing")


@pytest.mark.parametrize("named", ["00000000000000000000.log", "00000000000000000005.log"])
def test_segments_that_were_not_named_are_not_missing(named: str, tmp_path: Path) -> None:
    """The folder has the segments after it, and the broker was shut down cleanly."""
    folder = forge(tmp_path, {0: "plain @0-4", 5: "plain @5-9", 10: "plain @10-14"}, high_watermark=15)
    found = kforensics.audit(folder / named, processes=1).findings.to_pylist()
    assert "segment-missing" not in {row["code"] for row in found}


@pytest.mark.parametrize("name", ["Output-0", "copy of output-0", "a-0"])
def test_a_folder_that_was_copied_under_another_name_is_no_partition_of_its_own(name: str, tmp_path: Path) -> None:
    """No coordinator knows the topic of that name: its transactions were called hanging, its markers unlisted."""
    log_dir = tmp_path / "broker-1"
    shutil.copytree(SAMPLES / "consume-transform-produce" / "broker-1", log_dir)
    before = {command: findings_of(command, log_dir) for command in ("audit", "lso")}
    shutil.copytree(log_dir / "output-0", log_dir / name)
    topic = name.removesuffix("-0")
    for command, known in before.items():
        rows = findings_of(command, log_dir)
        assert {key: row for key, row in rows.items() if key[1] != topic} == known
        assert {row[0] for key, row in rows.items() if key[1] == topic} <= {"info"}
