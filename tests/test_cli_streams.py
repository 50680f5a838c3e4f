"""``kforensics dump`` as a process: pipes that close, Ctrl-C, full disks, terminals."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kforensics.parsers.files.source import LocalSource
from lab.damage import forge
from tests.command import CLASSIC, COMMAND, DAMAGED, SAMPLES


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log that takes seconds to dump."""
    folder = tmp_path_factory.mktemp("large") / "t-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(forge.plain(3 * number) for number in range(2000)) * 40)
    return path


def _run(*words: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [*COMMAND, *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)  # type: ignore[call-overload,no-any-return]  # options are those of run


@pytest.mark.parametrize("words", [["--print-data-log"], ["--format", "ndjson"], ["--format", "table"]], ids=" ".join)
def test_a_closed_pipe_ends_quietly(words: list[str], large: Path) -> None:
    with subprocess.Popen([*COMMAND, *words, str(large)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_a_pipe_closed_before_the_last_flush_ends_quietly() -> None:
    shell = f'{{ {" ".join(COMMAND)} "$0"; echo $? >&2; }} | true'
    done = subprocess.run(["/bin/sh", "-c", shell, str(CLASSIC)], capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (b"", b"0\n")


@pytest.mark.parametrize("command", ["lso", "transactions", "producers", "scan", "audit", "--help", "lso --help"])
def test_every_command_ends_quietly_if_its_reader_has_left(command: str) -> None:
    paths = [] if "--help" in command else [str(SAMPLES / "classic-transaction")]
    start, end = os.pipe()
    os.close(start)
    words = [sys.executable, "-m", "kforensics", *command.split(), *paths]
    done = subprocess.run(words, stdout=end, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(end)
    notes = [line for line in done.stderr.splitlines() if not line.startswith(b"evaluated as of")]
    assert (done.returncode, notes) == (0, [])


CLOSED = "kforensics: cannot write standard output: it is closed; name a file with --output"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-", "2>&-"])
@pytest.mark.parametrize("command", ["lso", "dump --format csv --batches", "scan"])
def test_a_closed_standard_stream_is_no_traceback(command: str, closed: str, tmp_path: Path) -> None:
    """The file that is opened next would get the number of the closed stream, and what is printed after that."""
    path = next((SAMPLES / "classic-transaction").glob("*/classic-0"))
    for output, code in ((f"--output {tmp_path}/out", 0), ("", 2 if closed != "2>&-" else 0)):
        shell = f"{sys.executable} -m kforensics {command} {path} {output} {closed}"
        done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, check=False, timeout=60)
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
        assert not code or closed != ">&-" or done.stderr.decode().splitlines()[-1] == CLOSED
    assert (tmp_path / "out").stat().st_size > 0


def test_results_are_written_if_standard_error_is_full(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-m", "kforensics", "lso", "--all", str(SAMPLES / "classic-transaction")]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=full, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") > 2


def _interrupted(output: Path, large: Path, sign: int) -> tuple[int, bytes]:
    """Run a dump to a file, interrupt it while it writes, and return its exit code and standard error."""
    command = [*COMMAND, "--format", "ndjson", "--records", "--output", str(output), str(large)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        deadline = time.monotonic() + 30
        while not any(path.stat().st_size for path in output.parent.glob(".*.part")):
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(sign)
        _, errors = running.communicate(timeout=60)
    return running.returncode, errors


def test_ctrl_c_leaves_no_partial_file_and_the_exit_code_is_130(large: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.ndjson"
    output.write_bytes(b"what was there before")
    assert _interrupted(output, large, signal.SIGINT) == (130, b"")
    assert output.read_bytes() == b"what was there before"
    assert list(tmp_path.iterdir()) == [output]


def test_a_kill_leaves_no_file_with_the_name_of_the_output(large: Path, tmp_path: Path) -> None:
    code, _ = _interrupted(tmp_path / "out.ndjson", large, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (tmp_path / "out.ndjson").exists()


COMMANDS = (
    "dump",
    "lso",
    "transactions",
    "producers",
    "duplicates",
    "explain --offset 0",
    "keys",
    "scan",
    "verify",
    "audit",
)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [*COMMANDS, "--help", "--version", "lso --help"])
def test_a_full_disk_is_one_sentence(command: str) -> None:
    paths = [] if command.startswith("-") else [str(CLASSIC.parent)]
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-m", "kforensics", *command.split(), *paths]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 2
    (sentence,) = [line for line in done.stderr.splitlines() if not line.startswith(b"evaluated as of")]
    assert re.fullmatch(rb"kforensics: cannot write standard output.*: No space left on device; .*", sentence)


def test_an_output_file_is_complete(tmp_path: Path) -> None:
    done = _run("--print-data-log", "--output", tmp_path / "out", CLASSIC)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "out").read_bytes() == _run("--print-data-log", CLASSIC).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_no_output_is_written_among_the_evidence() -> None:
    folder = CLASSIC.parent
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = _run("--output", folder / "out", CLASSIC)
    assert done.returncode == 2
    assert b"would be among the evidence" in done.stderr
    _run(folder)
    _run("--style", "4.3", "--files", folder / "00000000000000000000.timeindex")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def _on_a_terminal(*words: object) -> tuple[int, bytes]:
    """Run a dump whose three streams are a terminal, and return its exit code and output."""
    leader, follower = pty.openpty()
    command = [*COMMAND, *map(str, words)]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower) as running:
        os.close(follower)
        seen = b""
        while True:
            try:
                data = os.read(leader, 1 << 16)
            except OSError:  # the other end is closed
                data = b""
            if not data:
                break
            seen += data
    os.close(leader)
    return running.returncode, re.sub(rb"\r+\n", b"\n", seen)


@pytest.mark.parametrize("words", [[], ["--format", "csv", "--records"], ["--style", "4.3"]], ids=" ".join)
def test_a_payload_cannot_control_the_terminal(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(forge.batch(0, [forge.record(0, b"\x1b[2Jkey", "\x9b31mv\rover".encode())]))
    print_contents = [] if "csv" in words else ["--print-data-log"]
    code, seen = _on_a_terminal(*words, *print_contents, path)
    assert code == 0
    assert b"\\x1b[2Jkey" in seen
    assert b"\\x9b31mv\\x0dover" in seen
    assert not [acting for acting in (b"\x1b", b"\xc2\x9b", b"\r") if acting in seen]
    # A pipe gets the bytes unchanged.
    assert b"\x1b[2Jkey" in _run(*words, *print_contents, path).stdout


@pytest.mark.parametrize("wanted", ["parquet", "arrow"])
def test_binary_formats_are_refused_on_a_terminal(wanted: str) -> None:
    code, seen = _on_a_terminal("--format", wanted, "--batches", CLASSIC)
    assert code == 2
    assert seen == f"kforensics: {wanted} is not for a terminal; name a file with --output\n".encode()


def test_on_a_terminal_damage_is_reported_between_the_lines() -> None:
    _, seen = _on_a_terminal(DAMAGED / "batches" / "noise-between-0")
    words = [b"bytes" if b"could not be read" in line else line.split()[0] for line in seen.splitlines()]
    assert words == [b"Dumping", b"Log", *[b"baseOffset:"] * 3, b"bytes", *[b"baseOffset:"] * 2]


def test_on_a_terminal_damage_is_listed_in_color(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    folder = tmp_path / "a\x1b[5m-0"
    shutil.copytree(DAMAGED / "batches" / "noise-between-0", folder)
    _, seen = _on_a_terminal("--damage", folder)
    first = next(line for line in seen.splitlines() if b"-0:" in line)
    assert first.startswith(b"\x1b[31m" + rb"a\x1b[5m-0:")
    assert seen.count(b"\x1b[31m") == 1
    assert b"\x1b[5m" not in seen


def test_progress_is_shown_on_a_terminal_only(large: Path) -> None:
    assert _run("--format", "csv", "--batches", "--output", large.parent.parent / "out", large).stderr == b""


def test_the_output_is_utf8_wherever_it_runs() -> None:
    headers = SAMPLES / "records" / "broker-1" / "headers-0" / CLASSIC.name
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = _run("--format", "ndjson", "--records", headers, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "größe".encode() in done.stdout


def test_the_evidence_is_opened_for_reading_only(tmp_path: Path) -> None:
    """A file without write permission can be dumped, and its descriptor is read-only."""
    path = tmp_path / CLASSIC.name
    path.write_bytes(CLASSIC.read_bytes())
    path.chmod(0o444)
    assert _run(path).returncode == 0
    with LocalSource(path) as source, pytest.raises(OSError, match="Bad file descriptor"):
        os.write(source._descriptor, b"x")
