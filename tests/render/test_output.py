from pathlib import Path

import pytest

from kforensics.errors import InputError, UsageError
from kforensics.render.output import check_beside, open_output


def test_a_file_appears_whole(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    with open_output(output) as out:
        out.write(b"half")
        assert not output.exists()
        out.write(b" and half")
    assert output.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, InputError("a", "b"), BrokenPipeError, ValueError], ids=repr)
def test_nothing_stays_of_a_file_that_was_not_finished(tmp_path: Path, failure: BaseException) -> None:
    with pytest.raises(BaseException) as raised, open_output(tmp_path / "out") as out:  # noqa: PT011, PT012  # Ctrl-C too
        out.write(b"half")
        raise failure
    assert raised.type in (failure, type(failure))
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_if_the_new_file_is_not_finished(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), open_output(output) as out:  # noqa: PT012  # it is what Ctrl-C does
        out.write(b"half")
        raise KeyboardInterrupt
    assert output.read_bytes() == b"before"


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    sentence = r"cannot write .*/nowhere/out: No such file .* with --output"
    with pytest.raises(UsageError, match=sentence), open_output(tmp_path / "nowhere" / "out"):
        pytest.fail("there is no such folder")


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
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
def test_an_output_beside_the_evidence_is_refused(
    evidence: Path, named: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(evidence)
    with pytest.raises(UsageError, match=r"would stand beside the evidence .*; choose another folder"):
        check_beside(Path(output), [named.format(evidence)])


@pytest.mark.parametrize("named", ["logs/t-0/0.log", "logs", "s3://bucket/key", "missing"])
def test_an_output_elsewhere_is_not_refused(evidence: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(evidence)
    (evidence / "elsewhere").mkdir()
    check_beside(evidence / "elsewhere" / "out", [named])
    check_beside(evidence / "out", [named])
    check_beside(None, [named])
