"""Files and folders that this user may not read are named and counted; they raise no alarm about the broker."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from ctypes import CDLL, get_errno
from pathlib import Path

import pytest

from tests.command import SAMPLES, Ended

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
SIDECARS = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*-checkpoint")
ALARMS = {"warning", "error", "critical"}


def without_privileges() -> None:
    """Make root subject to permissions: a program that is executed gets no capability outside the bounding set."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(get_errno(), "this user reads every file and cannot give that up")


def run(*words: object) -> Ended:
    """Run ``kforensics`` in a process of its own that may not read every file."""
    command = [sys.executable, "-m", "kforensics", *map(str, words)]
    preexec = None if os.geteuid() else without_privileges
    ended = subprocess.run(command, capture_output=True, timeout=100, check=False, preexec_fn=preexec)
    return Ended(ended.returncode, ended.stdout, ended.stderr.decode())


def copied(tmp_path: Path, sample: str) -> Path:
    """Return a copy of a sample whose permissions may be changed."""
    return Path(shutil.copytree(SAMPLES / sample, tmp_path / sample))


def closed(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the files that match the patterns, which are closed to everyone."""
    files = [path for pattern in patterns for path in folder.rglob(pattern)]
    for path in files:
        path.chmod(0)
    return files


def alarms(ended: Ended) -> list[tuple[str, str]]:
    """Return code and message of the findings that claim a fault."""
    rows = ended.rows("findings")
    return [(row["code"], row["message"]) for row in rows if row["severity"] in ALARMS]


@pytest.mark.parametrize("pattern", SIDECARS)
@pytest.mark.parametrize("sample", ["transactions-v2", "crash-after-recovery"])
def test_files_beside_the_log_that_are_closed_are_named_and_no_fault(tmp_path: Path, sample: str, pattern: str) -> None:
    """A missing permission of the user says nothing about the broker."""
    folder = copied(tmp_path, sample)
    before = run("audit", "--format", "ndjson", "--as-of", "2026-11-22T01:00", "--fail-on", "never", folder)
    files = closed(folder, [pattern])
    assert files
    ended = run("audit", "--format", "ndjson", "--as-of", "2026-11-22T01:00", "--fail-on", "never", folder)
    assert (before.code, ended.code) == (0, 3)
    errors = [json.loads(line)["error"]["message"] for line in ended.err.splitlines() if line.startswith("{")]
    assert {message for message in errors if message.startswith("cannot read")} == {
        f"cannot read {path}: permission denied; run as a user with read access, or copy it first" for path in files
    }
    assert not set(alarms(ended)) - set(alarms(before))
    assert "permission denied" not in json.dumps(alarms(ended))


@pytest.mark.parametrize(
    "command", ["lso", "transactions", "producers", "scan", "verify", "keys", "duplicates", "ids", "groups", "settings"]
)
def test_every_command_names_what_it_may_not_read(tmp_path: Path, command: str) -> None:
    folder = copied(tmp_path, "classic-transaction") / "broker-1"
    files = closed(folder, SIDECARS)
    ended = run(command, "--fail-on", "never", folder) if command not in {"keys", "producers"} else run(command, folder)
    assert ended.code == 3, ended
    for path in files:
        assert ended.err.count(f"cannot read {path}: permission denied") == 1


def test_a_partition_and_a_folder_that_are_closed_leave_the_others(tmp_path: Path) -> None:
    """A log without permission, and a folder without permission, are counted, and the rest is evaluated."""
    folder = copied(tmp_path, "transactions-v2") / "broker-1"
    log, hidden = folder / "open-0" / "00000000000000000000.log", folder / "input-0"
    log.chmod(0)
    hidden.chmod(0)
    try:
        ended = run("audit", "--format", "ndjson", "--fail-on", "never", folder)
    finally:
        hidden.chmod(0o700)
    assert ended.code == 3
    for path in (log, hidden):
        assert ended.err.count(f"cannot read {path}: permission denied") == 1
    partitions = {f"{row['topic']}-{row['partition']}": row["verdict"] for row in ended.rows("partitions")}
    assert partitions["open-0"] == "unread"
    assert "input-0" not in partitions
    assert {verdict for name, verdict in partitions.items() if name != "open-0"} <= {"clean", "info", *ALARMS}


def test_a_checkpoint_of_the_broker_that_is_closed_is_named_if_only_a_partition_is_given(tmp_path: Path) -> None:
    folder = copied(tmp_path, "classic-transaction") / "broker-1"
    (path,) = closed(folder, ["replication-offset-checkpoint"])
    ended = run("lso", folder / "classic-0")
    assert ended.code == 3
    assert ended.err.count(f"cannot read {path}: permission denied") == 1
