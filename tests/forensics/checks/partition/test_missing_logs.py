"""A partition whose ``.log`` files are gone is found in every answer; folders that never had a log are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kforensics.analyses.partitions import investigate
from kforensics.cli.partition_options import PartitionOptions
from kforensics.forensics.audit.audit_scope import AuditScope, evaluate_partition
from kforensics.forensics.audit.copies import copies_among
from kforensics.forensics.checks.check import findings_of
from kforensics.forensics.checks.partition_checks import CHECK_GROUPS
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import HIGH_WATERMARK, Partition
from kforensics.parsers.files.discover import FoundFile, discover
from tests.command import run
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import SAMPLES, partitions_under

FIRES = {"log-missing": "test_a_partition_whose_log_files_are_gone_is_found"}
SILENT = {"log-missing": "test_a_folder_that_a_broker_has_just_created_is_no_finding"}

RULES = Rules(as_of_ms=1_763_700_000_000)
BROKER = SAMPLES / "transactions-v2" / "broker-1"
LOG_DIRS = SAMPLES / "log-dirs"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A copy of the log directory of a real broker."""
    return Path(shutil.copytree(BROKER, tmp_path / "broker-1"))


def remove_logs(folder: Path, pattern: str = "*.log") -> None:
    """Delete the ``.log`` files of a folder."""
    for path in folder.glob(pattern):
        path.unlink()


def missing(partitions: list[Partition]) -> dict[str, Finding]:
    """Return the findings of partitions without a log; nothing else may be found in them."""
    without_log = [partition for partition in partitions if not partition.has_log]
    found = {}
    for partition in without_log:
        for group in ("all", "evidence", "blocking"):
            (found[partition.name],) = findings_of(examine(partition, RULES), CHECK_GROUPS[group])
    return found


def test_a_partition_whose_log_files_are_gone_is_found(log_dir: Path) -> None:
    remove_logs(log_dir / "segments-0")
    finding = missing(partitions_under(log_dir))["segments-0"]
    end = max(int(path.stem) for path in (log_dir / "segments-0").glob("*.snapshot"))
    assert (finding.code.name, finding.severity) == ("log-missing", Severity.CRITICAL)
    assert (finding.first_offset, finding.last_offset, finding.path) == (0, end - 1, str(log_dir / "segments-0"))
    assert finding.evidence["high_watermark"] == finding.evidence["recovery_point"] == end
    assert len(finding.evidence["snapshots"]) == len(list((log_dir / "segments-0").glob("*.snapshot")))
    assert f"high watermark {end}" in finding.message


def test_a_log_whose_file_is_empty_is_missing_too(log_dir: Path) -> None:
    """As a file system leaves it, or a copy that broke off; a coordinator's log is then not consulted either."""
    for name in ("input-0", "__transaction_state-0"):
        (log_dir / name / f"{0:020}.log").write_bytes(b"")
    findings = missing(partitions_under(log_dir))
    assert {name: finding.severity for name, finding in findings.items()} == dict.fromkeys(
        ("input-0", "__transaction_state-0"), Severity.CRITICAL
    )
    assert findings["input-0"].message.startswith("The .log file is empty. At least offsets 0 to 5 were there.")
    assert "txn-hanging" not in run("audit", "--as-of", "2026-11-21T12:40", "--verbose", log_dir).text
    answer = run("lso", "--as-of", "2026-11-21T12:40", log_dir / "input-0")
    assert answer.lines[0] == "input-0 on broker 1: LSO unknown, the log is missing"


def test_a_packed_log_is_named(log_dir: Path) -> None:
    for path in (log_dir / "input-0").glob("*.log"):
        path.rename(f"{path}.gz")
    finding = missing(partitions_under(log_dir))["input-0"]
    name = f"{0:020}.log.gz"
    assert finding.message.startswith(f"The folder has no .log file, but 1 packed file, such as {name}: unpack them.")
    note = f"{log_dir}/input-0/{name} is not read; unpack archives that lie in folders, or name them as paths"
    assert note in run("lso", log_dir).err


def test_an_archive_beside_nothing_else_is_named(tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "broker-1"), "tar", BROKER)
    answer = run("audit", tmp_path)
    assert answer.code == 2
    assert f"{tmp_path}/broker-1.tar is not read; unpack archives that lie in folders" in answer.err


@pytest.mark.parametrize("base_offset", [0, 6])
def test_an_empty_segment_is_no_missing_log_if_nothing_was_flushed_after_its_start(
    base_offset: int, tmp_path: Path
) -> None:
    """A topic without records, or one whose records have all been deleted."""
    forge(tmp_path, {base_offset: ""}, high_watermark=base_offset)
    (partition,) = partitions_under(tmp_path)
    assert (partition.has_log, partition.size) == (True, 0)


def test_an_empty_file_of_a_running_broker_may_have_been_copied_before_the_checkpoints(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "input-0" / f"{0:020}.log").write_bytes(b"")
    assert all(partition.has_log for partition in partitions_under(log_dir))


