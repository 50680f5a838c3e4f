import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kforensics.errors import EngineError, InputError, OutputClosedError, UsageError
from kforensics.render.evidence_store import EvidenceStore
from kforensics.render.output import check_output, claimed, open_output, part_path
from kforensics.render.staged_store import StagedStore


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    with open_output(output) as out:
        out.write(b"half")
        assert not output.exists()
        out.write(b" and half")
    assert output.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, InputError("a", "b"), ValueError], ids=repr)
def test_an_unfinished_file_is_removed(tmp_path: Path, failure: BaseException) -> None:
    with pytest.raises(BaseException) as raised, open_output(tmp_path / "out") as out:  # noqa: PT011, PT012  # Ctrl-C too
        out.write(b"half")
        raise failure
    assert raised.type in (failure, type(failure))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("create", [claimed, open_output, EvidenceStore, StagedStore])
def test_ctrl_c_at_any_moment_leaves_nothing(
    create: Callable[[Any], AbstractContextManager[object]], tmp_path: Path
) -> None:
    """Between any two steps of the interpreter, from the call until the block begins."""
    output = tmp_path / "output"
    for step in count():
        is_begun = _is_begun(lambda: create(str(output) if create is StagedStore else output), step)
        assert list(tmp_path.iterdir()) == [], step
        if is_begun:
            assert step > 100
            break


def _is_begun(create: Callable[[], AbstractContextManager[object]], step: int) -> bool:
    """Return whether the block of a context began before that many steps, at which Ctrl-C is sent, were done."""
    steps = count()

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(
            ("render/output.py", "render/evidence_store.py", "render/staged_store.py", "contextlib.py")
        ):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == step:
            signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with create():
            sys.settrace(before)
            raise RuntimeError
    except RuntimeError:
        return True
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)


def test_an_existing_file_stays_if_the_new_one_is_unfinished(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), open_output(output) as out:  # noqa: PT012  # it is what Ctrl-C does
        out.write(b"half")
        raise KeyboardInterrupt
    assert output.read_bytes() == b"before"


def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    sentence = r"cannot write .*/nowhere/out: No such file .* for --output"
    with pytest.raises(UsageError, match=sentence), open_output(tmp_path / "nowhere" / "out"):
        pytest.fail("there is no such folder")


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: No space left on device"), open_output(tmp_path / "o"):
        raise OSError(28, "No space left on device")


def test_a_pipe_that_breaks_between_processes_is_no_closed_output(tmp_path: Path) -> None:
    """A command that ends quietly with 0 because a process of its pool died would hide what it had not examined."""
    with pytest.raises(EngineError, match="a connection between processes broke"), open_output(tmp_path / "out"):
        raise BrokenPipeError(32, "Broken pipe")
    assert list(tmp_path.iterdir()) == []


def test_a_named_pipe_stays_and_its_reader_gets_the_output(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(pipe) as out:
        out.write(b"all")
    assert os.read(reader, 9) == b"all"
    with pytest.raises(OutputClosedError), open_output(pipe) as out:  # noqa: PT012  # the reader leaves in between
        os.close(reader)
        out.write(b"more")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may create a device, or replace one")
def test_a_device_stays(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    with open_output(device) as out:
        out.write(b"nothing")
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert list(tmp_path.iterdir()) == [device]


def test_the_target_of_a_link_is_replaced_in_its_own_folder(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    (there / "out").write_bytes(b"before")
    link.symlink_to(Path("there", "out"))
    with open_output(link) as out:
        out.write(b"after")
        assert (there / "out").read_bytes() == b"before"
        assert len(list(there.iterdir())) == 2
    assert link.is_symlink()
    assert (there / "out").read_bytes() == b"after"
    (there / "out").unlink()
    with open_output(link) as out:
        out.write(b"new")
    assert (there / "out").read_bytes() == b"new"


def test_an_open_file_is_appended_to(tmp_path: Path) -> None:
    """``--output /dev/stdout >>file`` keeps what the file had; a link of our own, as a failure could replace it."""
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    script = "from pathlib import Path; from kforensics.render.output import open_output\n"
    script += f"with open_output(Path({str(tmp_path / 'stdout')!r})) as out: out.write(b'and more')"
    (tmp_path / "log").write_bytes(b"before, ")
    with (tmp_path / "log").open("ab") as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True, timeout=60)
    assert (tmp_path / "log").read_bytes() == b"before, and more"


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.touch(0o600)
    with open_output(output) as out:
        assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600, 0o600]
        out.write(b"secret")
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [".", "/", "", "./", "folder", "folder/../folder", "link"])
def test_a_folder_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(UsageError, match="it is a folder; name a file with --output"), open_output(Path(name)):
        pytest.fail("a folder is no file")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "link"]


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="Too many levels of symbolic links"), open_output(tmp_path / "loop"):
        pytest.fail("it leads nowhere")


def test_only_what_was_abandoned_is_removed(tmp_path: Path) -> None:
    """A process that was killed leaves its file; one that still writes, another user and another target keep theirs."""
    host = part_path(tmp_path / "out").name.split(".")[2].partition("-")[0]
    abandoned, others = tmp_path / f".out.{host}-1-0123abcd.part", tmp_path / f".other.{host}-1-0123abcd.part"
    for path in (abandoned, others, tmp_path / ".out.part"):
        path.touch()
    with open_output(tmp_path / "out") as first, open_output(tmp_path / "out") as second:
        assert not abandoned.exists()
        first.write(b"first")
        second.write(b"second")
        assert len(list(tmp_path.iterdir())) == 4
    assert (tmp_path / "out").read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [others.name, ".out.part", "out"]


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Return a log directory with one partition, and a link to it."""
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    (folder / "0.log").write_bytes(b"")
    (tmp_path / "logs" / "meta.properties").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    (tmp_path / "linked.log").symlink_to(folder / "0.log")
    (tmp_path / "into").symlink_to(folder / "new")
    return tmp_path


@pytest.mark.parametrize(
    ("named", "output"),
    [
        ("logs/t-0/0.log", "logs/t-0/out"),
        ("logs/t-0", "logs/t-0/out"),
        ("logs/t-0", "logs/out"),
        ("logs", "logs/t-0/out"),
        ("logs/*/0.log", "logs/t-0/out"),
        ("link/t-0/0.log", "logs/t-0/out"),
        ("logs/t-0/0.log", "link/t-0/out"),
        ("linked.log", "logs/t-0/out"),
        ("linked.log", "out"),
        ("logs", "into"),
        ("file://{}/logs/t-0/0.log", "logs/t-0/out"),
    ],
)
def test_an_output_among_the_evidence_is_refused(
    evidence: Path, named: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(evidence)
    with pytest.raises(UsageError, match=r"would be among the evidence .*; choose another folder"):
        check_output(Path(output), [named.format(evidence)])


@pytest.mark.parametrize("named", ["logs/t-0/0.log", "logs", "s3://bucket/key", "missing"])
def test_an_output_elsewhere_is_accepted(evidence: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(evidence)
    (evidence / "elsewhere").mkdir()
    check_output(evidence / "elsewhere" / "out", [named])
    check_output(evidence / "out", [named])
    check_output(None, [named])
