"""Archives are read as the folders that were packed, and hostile ones as data."""

import gzip
import io
import multiprocessing
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import kforensics
from kforensics.parsers.files import archives
from kforensics.parsers.files.archives import unpacked_path
from kforensics.parsers.files.discover import FoundFile, Unreadable, discover
from kforensics.parsers.files.input_paths import UNPACKED
from kforensics.parsers.files.source import open_source
from tests.command import CLASSIC, SAMPLES, run
from tests.parsers.builders import zstd
from tests.thorough import IS_THOROUGH, some

HOUR = 1_795_400_000
AS_OF = 1_800_000_000_000
WRAPPINGS = ("tar", "tar.gz", "tgz", "tar.zst", "zip")
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    **dict.fromkeys(("gz", "tgz"), lambda data: gzip.compress(data, mtime=0)),
    "zst": zstd.compress,
}
# All samples; the golden ones are the output of tools.
SCENARIOS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")


def packed(folder: Path, archive: Path) -> Path:
    """Return an archive of a folder, named as it is."""
    kind = archive.name.partition(".")[2]
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(folder.rglob("*")):
                out.write(path, path.relative_to(folder.parent))
        return archive
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as out:
        out.add(folder, folder.name)
    archive.write_bytes(COMPRESS.get(kind.rpartition(".")[2], bytes)(content.getvalue()))
    return archive


