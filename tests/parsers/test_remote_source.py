"""Logs in an object store: the same results as for local files, with few requests."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from kforensics.errors import InputError, InputForbiddenError, InputKindError, InputMissingError
from kforensics.parsers.files import file_systems
from kforensics.parsers.files.discover import FoundFile, Unreadable, discover
from kforensics.parsers.files.remote_prefetch import REQUEST_BYTES
from kforensics.parsers.files.source import RemoteSource, Window, open_source
from tests.command import SAMPLES, run
from tests.parsers.builders import batches
from tests.spark.object_store import ObjectStore, free_port, object_store
from tests.thorough import some

pytestmark = pytest.mark.slow

BASE = "0" * 20
AS_OF = "2026-11-21T18:00"
SECOND = 1_795_284_000
CHOSEN = ["classic-transaction", "crash-before-recovery", "legacy-magic-1", "transactions-v2"]
SIZE = 40 << 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Return a store for all tests of this module."""
    with object_store(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def store(shared: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Return the store with this process configured to use it."""
    shared.use(monkeypatch)
    return shared


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Return a store that the test may stop."""
    with object_store(tmp_path) as store:
        store.use(monkeypatch)
        yield store


def local_and_remote(sample: str, store: ObjectStore, tmp_path: Path) -> tuple[str, str]:
    """Return a sample as a local folder and as a URI; a store has modification times in whole seconds."""
    here = tmp_path / sample
    shutil.copytree(SAMPLES / sample, here)
    for number, path in enumerate(sorted(here.rglob("*"))):
        os.utime(path, (SECOND, SECOND + number))
    return str(here), store.put(here)


def leaks(store: ObjectStore, text: str) -> list[str]:
    """Return the secrets that a text contains."""
    named = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
    secrets = [store.environment[name].removeprefix("http://") for name in named]
    return [secret for secret in secrets if secret in text]


# Same results -----------------------------------------------------------------------------------------------------


COMMANDS = (
    ("dump", "--print-data-log", "--format", "ndjson"),
    ("dump",),
    ("lso", "--as-of", AS_OF, "--format", "ndjson"),
    ("audit", "--as-of", AS_OF, "--format", "ndjson"),
    ("audit", "--as-of", AS_OF, "--records", "--processes", "2"),
)


@pytest.mark.parametrize(
    ("sample", "arguments"),
    some([*product(CHOSEN, COMMANDS)], 2),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_prints_the_same_for_objects_as_for_files(
    sample: str, arguments: tuple[str, ...], store: ObjectStore, tmp_path: Path
) -> None:
    here, uri = local_and_remote(sample, store, tmp_path)
    local, remote = run(*arguments, here), run(*arguments, uri)
    assert len(local.lines) > 1
    assert _without_incident_ids(remote.text.replace(uri, here)) == _without_incident_ids(local.text)
    assert remote.err.replace(uri, here) == local.err
    assert remote.code == local.code


def _without_incident_ids(text: str) -> str:
    """Return text without the ids of incidents, which follow from the paths."""
    return re.sub(r'(?<="incident":")[0-9a-f]{10}|(?<=[a-z] )[0-9a-f]{10}(?=[,\n])', "", text)


def test_an_audit_stores_neither_endpoint_nor_credentials(store: ObjectStore, tmp_path: Path) -> None:
    """It does not fork either, which a store client would not survive."""
    here, uri = local_and_remote("classic-transaction", store, tmp_path)
    output = tmp_path / "evidence"
    assert run("audit", "--as-of", AS_OF, "--checksums", "--processes", "2", "--output", output, uri).code == 0
    text = (output / "manifest.json").read_text()
    assert leaks(store, text) == []
    inputs = json.loads(text)["inputs"]
    assert run("audit", "--as-of", AS_OF, "--checksums", "--output", tmp_path / "other", here).code == 0
    local = json.loads((tmp_path / "other" / "manifest.json").read_text())["inputs"]
    assert [row | {"path": row["path"].replace(uri, here)} for row in inputs] == local


def test_a_bucket_is_listed_in_two_requests(store: ObjectStore, tmp_path: Path) -> None:
    here, uri = local_and_remote("transactions-v2", store, tmp_path)
    before = len(store.requests())
    remote = list(discover([uri]))
    requests = Counter(store.requests()[before:])
    local = list(discover([here]))
    assert repr(remote).replace(uri, here) == repr(local)
    assert len(local) > 100
    assert requests["s3_ListObjectsV2"] == 2
    # Broker and topic ids are read from files: one request opens a file and one reads it.
    read = sum(1 for row in local if isinstance(row, FoundFile) and row.path.endswith((".metadata", ".properties")))
    assert requests["s3_GetObject"] == read
    assert requests["s3_HeadObject"] <= read + 1


@pytest.mark.parametrize(
    "below", ["", "broker-1", "broker-1/classic-0/", f"broker-1/classic-0/{BASE}.log", "*/c*/*.log", "**/*.log"]
)
def test_a_part_of_a_bucket_is_found_like_a_part_of_a_folder(below: str, store: ObjectStore, tmp_path: Path) -> None:
    here, uri = local_and_remote("classic-transaction", store, tmp_path)
    local = list(discover([f"{here}/{below}".rstrip("/")]))
    remote = list(discover([f"{uri}/{below}".rstrip("/")]))
    assert len(local) == len([row for row in local if isinstance(row, FoundFile)]) > 0
    assert repr(remote).replace(uri, here) == repr(local)


def test_names_that_must_be_quoted(store: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "odd names #1 100%"
    folder.mkdir()
    (folder / "a b+c?.log").write_bytes(b"abc")
    store.put(folder)
    (file,) = discover(["s3://logs/odd%20names%20%231%20100%25"])
    assert file.path == "s3://logs/odd%20names%20%231%20100%25/a%20b%2Bc%3F.log"
    with open_source(file.path) as source:
        assert source.read(0, 9) == b"abc"


# Reading -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(shared: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """Return the URI of a large object, and its bytes."""
    data = random.Random(3).randbytes(SIZE)  # noqa: S311 - test data
    path = tmp_path_factory.mktemp("large") / "large.log"
    path.write_bytes(data)
    return shared.put(path), data


def test_a_large_object_is_read_in_few_requests(store: ObjectStore, large: tuple[str, bytes]) -> None:
    uri, data = large
    before = len(store.requests())
    with open_source(uri) as source:
        window = Window(source)
        chunks = [window.read(position, 1 << 20) for position in range(0, SIZE, 1 << 20)]
    assert b"".join(chunks) == data
    requests = Counter(store.requests()[before:])
    assert requests["s3_HeadObject"] == 1
    assert requests["s3_GetObject"] <= SIZE // REQUEST_BYTES + 6


def test_any_range_of_an_object_is_read_into_memory(store: ObjectStore, large: tuple[str, bytes]) -> None:
    uri, data = large
    dice = random.Random(5)  # noqa: S311 - positions
    with open_source(uri) as source:
        for _ in range(30):
            position, length = dice.randrange(SIZE + 100), dice.randrange(100_000)
            target = bytearray(b"\xff" * length)
            got = source.read_into(position, memoryview(target))
            assert target == data[position : position + length].ljust(length, b"\xff")
            assert got == len(data[position : position + length])


def test_companion_files_of_a_segment_are_fetched_once(store: ObjectStore, tmp_path: Path) -> None:
    """However often they are opened."""
    here, uri = local_and_remote("crash-before-recovery", store, tmp_path)
    folder = next(Path(here).glob("**/*.txnindex")).parent
    files = [path for path in sorted(folder.iterdir()) if path.name[:20].isdigit()]
    before = len(store.requests())
    for _ in range(4):
        for path in files:
            with open_source(f"{uri}/{path.relative_to(here)}") as source:
                assert source.read(0, 1 << 20) == path.read_bytes()
                assert source.mtime_ms == path.stat().st_mtime_ns // 1_000_000
    requests = Counter(store.requests()[before:])
    assert len(files) == 4
    assert requests["s3_ListObjectsV2"] == 1
    # The first file is opened separately; prefetching begins with the second one.
    assert requests["s3_HeadObject"] <= len(list(folder.iterdir())) + 1
    assert requests["s3_GetObject"] <= requests["s3_HeadObject"]


def test_a_new_listing_reads_the_current_files(store: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "changing-0"
    folder.mkdir()
    for text in (b"one", b"twofold"):
        for suffix in ("log", "index", "timeindex"):
            (folder / f"{BASE}.{suffix}").write_bytes(text)
        files = list(discover([store.put(folder)]))
        assert [contents(row.path) for row in files] == [text] * 3


def contents(uri: str) -> bytes:
    with open_source(uri) as source:
        return source.read(0, source.size)


def test_reading_a_closed_source_is_an_error(store: ObjectStore, large: tuple[str, bytes]) -> None:
    source = open_source(large[0])
    source.close()
    source.close()
    with pytest.raises(InputError, match="reading at byte 0x5 failed: the file is closed"):
        source.read(5, 1)


# Errors ------------------------------------------------------------------------------------------------------


def failing(uri: str) -> list[InputError]:
    """Return the errors of opening a URI and of discovering files under it; both must fail."""
    with pytest.raises(InputError) as opened:
        open_source(uri)
    (row,) = discover([uri])
    assert isinstance(row, Unreadable)
    return [opened.value, InputError(row.path, row.why)]


def test_a_missing_key(store: ObjectStore) -> None:
    opened, discovered = failing("s3://logs/nothing/here.log")
    assert isinstance(opened, InputMissingError)
    assert {str(opened), str(discovered)} == {"cannot read s3://logs/nothing/here.log: there is no such file"}


def test_a_missing_bucket(store: ObjectStore) -> None:
    opened, discovered = failing("s3://nobody/nothing/here.log")
    assert isinstance(opened, InputMissingError)
    assert discovered.why == "there is no such bucket"
    assert run("lso", "s3://nobody/x").err == "cannot read s3://nobody/x: there is no such bucket\n"


def test_a_folder_is_not_a_file(store: ObjectStore, tmp_path: Path) -> None:
    """A store has no folders, so there is no object of that name to open."""
    uri = local_and_remote("classic-transaction", store, tmp_path)[1]
    with pytest.raises(InputMissingError):
        RemoteSource(uri)
    with pytest.raises(InputKindError):
        RemoteSource(tmp_path.as_uri())


def test_wrong_credentials(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = local_and_remote("classic-transaction", store, tmp_path)[1]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    opened, discovered = failing(f"{uri}/truth.json")
    assert isinstance(opened, InputForbiddenError)
    assert opened.why == discovered.why == file_systems.REFUSED_CREDENTIALS
    ended = run("audit", uri)
    assert ended.code == 3
    assert ended.err.startswith(f"cannot read {uri}: {file_systems.REFUSED_CREDENTIALS}\n")
    assert leaks(store, ended.err) == []


def test_an_unknown_user(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message repeats only the error name of the response."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    (row,) = discover(["s3://logs/x"])
    assert isinstance(row, Unreadable)
    assert row.why == "the store answers XAdminUserNotFound (HTTP status 404)"


@pytest.mark.parametrize(
    "uri", ["s3://user:secret@logs/x", "s3://logs/x?endpoint_override=host:1&scheme=http", "s3://secret@logs/x"]
)
@pytest.mark.parametrize("command", ["dump", "lso", "audit"])
def test_credentials_and_settings_in_a_uri_are_refused_and_not_repeated(uri: str, command: str, tmp_path: Path) -> None:
    """Otherwise other inputs would be read, and the command would be in the manifest."""
    output = ("--output", tmp_path / "evidence") if command == "audit" else ()
    ended = run(command, *output, SAMPLES / "classic-transaction", uri)
    assert (ended.code, ended.out) == (2, b"")
    (line,) = ended.err.splitlines()
    assert line.startswith("kforensics: s3:// URIs may contain only a location; credentials, endpoint and region come")
    assert not {"secret", "user", "host"} & set(line.replace(":", " ").replace("@", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_that_is_not_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    opened, discovered = failing("s3://logs/x")
    assert opened.why == discovered.why == "AWS_ENDPOINT_URL is not a URL"


def test_an_unreachable_store_is_contacted_once(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder has hundreds of files; one failed request is enough."""
    port = free_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    reasons = []
    system = file_systems.remote_system("s3://logs/x").system
    for _ in range(50):
        reasons += [error.why for error in failing("s3://logs/x")]
    assert set(reasons) == {"the store cannot be reached: connection failed"}
    assert file_systems.remote_system("s3://logs/x").system is system


def test_a_store_that_does_not_respond_times_out(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    monkeypatch.setattr(file_systems, "REQUEST_SECONDS", 1)
    monkeypatch.setattr(file_systems, "ATTEMPTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        opened, discovered = failing("s3://logs/x")
    assert opened.why == discovered.why == "the store cannot be reached: timed out"


def test_a_store_that_stops_during_a_read(own: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    path.write_bytes(bytes(SIZE))
    uri = own.put(path)
    with open_source(uri) as source:
        assert source.read(0, 100) == bytes(100)
        own.stop()
        with pytest.raises(InputError) as caught:
            source.read(SIZE // 2, 100)
    assert str(caught.value) == (
        f"cannot read {uri}: reading at byte {SIZE // 2:#x} failed: the store cannot be reached: connection failed"
    )


def test_a_dump_whose_store_stops_ends_with_an_error(own: ObjectStore, tmp_path: Path) -> None:
    """Records read before are printed, as with a failing disk."""
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
        errors = process.stderr.read().splitlines()
        assert process.wait(60) == 3
    assert 1 < lines < SIZE // len(whole) * 200
    (message,) = (json.loads(error)["error"]["message"] for error in errors)
    assert message.startswith(f"cannot read s3://logs/{BASE}.log: reading at byte 0x")
    assert message.endswith("failed: the store cannot be reached: connection failed")
