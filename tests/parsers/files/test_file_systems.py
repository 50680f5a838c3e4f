"""Which file system answers to a URI, and what is said where it does not; the texts are those of the libraries."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from pyarrow import fs

from kforensics.errors import InputError, InputForbiddenError, InputMissingError, UsageError
from kforensics.parsers.files.file_systems import ELSEWHERE, GONE, REFUSED, RemoteSystem, remote_system

AWS = "When reading information for key 'a/b' in bucket 'logs': AWS Error "
HEAD = " during HeadObject operation: "
GOOGLE = "google::cloud::Status("
URI = "s3://logs/a/b"


@pytest.fixture
def system() -> RemoteSystem:
    """Return a file system that nobody has failed to reach."""
    return RemoteSystem(fs.LocalFileSystem(), "/")


@pytest.mark.parametrize(
    "uri", ["file:///a", "file:///a/b%20c/", "file:///a/b%3Fc%23/d.log", "file:///", "file:///a/100%25"]
)
def test_the_path_of_a_uri_is_the_one_that_arrow_takes(uri: str) -> None:
    assert remote_system(uri).inner(uri) == fs.FileSystem.from_uri(uri)[1]


@pytest.mark.parametrize("uri", ["s3://logs", "s3://logs/", "s3://logs/a%20b/c", "s3://logs/a%3Fb", "s3://logs/a@b:c/"])
def test_the_path_of_an_object_is_the_one_that_arrow_takes(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert remote_system(uri).inner(uri) == fs.FileSystem.from_uri(f"{uri}?region=us-east-1")[1]


def test_the_path_of_an_object_of_google() -> None:
    """One who needs no credentials says so in the place of a user."""
    uri = "gs://anonymous@bucket/a%20b"
    assert remote_system(uri).inner(uri) == fs.FileSystem.from_uri(uri)[1] == "bucket/a b"


def test_a_place_has_one_file_system_until_its_settings_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    first = remote_system("s3://logs/a")
    assert remote_system("s3://logs/b/c") is first
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1/store")
    second = remote_system("s3://logs/a")
    assert second is not first
    assert second.system != first.system
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    assert remote_system("s3://logs/a").system != second.system


def test_whoever_asked_a_store_is_not_copied() -> None:
    """Asked in a process of its own, for this one has asked many."""
    code = (
        "from kforensics.parsers.files.file_systems import is_any_in_use, remote_system\n"
        "from kforensics.analyses.pool import _context\n"
        "print(is_any_in_use(), _context().get_start_method())\n"
        "remote_system('s3://logs/a')\n"
        "print(is_any_in_use(), _context().get_start_method())\n"
    )
    environment = {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    started = "fork" if sys.platform == "linux" else "spawn"
    assert ran.stdout.splitlines() == [f"False {started}", "True spawn"]


@pytest.mark.parametrize(
    "uri",
    [
        "s3://a:b@logs/x",
        "s3://a@logs/x",
        "s3://a:b/c@logs/x",
        "s3://logs/x?region=r",
        "hdfs://u:p@h:1/x",
        "gs://b/x?a=b",
    ],
)
def test_a_uri_that_holds_more_than_a_place_is_refused(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        remote_system(uri)
    said = str(caught.value)
    assert said.startswith(f"a URI of {uri.partition('://')[0]}:// holds more than a place; ")
    assert uri.partition("://")[2] not in said


FORBIDDEN, MISSING = InputForbiddenError, InputMissingError
ANSWERS: list[tuple[str, type[InputError], str]] = [
    (f"{AWS}ACCESS_DENIED (HTTP status 403){HEAD}No response body.", FORBIDDEN, REFUSED),
    (f"{AWS}UNKNOWN (HTTP status 403){HEAD}No response body.", FORBIDDEN, REFUSED),
    (f"{AWS}INVALID_ACCESS_KEY_ID{HEAD}key AKIA", FORBIDDEN, REFUSED),
    (f"{AWS}NO_SUCH_BUCKET during ListObjectsV2 operation: x", MISSING, "there is no such bucket"),
    (f"{AWS}UNKNOWN (HTTP status 301){HEAD}Looks like the region is 'r'", InputError, ELSEWHERE),
    (f"{AWS}SLOW_DOWN (HTTP status 503){HEAD}host", InputError, "the store answers SLOW_DOWN (HTTP status 503)"),
    (f"{AWS}NETWORK_CONNECTION{HEAD}curlCode: 6, Details: host", InputError, f"{GONE}: its name is not known"),
    (f"{AWS}NETWORK_CONNECTION{HEAD}curlCode: 56, Failure when receiving data", InputError, GONE),
    (f"{GOOGLE}UNAVAILABLE: last message of CURL error [7]=x)", InputError, f"{GONE}: nobody answers there"),
    (f"{GOOGLE}PERMISSION_DENIED: you@example may not)", FORBIDDEN, REFUSED),
    (f"{GOOGLE}NOT_FOUND: no)", MISSING, "there is no such file"),
    ("reading https://host:1/key failed\nand more", InputError, "reading it failed"),
]


@pytest.mark.parametrize(("text", "kind", "why"), ANSWERS)
def test_what_a_store_answers_is_a_sentence_without_names(
    text: str, kind: type[InputError], why: str, system: RemoteSystem
) -> None:
    with pytest.raises(InputError) as caught, system.asked(URI, "reading at byte 0x5 failed: "):
        raise OSError(text)
    assert type(caught.value) is kind
    assert str(caught.value) == f"cannot read {URI}: reading at byte 0x5 failed: {why}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(FileNotFoundError("[Errno 2] Path does not exist 'logs/a'"), MISSING), (PermissionError("no"), FORBIDDEN)],
)
def test_an_error_of_the_system_keeps_its_kind(raised: OSError, kind: type[InputError], system: RemoteSystem) -> None:
    with (
        pytest.raises(kind, match=r"cannot read s3://logs/a/b: (there is no such file|you may not read it)"),
        system.asked(URI),
    ):
        raise raised


def test_who_could_not_be_reached_is_not_asked_for_a_while(
    system: RemoteSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("kforensics.parsers.files.file_systems.time.monotonic", lambda: now[0])
    with pytest.raises(InputError), system.asked(URI):
        raise OSError(f"{AWS}NETWORK_CONNECTION{HEAD}curlCode: 28, Timeout was reached")
    now[0] += 9.0
    with pytest.raises(InputError, match="looking: the store cannot be reached: it does not answer in time"):
        ask(system)
    now[0] += 2.0
    ask(system)


def ask(system: RemoteSystem) -> None:
    with system.asked(URI, "looking: "):
        pass


def test_a_file_system_without_its_runtime_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop's needs Java and Hadoop's jars."""
    for name in ("HADOOP_HOME", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError) as caught:
        remote_system("hdfs://127.0.0.1:1/a")
    assert "\n" not in str(caught.value)