def tar_of(archive: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(archive, "w") as out:
        for info, data in members:
            out.addfile(info, io.BytesIO(data))
    return archive


def member(name: str, data: bytes = b"", **given: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), HOUR
    for key, value in given.items():
        setattr(info, key, value)
    return info, data


def contents(path: Path | str) -> dict[str, bytes]:
    """Return the files under a path, and for each what cannot be read."""
    found = {}
    for row in discover([str(path)]):
        name = row.path.removeprefix(f"{path}")
        if isinstance(row, FoundFile):
            with open_source(row.path) as source:
                found[name] = source.read(0, source.size)
        else:
            found[name] = row.why.encode()
    return found


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an own folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that copies a sample; its files have times in whole seconds, as those of most archives."""
    folder = tmp_path_factory.mktemp("samples")

    def sample(name: str) -> Path:
        if not (folder / name).exists():
            shutil.copytree(SAMPLES / name, folder / name)
            for number, path in enumerate(sorted((folder / name).rglob("*"))):
                os.utime(path, (HOUR + 2 * number, HOUR + 2 * number))
        return folder / name

    return sample


def evidence(path: Path | str, root: str) -> dict[str, list[dict[str, object]]]:
    """Return all tables of an audit, with paths below a folder."""
    audit = kforensics.audit(path, as_of=AS_OF)
    tables = {name: [_relative(row, root) for row in table.to_pylist()] for name, table in audit.tables.items()}
    tables["incidents"].sort(key=repr)  # their ids decide between two that are equally bad
    return tables


def _relative(row: dict[str, object], root: str) -> dict[str, object]:
    # In commands, names of archives are quoted and do not begin with a dash, and the files that they write are named by
    # the path that they read. Ids of incidents depend on paths.
    row.pop("incident", None)
    quoted = re.compile(rf"'?(?:\./)?{re.escape(root)}(/[^\s'`\"]*)'?")
    written = re.compile(r"--output \S+ ")
    texts = {name: written.sub("", value) for name, value in row.items() if isinstance(value, str)}
    return {**row, **{name: quoted.sub(r"\1", text) for name, text in texts.items()}}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("scenario", some(SCENARIOS, 4, 1))
def test_an_audit_of_an_archive_finds_what_that_of_the_folder_finds(
    scenario: str, samples: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows of all tables are the same, but for the paths; of each scenario as one kind of archive, or as all."""
    folder = samples(scenario)
    expected = evidence(folder, str(folder.parent))
    assert expected["partitions"]
    kinds = ("tar.gz", "zip", "stream")
    chosen = kinds if IS_THOROUGH else (kinds[SCENARIOS.index(scenario) % 3],)
    for kind in {*chosen} - {"stream"}:
        archive = packed(folder, tmp_path / f"case.{kind}")
        assert evidence(archive, f"{archive}!") == expected
    if "stream" not in chosen:
        return
    with packed(folder, tmp_path / "stream.tar.zst").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.delitem(archives._UNPACKED, "-", raising=False)
        monkeypatch.delenv(UNPACKED, raising=False)
        assert evidence("-", "-!") == expected


@pytest.mark.parametrize("kind", WRAPPINGS)
def test_an_archive_has_the_files_of_the_folder(kind: str, samples: Callable[[str], Path], tmp_path: Path) -> None:
    """Names, kinds, sizes, times, owners and contents are the same."""
    folder = samples("groups")
    archive = packed(folder, tmp_path / f"case.{kind}")
    rows = {row.path.removeprefix(str(folder.parent)): row for row in discover([str(folder)])}
    for row in discover([str(archive)]):
        expected = rows.pop(row.path.removeprefix(f"{archive}!"))
        assert isinstance(row, FoundFile)
        assert isinstance(expected, FoundFile)
        for name in ("kind", "size", "broker_id", "topic", "partition", "base_offset", "mtime_ms", "state", "topic_id"):
            assert getattr(row, name) == getattr(expected, name)
        with open_source(row.path) as source:
            assert source.path == row.path
            assert source.read(0, source.size) == Path(expected.path).read_bytes()
    assert not rows


@pytest.mark.parametrize("command", ["lso", "scan", "forecast", "dump", "ids", "cluster", "keys"])
def test_a_command_prints_for_an_archive_what_it_prints_for_the_folder(
    command: str, samples: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = samples("transactions-v2") / "broker-1"
    archive = packed(folder, tmp_path / "case.tar.gz")
    expected = run(command, "--format", "ndjson", folder)
    ended = run(command, "--format", "ndjson", archive)
    assert ended.code == expected.code
    assert ended.text.replace(f"{archive}!", str(folder.parent)) == expected.text
    assert expected.text


def test_processes_read_what_their_parent_has_unpacked(samples: Callable[[str], Path], tmp_path: Path) -> None:
    folder = samples("groups")
    archive = packed(folder, tmp_path / "case.zip")
    expected = run("scan", folder).text
    assert run("scan", "--processes", "2", archive).text == expected
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawned) as executor:
        assert executor.submit(unpacked_path, f"{archive}!").result() == unpacked_path(f"{archive}!")


def test_a_path_may_lead_into_an_archive(samples: Callable[[str], Path], tmp_path: Path) -> None:
    """A message names it, and it can be named."""
    folder = samples("groups")
    archive = packed(folder, tmp_path / "case.tar.zst")
    (inside, *_) = sorted((folder / "broker-1").glob("__consumer_offsets-*/*.log"))
    path = f"{archive}!/{inside.relative_to(folder.parent)}"
    assert run("dump", path).text.replace(path, "") == run("dump", inside).text.replace(str(inside), "")
    glob = f"{archive}!/groups/*/__consumer_offsets-*/*.log"
    assert path in [row.path for row in discover([glob])]


def test_an_archive_in_an_archive_can_be_named(tmp_path: Path) -> None:
    inner = tar_of(tmp_path / "inner.tar", member("a", b"1"))
    outer = tar_of(tmp_path / "outer.tar", member("x/inner.tar", inner.read_bytes()))
    assert contents(f"{outer}!/x/inner.tar") == {"!/a": b"1"}


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_segment_is_its_only_file(kind: str, tmp_path: Path) -> None:
    """Its kind follows from its name without the suffix, and its time from that of the file."""
    archive = tmp_path / f"{CLASSIC.name}.{kind}"
    archive.write_bytes(COMPRESS[kind](CLASSIC.read_bytes()))
    os.utime(archive, (HOUR, HOUR))
    (row,) = discover([str(archive)])
    assert isinstance(row, FoundFile)
    assert (row.path, row.kind, row.mtime_ms) == (f"{archive}!/{CLASSIC.name}", "log", HOUR * 1000)
    assert run("dump", archive).lines[1:] == run("dump", CLASSIC).lines[1:]


def test_gzip_has_the_time_of_the_file(tmp_path: Path) -> None:
    archive = tmp_path / "a.log.gz"
    archive.write_bytes(gzip.compress(b"x", mtime=HOUR))
    (row,) = discover([str(archive)])
    assert isinstance(row, FoundFile)
    assert row.mtime_ms == HOUR * 1000


def test_times_keep_their_ms(tmp_path: Path) -> None:
    """A float has too few digits for all of them."""
    names = [f"{number:03}" for number in range(1000)]
    archive = tar_of(tmp_path / "a.tar", *(member(name, pax_headers={"mtime": f"{HOUR}.{name}"}) for name in names))
    assert [row.mtime_ms for row in discover([str(archive)]) if isinstance(row, FoundFile)] == [
        HOUR * 1000 + number for number in range(1000)
    ]


def test_zip_has_the_time_in_utc_where_it_has_it(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("a", (2001, 1, 1, 0, 0, 0))
    info.extra = b"\x01\x00\x02\x00zz" + b"UT\x05\x00\x01" + HOUR.to_bytes(4, "little")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr(info, b"")
    (row,) = discover([str(tmp_path / "a.zip")])
    assert isinstance(row, FoundFile)
    assert row.mtime_ms == HOUR * 1000


def test_a_log_on_standard_input_has_the_name_of_a_log() -> None:
    command = [sys.executable, "-m", "kforensics", "lso", "--format", "ndjson", "-"]
    ended = subprocess.run(command, input=CLASSIC.read_bytes(), capture_output=True, check=False)
    assert ended.stdout
    assert b"last_stable_offset" in ended.stdout
    again = subprocess.run([*command[:-1], "./-!/"], input=CLASSIC.read_bytes(), capture_output=True, check=False)
    assert again.stdout == ended.stdout
    dumped = subprocess.run([*command[:3], "dump", "-"], input=CLASSIC.read_bytes(), capture_output=True, check=True)
    assert dumped.stdout.startswith(b"Dumping -!/00000000000000000000.log\n")


def test_a_folder_that_is_called_as_an_archive_is_a_folder(tmp_path: Path) -> None:
    for name in ("case.tar", "other.tar!"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(b"1")
        assert contents(tmp_path / name) == {"/a": b"1"}


@pytest.mark.parametrize("inside", ["", "!/groups/broker-1"])
def test_results_may_be_written_beside_an_archive_and_not_in_its_place(
    inside: str, samples: Callable[[str], Path], tmp_path: Path
) -> None:
    archive = packed(samples("groups"), tmp_path / "case.tar")
    data = archive.read_bytes()
    assert run("scan", f"{archive}{inside}", "--output", tmp_path / "scan.txt").code == 0
    ended = run("scan", f"{archive}{inside}", "--output", archive)
    assert (ended.code, f"{archive} would be among the evidence" in ended.err) == (2, True)
    assert archive.read_bytes() == data


# Hostile archives ----------------------------------------------------------------------------------------------------


def test_nothing_is_written_outside(tmp_path: Path, unpacked: Path) -> None:
    """Names that lead out, links and devices are reported, and absolute names are below the archive."""
    archive = tar_of(
        tmp_path / "a.tar",
        member("../up", b"1"),
        member("x/../../up", b"1"),
        member(f"{tmp_path}/absolute", b"2"),
        member("link", type=tarfile.SYMTYPE, linkname=str(tmp_path)),
        member("link/through", b"3"),
        member("hard", type=tarfile.LNKTYPE, linkname="../a.tar"),
        member("same", type=tarfile.LNKTYPE, linkname="link/through"),
        member("device", type=tarfile.CHRTYPE),
        member("pipe", type=tarfile.FIFOTYPE),
    )
    assert contents(archive) == {
        "!/../up": b"its name leads out of the archive",
        "!/x/../../up": b"its name leads out of the archive",
        f"!{tmp_path}/absolute": b"2",
        "!/link": f"it is a link to {tmp_path}, and links of archives are not followed".encode(),
        "!/link/through": b"3",
        "!/hard": b"it is a link to ../a.tar, which is not in the archive before it",
        "!/same": b"3",
        "!/device": b"it is a device, not a file",
        "!/pipe": b"it is a pipe, not a file",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "temporary"]
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in unpacked.iterdir()}
    assert modes == {0}


def test_the_last_of_two_entries_is_read_and_the_other_reported(tmp_path: Path) -> None:
    archive = tar_of(tmp_path / "a.tar", member("a", b"1"), member("a", b"22"), member("a/b", b"3"))
    rows = list(discover([str(archive)]))
    assert [row.why for row in rows if isinstance(row, Unreadable)] == [archives.TWICE, archives.IN_THE_WAY]
    (file,) = [row for row in rows if isinstance(row, FoundFile)]
    assert file.size == 2


def test_an_entry_without_a_name_is_reported(tmp_path: Path, unpacked: Path) -> None:
    """A reader of zip ends a name at its first zero."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("?a", b"1")
        out.writestr("b", b"3")
    (tmp_path / "a.zip").write_bytes((tmp_path / "a.zip").read_bytes().replace(b"?a", b"\0a"))
    tar = tar_of(tmp_path / "a.tar", member("", b"1"), member("b", b"3"))
    for archive in (tmp_path / "a.zip", tar):
        assert contents(archive) == {"": b"an entry has no name", "!/b": b"3"}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.zst"])
def test_an_archive_that_was_cut_is_read_up_to_there(kind: str, tmp_path: Path, unpacked: Path) -> None:
    """At every length it is a prefix of the files, and a sentence."""
    folder = tmp_path / "folder"
    folder.mkdir()
    whole = {f"!/folder/{name}": name.encode() * 3000 for name in "abc"}
    for name, data in whole.items():
        (folder / name[-1]).write_bytes(data)
    data = packed(folder, tmp_path / f"whole.{kind}").read_bytes()
    # The zeros behind the entries of a tar may end anywhere.
    content = 3 * (512 + 3072) + 512 if kind == "tar" else len(data)
    for length in {*range(512 if kind == "tar" else 20, content, 97), *range(content - 12, content)}:
        archive = tmp_path / f"{length}.{kind}"
        archive.write_bytes(data[:length])
        rows = list(discover([str(archive)]))
        assert [row for row in rows if isinstance(row, Unreadable)]
        for row in rows:
            if isinstance(row, FoundFile):
                with open_source(row.path) as source:
                    assert whole[row.path.removeprefix(str(archive))].startswith(source.read(0, source.size))


def test_a_cut_archive_makes_the_exit_code_3_and_is_analyzed(samples: Callable[[str], Path], tmp_path: Path) -> None:
    archive = packed(samples("groups"), tmp_path / "case.tar.gz")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    ended = run("scan", archive)
    assert ended.code == 3
    assert f"cannot read {archive}: the compressed data end in the middle; copy the file again\n" in ended.err
    assert "__consumer_offsets-0\n" in ended.text


def test_damaged_archives_end_in_sentences(tmp_path: Path, unpacked: Path) -> None:
    """Whatever bytes are changed, there are rows, and no other error."""
    dice = random.Random(23)  # noqa: S311  # the same every time
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in "ab":
        (folder / name).write_bytes(dice.randbytes(700))
    for kind in WRAPPINGS:
        data = packed(folder, tmp_path / f"whole.{kind}").read_bytes()
        for number in range(40):
            changed = bytearray(data)
            for _ in range(dice.randint(1, 8)):
                changed[dice.randrange(len(changed))] = dice.randrange(256)
            archive = tmp_path / f"{number}.{kind}"
            archive.write_bytes(changed)
            assert list(discover([str(archive)]))


def test_a_bomb_ends_at_the_limit(tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.LIMIT_VARIABLE, "1M")
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        for name in "abcd":
            info, data = member(name, b"x" * (1 << 19))
            out.addfile(info, io.BytesIO(data))
    ended = run("dump", archive)
    assert ended.code == 3
    why = "it unpacks to more than 1,048,576 bytes, and the rest is left out; set TMPDIR"
    assert f"cannot read {archive}: {why}" in ended.err
    assert sum(path.stat().st_size for path in unpacked.rglob("*") if path.is_file()) < 2 << 20


def test_zeros_become_holes_and_have_a_limit_too(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(archives.LIMIT_VARIABLE, "1M")
    small = tmp_path / "a.index.zst"
    small.write_bytes(zstd.compress(bytes(10 << 20)))
    (row,) = discover([str(small)])
    assert isinstance(row, FoundFile)
    assert row.size == 10 << 20
    assert sum(path.stat().st_blocks for path in unpacked.rglob("*.index")) == 0
    large = tmp_path / "b.index.zst"
    large.write_bytes(zstd.compress(bytes(20 << 20)))
    assert any(isinstance(row, Unreadable) and "unpacks to more" in row.why for row in discover([str(large)]))


def test_a_header_without_end_is_not_read_into_memory(tmp_path: Path, unpacked: Path) -> None:
    """The length of a header of pax is the archive's."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    archive = tmp_path / "a.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(17 << 20))
    (row,) = discover([str(archive)])
    assert isinstance(row, Unreadable)
    # Later releases of Python read it in pieces.
    assert re.search("a header has (1099511627776|more than 16777216) bytes", row.why)


def test_a_size_that_is_no_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.LIMIT_VARIABLE, "much")
    ended = run("dump", tar_of(tmp_path / "a.tar", member("a")))
    assert ended.code == 2
    assert "write a number and K, M, G or T, as in 500G" in ended.err


def test_what_is_no_archive_is_reported(tmp_path: Path) -> None:
    for kind, name in (("gz", "gzip"), ("zst", "zstd"), ("zip", "zip"), ("tar", "tar")):
        archive = tmp_path / f"a.{kind}"
        archive.write_bytes(b"nothing" * 100)
        (row,) = discover([str(archive)])
        assert row == Unreadable(str(archive), f"its name ends in .{kind}, but it is not {name}")


@pytest.fixture
def waiting(samples: Callable[[str], Path], tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a command that has unpacked an archive, and waits for what reads its output."""
    archive, temporary = packed(samples("groups"), tmp_path / "case.tar.gz"), tmp_path / "temporary"
    temporary.mkdir()
    code = "import sys, kforensics.cli; sys.argv = sys.argv[1:]; kforensics.cli.main()"
    command = [sys.executable, "-c", code, "kforensics", "dump", "--print-data-log", str(archive)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    null = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=null, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.read(100)
        assert list(temporary.iterdir())
        yield process, temporary
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_stays_after_a_signal(waiting: tuple[subprocess.Popen[bytes], Path], number: signal.Signals) -> None:
    process, temporary = waiting
    process.send_signal(number)
    process.communicate()
    assert not list(temporary.iterdir())


def test_what_a_killed_process_leaves_is_removed_by_the_next(
    waiting: tuple[subprocess.Popen[bytes], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a living one has stays."""
    process, temporary = waiting
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (left,) = temporary.iterdir()
    contents(tar_of(tmp_path / "a.tar", member("a")))
    assert left.exists()
    process.kill()
    process.wait()
    contents(tar_of(tmp_path / "b.tar", member("b")))
    assert not left.exists()
