"""Logs in an object store: what is said of them is what is said of the same files here, in few requests."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforensics.errors import InputError, InputForbiddenError, InputKindError, InputMissingError
from kforensics.parsers.files import file_systems
from kforensics.parsers.files.discover import FoundFile, Unreadable, discover
from kforensics.parsers.files.read_ahead import PIECE
from kforensics.parsers.files.source import RemoteSource, open_source
from kforensics.parsers.files.window import Window
from tests.command import SAMPLES, run
from tests.parsers.builders import batches
from tests.spark.object_store import ObjectStore, free_port, object_store

BASE = "0" * 20
AS_OF = "2026-11-21T18:00"
SECOND = 1_795_284_000
CHOSEN = ["classic-transaction", "crash-before-recovery", "legacy-magic-1", "transactions-v2"]
SIZE = 40 << 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Return a server for all tests of this module."""
    with object_store(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def store(shared: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Return the server, which this process asks."""
    shared.use(monkeypatch)
    return shared


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Return a server that may be ended."""
    with object_store(tmp_path) as store:
        store.use(monkeypatch)
        yield store


def twin(sample: str, store: ObjectStore, tmp_path: Path) -> tuple[str, str]:
    """Return a sample as a local folder and as a URI; a store knows times in whole seconds."""
    here = tmp_path / sample
    shutil.copytree(SAMPLES / sample, here)
    for number, path in enumerate(sorted(here.rglob("*"))):
        os.utime(path, (SECOND, SECOND + number))
    return str(here), store.put(here)


def leaks(store: ObjectStore, text: str) -> list[str]:
    """Return which of the things that are nobody's business stand in a text."""
    named = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
    secrets = [store.environment[name].removeprefix("http://") for name in named]
    return [secret for secret in secrets if secret in text]


# The same answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("dump", "--print-data-log", "--format", "ndjson"),
        ("dump",),
        ("lso", "--as-of", AS_OF, "--format", "ndjson"),
        ("audit", "--as-of", AS_OF, "--format", "ndjson"),
        ("audit", "--as-of", AS_OF, "--records", "--processes", "2"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("sample", CHOSEN)
def test_a_command_says_of_objects_what_it_says_of_files(
    sample: str, words: tuple[str, ...], store: ObjectStore, tmp_path: Path
) -> None:
    here, uri = twin(sample, store, tmp_path)
    local, remote = run(*words, here), run(*words, uri)
    assert len(local.lines) > 1
    assert remote.text.replace(uri, here) == local.text
    assert remote.err.replace(uri, here) == local.err
    assert remote.code == local.code


def test_an_audit_keeps_neither_endpoint_nor_credentials(store: ObjectStore, tmp_path: Path) -> None:
    """Nor does it need a copy of the process, which a store's client would not survive."""
    here, uri = twin("classic-transaction", store, tmp_path)
    output = tmp_path / "evidence"
    assert run("audit", "--as-of", AS_OF, "--checksums", "--processes", "2", "--output", output, uri).code == 0
    text = (output / "manifest.json").read_text()
    assert leaks(store, text) == []
    inputs = json.loads(text)["inputs"]
    assert run("audit", "--as-of", AS_OF, "--checksums", "--output", tmp_path / "other", here).code == 0
    local = json.loads((tmp_path / "other" / "manifest.json").read_text())["inputs"]
    assert [one | {"path": one["path"].replace(uri, here)} for one in inputs] == local


def test_what_lies_in_a_bucket_is_found_in_two_calls(store: ObjectStore, tmp_path: Path) -> None:
    here, uri = twin("transactions-v2", store, tmp_path)
    before = len(store.requests())
    remote = list(discover([uri]))
    asked = Counter(store.requests()[before:])
    local = list(discover([here]))
    assert repr(remote).replace(uri, here) == repr(local)
    assert len(local) > 100
    assert asked["s3_ListObjectsV2"] == 2
    # Broker and topic ids are read from files: one request opens such a file and one reads it.
    read = sum(1 for row in local if isinstance(row, FoundFile) and row.path.endswith((".metadata", ".properties")))
    assert asked["s3_GetObject"] == read
    assert asked["s3_HeadObject"] <= read + 1


@pytest.mark.parametrize(
    "below", ["", "broker-1", "broker-1/classic-0/", f"broker-1/classic-0/{BASE}.log", "*/c*/*.log", "**/*.log"]
)
def test_a_part_of_a_bucket_is_found_as_a_part_of_a_folder(below: str, store: ObjectStore, tmp_path: Path) -> None:
    here, uri = twin("classic-transaction", store, tmp_path)
    local = list(discover([f"{here}/{below}".rstrip("/")]))
    remote = list(discover([f"{uri}/{below}".rstrip("/")]))
    assert len(local) == len([row for row in local if isinstance(row, FoundFile)]) > 0
    assert repr(remote).replace(uri, here) == repr(local)


def test_names_that_must_be_quoted(store: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "odd names #1 100%"
    folder.mkdir()
    (folder / "a b+c?.log").write_bytes(b"abc")
    store.put(folder)
    (found,) = discover(["s3://logs/odd%20names%20%231%20100%25"])
    assert found.path == "s3://logs/odd%20names%20%231%20100%25/a%20b%2Bc%3F.log"
    with open_source(found.path) as source:
        assert source.read(0, 9) == b"abc"


# Reading --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(shared: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """Return the URI of a large object, and its bytes."""
    data = random.Random(3).randbytes(SIZE)  # noqa: S311 - bytes like any other
    path = tmp_path_factory.mktemp("large") / "large.log"
    path.write_bytes(data)
    return shared.put(path), data


def test_a_large_object_is_read_in_few_requests(store: ObjectStore, large: tuple[str, bytes]) -> None:
    uri, data = large
    before = len(store.requests())
    with open_source(uri) as source:
        window = Window(source)
        pieces = [window.read(position, 1 << 20) for position in range(0, SIZE, 1 << 20)]
    assert b"".join(pieces) == data
    asked = Counter(store.requests()[before:])
    assert asked["s3_HeadObject"] == 1
    assert asked["s3_GetObject"] <= SIZE // PIECE + 6


def test_an_object_is_read_into_memory_anywhere(store: ObjectStore, large: tuple[str, bytes]) -> None:
    uri, data = large
    dice = random.Random(5)  # noqa: S311 - for places
    with open_source(uri) as source:
        for _ in range(30):
            position, length = dice.randrange(SIZE + 100), dice.randrange(100_000)
            target = bytearray(b"\xff" * length)
            got = source.read_into(position, memoryview(target))
            assert target == data[position : position + length].ljust(length, b"\xff")
            assert got == len(data[position : position + length])


def test_files_beside_a_segment_are_fetched_once(store: ObjectStore, tmp_path: Path) -> None:
    """However often they are opened."""
    here, uri = twin("crash-before-recovery", store, tmp_path)
    folder = next(Path(here).glob("**/*.txnindex")).parent
    files = [path for path in sorted(folder.iterdir()) if path.name[:20].isdigit()]
    before = len(store.requests())
    for _ in range(4):
        for path in files:
            with open_source(f"{uri}/{path.relative_to(here)}") as source:
                assert source.read(0, 1 << 20) == path.read_bytes()
                assert source.mtime_ms == path.stat().st_mtime_ns // 1_000_000
    asked = Counter(store.requests()[before:])
    assert len(files) == 4
    assert asked["s3_ListObjectsV2"] == 1
    # The first is opened by itself, before anybody knows that there will be more.
    assert asked["s3_HeadObject"] <= len(list(folder.iterdir())) + 1
    assert asked["s3_GetObject"] <= asked["s3_HeadObject"]


def test_who_looks_again_reads_what_is_there_now(store: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "changing-0"
    folder.mkdir()
    for text in (b"one", b"twofold"):
        for suffix in ("log", "index", "timeindex"):
            (folder / f"{BASE}.{suffix}").write_bytes(text)
        found = list(discover([store.put(folder)]))
        assert [contents(row.path) for row in found] == [text] * 3


def contents(uri: str) -> bytes:
    with open_source(uri) as source:
        return source.read(0, source.size)


def test_a_source_that_is_closed_says_so(store: ObjectStore, large: tuple[str, bytes]) -> None:
    source = open_source(large[0])
    source.close()
    source.close()
    with pytest.raises(InputError, match="reading at byte 0x5 failed: it is closed"):
        source.read(5, 1)


# What goes wrong ------------------------------------------------------------------------------------------------------


def failing(uri: str) -> list[InputError]:
    """Return what is said as a file is opened and as a folder is looked through; each must fail."""
    with pytest.raises(InputError) as opened:
        open_source(uri)
    (found,) = discover([uri])
    assert isinstance(found, Unreadable)
    return [opened.value, InputError(found.path, found.why)]


def test_a_missing_key(store: ObjectStore) -> None:
    opened, found = failing("s3://logs/nothing/here.log")
    assert isinstance(opened, InputMissingError)
    assert {str(opened), str(found)} == {"cannot read s3://logs/nothing/here.log: there is no such file"}


def test_a_missing_bucket(store: ObjectStore) -> None:
    opened, found = failing("s3://nobody/nothing/here.log")
    assert isinstance(opened, InputMissingError)
    assert found.why == "there is no such bucket"
    assert run("lso", "s3://nobody/x").err == "cannot read s3://nobody/x: there is no such bucket\n"


def test_a_folder_is_no_file(store: ObjectStore, tmp_path: Path) -> None:
    """A store has no folders: nothing of that name is there to be opened."""
    uri = twin("classic-transaction", store, tmp_path)[1]
    with pytest.raises(InputMissingError):
        RemoteSource(uri)
    with pytest.raises(InputKindError):
        RemoteSource(tmp_path.as_uri())


def test_wrong_credentials(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = twin("classic-transaction", store, tmp_path)[1]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    opened, found = failing(f"{uri}/truth.json")
    assert isinstance(opened, InputForbiddenError)
    assert opened.why == found.why == file_systems.REFUSED
    ended = run("audit", uri)
    assert ended.code == 3
    assert ended.err.startswith(f"cannot read {uri}: {file_systems.REFUSED}\n")
    assert leaks(store, ended.err) == []


def test_an_unknown_user(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever name the server has for it, the sentence repeats no more of its answer than that."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    (found,) = discover(["s3://logs/x"])
    assert isinstance(found, Unreadable)
    assert found.why == "the store answers XAdminUserNotFound (HTTP status 404)"


@pytest.mark.parametrize(
    "uri", ["s3://user:secret@logs/x", "s3://logs/x?endpoint_override=host:1&scheme=http", "s3://secret@logs/x"]
)
@pytest.mark.parametrize("command", ["dump", "lso", "audit"])
def test_credentials_and_settings_in_a_uri_are_refused_and_not_repeated(uri: str, command: str, tmp_path: Path) -> None:
    """Other inputs would be read, and the command would stand in the manifest."""
    output = ("--output", tmp_path / "evidence") if command == "audit" else ()
    ended = run(command, *output, SAMPLES / "classic-transaction", uri)
    assert (ended.code, ended.out) == (2, b"")
    (line,) = ended.err.splitlines()
    assert line.startswith("kforensics: a URI of s3:// holds more than a place; credentials, endpoint and region come")
    assert not {"secret", "user", "host"} & set(line.replace(":", " ").replace("@", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_that_is_no_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    opened, found = failing("s3://logs/x")
    assert opened.why == found.why == "AWS_ENDPOINT_URL holds no URL"


def test_a_store_that_is_not_there_is_asked_once(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder has hundreds of files; one that could not be reached is enough to know."""
    port = free_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    asked = []
    system = file_systems.remote_system("s3://logs/x").system
    for _ in range(50):
        asked += [error.why for error in failing("s3://logs/x")]
    assert set(asked) == {"the store cannot be reached: nobody answers there"}
    assert file_systems.remote_system("s3://logs/x").system is system


def test_a_store_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    monkeypatch.setattr(file_systems, "SILENT_SECONDS", 1)
    monkeypatch.setattr(file_systems, "ATTEMPTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        opened, found = failing("s3://logs/x")
    assert opened.why == found.why == "the store cannot be reached: it does not answer in time"


def test_a_store_may_go_while_it_is_read_and_come_back(own: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    path.write_bytes(bytes(SIZE))
    uri = own.put(path)
    with open_source(uri) as source:
        assert source.read(0, 100) == bytes(100)
        own.stop()
        with pytest.raises(InputError) as caught:
            source.read(SIZE // 2, 100)
    assert str(caught.value) == (
        f"cannot read {uri}: reading at byte {SIZE // 2:#x} failed: the store cannot be reached: nobody answers there"
    )


def test_a_dump_whose_store_goes_ends_with_a_sentence(own: ObjectStore, tmp_path: Path) -> None:
    """What was read is printed, as of a disk that breaks."""
    path = tmp_path / f"{BASE}.log"
    whole = b"".join(batches(200))
    path.write_bytes(whole * (SIZE // len(whole)))
    command = [sys.executable, "-m", "kforensics", "dump", "--format", "ndjson", "--records", own.put(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        assert json.loads(process.stdout.readline())["table"] == "records"
        own.stop()
        lines = sum(1 for _ in process.stdout)
        said = process.stderr.read().splitlines()
        assert process.wait(60) == 3
    assert 1 < lines < SIZE // len(whole) * 200
    (line,) = said
    assert line.startswith(f"cannot read s3://logs/{BASE}.log: reading at byte 0x")
    assert line.endswith("failed: the store cannot be reached: nobody answers there")
