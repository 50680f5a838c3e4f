"""File systems of URIs, and the translation of their errors; the original texts are those of the libraries."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from pyarrow import fs

from kforensics.errors import InputError, InputForbiddenError, InputMissingError, UsageError
from kforensics.parsers.files.file_systems import (
    OTHER_REGION,
    REFUSED_CREDENTIALS,
    UNREACHABLE,
    RemoteSystem,
    remote_system,
)

AWS = "When reading information for key 'a/b' in bucket 'logs': AWS Error "
HEAD = " during HeadObject operation: "
GOOGLE = "google::cloud::Status("
URI = "s3://logs/a/b"


@pytest.fixture
def system() -> RemoteSystem:
    """Return a file system that is not marked as unreachable."""
    return RemoteSystem(fs.LocalFileSystem(), "/")


@pytest.mark.parametrize(
    "uri", ["file:///a", "file:///a/b%20c/", "file:///a/b%3Fc%23/d.log", "file:///", "file:///a/100%25"]
)
def test_the_path_of_a_uri_is_that_of_arrow(uri: str) -> None:
    assert remote_system(uri).inner_path(uri) == fs.FileSystem.from_uri(uri)[1]


@pytest.mark.parametrize("uri", ["s3://logs", "s3://logs/", "s3://logs/a%20b/c", "s3://logs/a%3Fb", "s3://logs/a@b:c/"])
def test_the_path_of_an_object_is_that_of_arrow(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert remote_system(uri).inner_path(uri) == fs.FileSystem.from_uri(f"{uri}?region=us-east-1")[1]


def test_the_path_of_a_google_object() -> None:
    """Anonymous access is requested in the user part."""
    uri = "gs://anonymous@bucket/a%20b"
    assert remote_system(uri).inner_path(uri) == fs.FileSystem.from_uri(uri)[1] == "bucket/a b"


def test_a_bucket_has_one_file_system_until_its_settings_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    first = remote_system("s3://logs/a")
    assert remote_system("s3://logs/b/c") is first
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1/store")
    second = remote_system("s3://logs/a")
    assert second is not first
    assert second.system != first.system
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    assert remote_system("s3://logs/a").system != second.system


def test_a_process_with_a_store_client_is_not_forked() -> None:
    """Runs in its own process, because this one has created clients."""
    code = (
        "from kforensics.parsers.files.file_systems import has_remote_clients, remote_system\n"
        "from kforensics.analyses.pool import _context\n"
        "print(has_remote_clients(), _context().get_start_method())\n"
        "remote_system('s3://logs/a')\n"
        "print(has_remote_clients(), _context().get_start_method())\n"
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
def test_a_uri_with_more_than_a_location_is_refused(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        remote_system(uri)
    message = str(caught.value)
    assert message.startswith(f"{uri.partition('://')[0]}:// URIs may contain only a location; ")
    assert uri.partition("://")[2] not in message


FORBIDDEN, MISSING = InputForbiddenError, InputMissingError
ANSWERS: list[tuple[str, type[InputError], str]] = [
    (f"{AWS}ACCESS_DENIED (HTTP status 403){HEAD}No response body.", FORBIDDEN, REFUSED_CREDENTIALS),
    (f"{AWS}UNKNOWN (HTTP status 403){HEAD}No response body.", FORBIDDEN, REFUSED_CREDENTIALS),
    (f"{AWS}INVALID_ACCESS_KEY_ID{HEAD}key AKIA", FORBIDDEN, REFUSED_CREDENTIALS),
    (f"{AWS}NO_SUCH_BUCKET during ListObjectsV2 operation: x", MISSING, "there is no such bucket"),
    (f"{AWS}UNKNOWN (HTTP status 301){HEAD}Looks like the region is 'r'", InputError, OTHER_REGION),
    (f"{AWS}SLOW_DOWN (HTTP status 503){HEAD}host", InputError, "the store answers SLOW_DOWN (HTTP status 503)"),
    (f"{AWS}NETWORK_CONNECTION{HEAD}curlCode: 6, Details: host", InputError, f"{UNREACHABLE}: unknown host"),
    (f"{AWS}NETWORK_CONNECTION{HEAD}curlCode: 56, Failure when receiving data", InputError, UNREACHABLE),
    (f"{GOOGLE}UNAVAILABLE: last message of CURL error [7]=x)", InputError, f"{UNREACHABLE}: connection failed"),
    (f"{GOOGLE}PERMISSION_DENIED: you@example may not)", FORBIDDEN, REFUSED_CREDENTIALS),
    (f"{GOOGLE}NOT_FOUND: no)", MISSING, "there is no such file"),
    ("reading https://host:1/key failed\nand more", InputError, "reading it failed"),
]


@pytest.mark.parametrize(("text", "kind", "why"), ANSWERS)
def test_errors_of_a_store_are_translated_without_names(
    text: str, kind: type[InputError], why: str, system: RemoteSystem
) -> None:
    with pytest.raises(InputError) as caught, system.translated_errors(URI, "reading at byte 0x5 failed: "):
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
        pytest.raises(kind, match=r"cannot read s3://logs/a/b: (there is no such file|permission denied)"),
        system.translated_errors(URI),
    ):
        raise raised


def test_an_unreachable_store_is_not_contacted_again_for_a_while(
    system: RemoteSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("kforensics.parsers.files.file_systems.time.monotonic", lambda: now[0])
    with pytest.raises(InputError), system.translated_errors(URI):
        raise OSError(f"{AWS}NETWORK_CONNECTION{HEAD}curlCode: 28, Timeout was reached")
    now[0] += 9.0
    with pytest.raises(InputError, match="listing: the store cannot be reached: timed out"):
        ask(system)
    now[0] += 2.0
    ask(system)


def ask(system: RemoteSystem) -> None:
    with system.translated_errors(URI, "listing: "):
        pass


def test_a_file_system_without_its_runtime_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of Hadoop needs Java and Hadoop's jars."""
    for name in ("HADOOP_HOME", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError) as caught:
        remote_system("hdfs://127.0.0.1:1/a")
    assert "\n" not in str(caught.value)