@pytest.mark.parametrize(("clean_shutdown", "severity"), [(False, Severity.WARNING), (True, Severity.CRITICAL)])
def test_a_running_broker_may_have_replaced_the_log_during_the_copy(
    clean_shutdown: bool, severity: Severity, tmp_path: Path
) -> None:
    """The cleaner had renamed the old segments when they were copied, and the new ones had been missed before."""
    folder = forge(tmp_path, {0: "plain @0-9", 10: "plain @10-19"}, clean_shutdown=clean_shutdown)
    for path in list(folder.glob("*.log")):
        path.rename(f"{path}.deleted")
    finding = missing(partitions_under(tmp_path))["t-0"]
    assert (finding.code.name, finding.severity) == ("log-missing", severity)
    outcome = "no, clean shutdown" if clean_shutdown else "likely, 2 .log.deleted files"
    assert finding.benign[-1].endswith(outcome)


def test_all_logs_of_a_log_directory_are_gone(log_dir: Path) -> None:
    names = {partition.name for partition in partitions_under(log_dir)}
    remove_logs(log_dir, "*/*.log")
    assert missing(partitions_under(log_dir)).keys() == names


@pytest.mark.parametrize("name", ["partition", "log directory"])
def test_commands_name_the_partition_and_know_no_offset_of_it(name: str, log_dir: Path) -> None:
    remove_logs(log_dir / "committed-0")
    path = str(log_dir / "committed-0") if name == "partition" else str(log_dir)
    for command in ("audit", "scan", "verify", "lso"):
        result = run(command, "--topic", "committed", path)
        assert result.code == 1, command
        assert "committed-0" in result.text
        assert "log-missing" in result.text or "The folder has no .log file" in result.text
        assert "agree with the log" not in result.text or "0 partitions of 1" in result.text
    assert "LSO unknown, the log is missing" in run("lso", "--topic", "committed", path).text
    row = run("lso", "--topic", "committed", "--format", "csv", path).lines[-1]
    assert row.endswith("committed,0,0,,20,checkpoint,,,,false,,,,,,,,")
    story = run("explain", "--topic", "committed", "--partition", "0", "--offset", "3", path).text
    assert "the partition folder has no .log file any more, or an empty one" in story


QUESTIONS = {
    "lso": ("LSO", ()),
    "lso --history": ("LSO", ()),
    "lso --at 3": ("LSO", ()),
    "transactions": ("transactions", ()),
    "producers": ("producers", ()),
    "duplicates": ("duplicates", ()),
    "keys": ("keys", ()),
    "explain --offset 3": ("LSO", ("--partition", "0")),
    "explain --producer-id 3": ("producer 3", ("--partition", "0")),
}


@pytest.mark.parametrize("command", QUESTIONS)
def test_every_command_says_in_the_same_words_that_the_log_is_missing(command: str, log_dir: Path) -> None:
    remove_logs(log_dir / "committed-0")
    unknown, options = QUESTIONS[command]
    result = run(*command.split(), "--quiet", "--topic", "committed", *options, log_dir)
    words = result.lines.index(f"committed-0 on broker 1: {unknown} unknown, the log is missing")
    assert words < 5
    assert result.lines[words + 1].startswith(
        "  critical log-missing: The folder has no .log file. At least offsets 0 to"
    )
    assert result.lines[words + 3].startswith("           do: Keep the broker stopped")
    assert result.code == 1
    assert "0 transactions" not in result.text
    assert "log end" not in result.text


@pytest.mark.parametrize("command", ["lso", "lso --history", "transactions", "producers", "duplicates"])
def test_what_is_stuck_is_before_missing_logs_which_are_stated_once(command: str, tmp_path: Path) -> None:
    twice = "D 1 0 0-4 @0-4; D 1 0 0-4 @5-9; "
    for number in range(25):
        forge(tmp_path, f"{twice}D 9 1 0-4 @10-14 T ts 1700000100000", topic="stuck", partition=number)
        gone = forge(tmp_path, "D 1 0 0-4 @0-4", topic="gone", partition=number)
        file_of(gone).rename(gone / "00000000000000000000.snapshot.bak")
        (gone / "00000000000000000005.snapshot").write_bytes(b"")
    lines = run(*command.split(), "--quiet", "--as-of", 1_700_009_000_000, tmp_path).lines
    missing = [number for number, line in enumerate(lines) if "the log is missing" in line]
    assert len(missing) == 1
    assert lines[missing[0]].startswith("25 partitions: ")
    assert lines[missing[0] + 1] == "  gone-0 to gone-24 on broker 1"
    assert sum("log-missing" in line for line in lines) == 1
    assert max(number for number, line in enumerate(lines) if "stuck-" in line and "$" not in line) < missing[0]
    assert any(line.startswith("  $ kforensics ") and " --all " in line for line in lines)
    complete = run(*command.split(), "--quiet", "--all", "--as-of", 1_700_009_000_000, tmp_path).lines
    assert sum("the log is missing" in line for line in complete) == 25


