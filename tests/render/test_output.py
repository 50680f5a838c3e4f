from pathlib import Path

import pytest

from kforensics.errors import InputError, UsageError
from kforensics.render.output import check_output, open_output


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    with open_output(output) as out:
        out.write(b"half")
        assert not output.exists()
        out.write(b" and half")
    assert output.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, InputError("a", "b"), BrokenPipeError, ValueError], ids=repr)
def test_an_unfinished_file_is_removed(tmp_path: Path, failure: BaseException) -> None:
    with pytest.raises(BaseException) as raised, open_output(tmp_path / "out") as out:  # noqa: PT011, PT012  # Ctrl-C too
        out.write(b"half")
        raise failure
    assert raised.type in (failure, type(failure))
    assert list(tmp_path.iterdir()) == []


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


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Return a log directory with one partition, and a link to it."""
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    (folder / "0.log").write_bytes(b"")
    (tmp_path / "logs" / "meta.properties").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    (tmp_path / "linked.log").symlink_to(folder / "0.log")
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