@pytest.mark.parametrize("command", [command for command in QUESTIONS if command not in ("lso", "lso --at 3")])
def test_no_row_shows_what_a_missing_log_had(command: str, log_dir: Path) -> None:
    remove_logs(log_dir / "committed-0")
    _, options = QUESTIONS[command]
    path = log_dir / "committed-0"
    rows = run(*command.split(), "--quiet", "--alone", "--format", "ndjson", *options, path).objects
    bounds = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
    assert [[row[name] for name in bounds] for row in rows] == ([[None] * 4] if "--offset" in command else [])


def test_a_transactional_id_names_its_partitions_whose_log_is_missing(log_dir: Path) -> None:
    whole = run("explain", "--quiet", "--transactional-id", "committer", log_dir)
    assert "the log is missing" not in whole.text
    remove_logs(log_dir / "committed-0")
    result = run("explain", "--quiet", "--transactional-id", "committer", log_dir)
    assert "committed-0 on broker 1: transactions of 'committer' unknown, the log is missing" in result.lines
    assert "missing: committed-0" not in result.text
    assert "not-on-hand: committed-0" in result.text
    assert result.code == 1


def test_a_coordinator_whose_log_is_missing_is_not_consulted(log_dir: Path) -> None:
    remove_logs(log_dir / "__transaction_state-0")
    result = run("lso", "--quiet", "--as-of", "2026-11-21T12:40", log_dir / "hanging-0")
    assert "txn-hanging" not in result.text
    assert "no partition of __transaction_state" in run("explain", "--transactional-id", "hanging", log_dir).err


def test_its_result_has_no_offsets_and_no_part_in_its_cluster(log_dir: Path) -> None:
    remove_logs(log_dir / "__transaction_state-0")
    notes: list[str] = []
    investigation = investigate([str(log_dir)], None, notes.append, notes.append)
    assert not investigation.clusters.coordinated
    (partition,) = (partition for partition in investigation.partitions if not partition.has_log)
    scope = AuditScope(RULES, records=True, clusters=investigation.clusters)
    result = evaluate_partition(partition, scope, workers=0)
    assert (result.stable, result.log_end_offset, result.cluster_input, result.is_counted) == (None, None, None, True)


def test_a_lost_copy_is_not_compared_with_the_others(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "replication", tmp_path / "replication")
    partitions = partitions_under(tmp_path)
    assert list(copies_among(partitions, investigate([str(tmp_path)], 0, print, print).clusters))
    for broker in sorted((tmp_path / "replication").glob("broker-*"))[1:]:
        remove_logs(broker, "*/*.log")
    assert not list(copies_among(partitions_under(tmp_path), investigate([str(tmp_path)], 0, print, print).clusters))


def test_a_folder_that_a_broker_has_just_created_is_no_finding(tmp_path: Path) -> None:
    folder = forge(tmp_path, "", high_watermark=0)
    for path in folder.iterdir():
        path.unlink()
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert partitions_under(tmp_path) == []


def test_a_folder_marked_for_deletion_and_its_successor_are_no_findings(tmp_path: Path) -> None:
    """The checkpoint of a topic that was created again may still be that of the deleted one."""
    shutil.copytree(SAMPLES / "deletion" / "broker-1", tmp_path / "broker-1")
    for deleted in (tmp_path / "broker-1").glob("*-delete"):
        remove_logs(deleted)
    successor = tmp_path / "broker-1" / "topic-recreated-0"
    (high_watermark,) = (row.checkpoint(HIGH_WATERMARK) for row in partitions_under(successor))
    assert high_watermark
    for path in successor.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (tmp_path, successor):
        assert all(partition.has_log for partition in partitions_under(path))


def test_a_partition_that_moved_to_another_log_directory_is_no_finding(tmp_path: Path) -> None:
    shutil.copytree(LOG_DIRS, tmp_path / "log-dirs")
    moved = next((tmp_path / "log-dirs").rglob("moved-0"))
    others = {path.parent for path in moved.parent.parent.rglob("meta.properties")} - {moved.parent}
    left_over = shutil.copytree(moved, next(iter(others)) / "moved-0")
    remove_logs(Path(left_over))
    assert all(partition.has_log for partition in partitions_under(tmp_path))
    assert sum(partition.name == "moved-0" for partition in partitions_under(tmp_path)) == 1


def test_a_second_copy_of_a_log_directory_is_not_where_the_log_moved(tmp_path: Path) -> None:
    for day in ("day-1", "day-2"):
        shutil.copytree(BROKER, tmp_path / day)
    remove_logs(tmp_path / "day-2", "*/*.log")
    assert len(missing(partitions_under(tmp_path))) == len(partitions_under(tmp_path / "day-1"))


def test_files_named_without_the_log_beside_them_are_no_finding() -> None:
    files = [str(path) for path in (BROKER / "segments-0").iterdir() if path.suffix != ".log"]
    rows = [row for row in discover(files) if isinstance(row, FoundFile)]
    assert len(rows) == len(files)
    with pytest.raises(Exception, match="there is no log under"):
        PartitionOptions(paths=files).investigation()
