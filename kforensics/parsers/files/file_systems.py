"""File systems for remote URIs: one per process and bucket, configured by the environment only.

Credentials and endpoints in a URI would be visible to every user of the machine and end up in every manifest, so a URI
that contains any is refused. Error texts of a store name hosts and keys; they are translated, never repeated verbatim.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kforensics.errors import NO_FILE, InputError, InputForbiddenError, InputMissingError, UsageError
from kforensics.parsers.files.remote_prefetch import FetchedFile, SmallFiles

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = ["RemoteSystem", "has_remote_clients", "remote_system"]

# All attempts together give up on an unresponsive store after about half a minute.
ATTEMPTS, CONNECT_SECONDS, REQUEST_SECONDS = 3, 5, 10
# An unreachable store is not contacted again for this long: a folder has hundreds of files.
UNREACHABLE_SECONDS = 10.0
OBJECT_STORES = ("s3", "gcs", "abfs")

NO_BUCKET = "there is no such bucket"
REFUSED_CREDENTIALS = "the store refuses these credentials; see the environment variables of its file system"
UNREACHABLE = "the store cannot be reached"
OTHER_REGION = "the bucket is in another region; set AWS_REGION"
# Exit codes of curl, which both the S3 and the Google client use.
CURL = {"6": "unknown host", "7": "connection failed", "28": "timed out"}
REFUSALS = {
    "ACCESS_DENIED",
    "EXPIRED_TOKEN",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "PERMISSION_DENIED",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNAUTHENTICATED",
    "UNRECOGNIZED_CLIENT",
}
MISSING = {"NO_SUCH_KEY", "NOT_FOUND", "RESOURCE_NOT_FOUND"}
_SYSTEMS: dict[tuple[object, ...], RemoteSystem] = {}
_AWS = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during (\w+) operation")
_GOOGLE = re.compile(r"google::cloud::Status\((\w+): ")
_CURL = re.compile(r"(?:curlCode: |CURL error \[)(\d+)")
_NAME = re.compile(r"ExceptionName: (\w+)")
_ADDRESS = re.compile(r"https?://\S+")


@dataclass(slots=True)
class RemoteSystem:
    """A pyarrow file system for one scheme and authority.

    Attributes:
        system: the file system.
        root: prefix of every path in it, such as the bucket.
        unreachable_since: when the store was last unreachable, on the monotonic clock.
        unreachable: the error message of that time.
        small: cache of the small files of the folders being read.
    """

    system: fs.FileSystem
    root: str
    unreachable_since: float = -UNREACHABLE_SECONDS
    unreachable: str = UNREACHABLE
    small: SmallFiles = field(init=False)

    def __post_init__(self) -> None:
        self.small = SmallFiles(self._sizes, self._fetch)

    @property
    def is_object_store(self) -> bool:
        """Whether listing a whole tree is as cheap as listing a folder, and no entry is a link."""
        return str(self.system.type_name) in OBJECT_STORES

    def inner_path(self, uri: str) -> str:
        """Return the path of a URI inside the file system."""
        path = unquote(uri.partition("://")[2].partition("/")[2]).rstrip("/")
        return f"{self.root.rstrip('/')}/{path}" if path else self.root

    @contextmanager
    def translated_errors(self, uri: str, action: str = "") -> Iterator[None]:
        """Translate exceptions of the file system into errors that name the URI.

        Args:
            uri: the input.
            action: prefix of the message that says what failed and ends with a colon; empty if the URI is enough.

        Raises:
            InputError: the input cannot be read; the subclass says why.
        """
        from pyarrow import ArrowException

        if self._is_unreachable():
            raise InputError(uri, f"{action}{self.unreachable}")
        try:
            yield
        except InputError:
            raise
        except (OSError, ValueError, ArrowException) as error:
            input_error = _input_error(uri, action, error)
            if UNREACHABLE in input_error.why:
                self.unreachable_since, self.unreachable = time.monotonic(), input_error.why.removeprefix(action)
            raise input_error from error

    def open_input(self, uri: str) -> tuple[Any, int | None]:
        """Return a pyarrow file for ranged reads and its modification time in ms; None for what is not a file.

        Opening an S3 object returns its modification time, too. pyarrow always requests the size first.

        Raises:
            InputError: the file cannot be opened.
        """
        with self.translated_errors(uri):
            return self._open(uri, self.inner_path(uri))

    def prefetched_file(self, uri: str) -> FetchedFile | None:
        """Return a small file of an object store if it was fetched together with others of its folder, else None.

        Raises:
            InputError: the file cannot be read.
        """
        if not self.is_object_store:
            return None
        with self.translated_errors(uri):
            return self.small.get(self.inner_path(uri))

    def _open(self, uri: str, path: str) -> tuple[Any, int | None]:
        from pyarrow.fs import FileType

        if self.system.type_name == "s3":
            file = self.system.open_input_file(path)
            return file, _modified(file.metadata())
        info = self.system.get_file_info(path)
        if info.type == FileType.NotFound:
            raise InputMissingError(uri, NO_FILE)
        mtime_ms = None if info.mtime_ns is None else info.mtime_ns // 1_000_000
        return (self.system.open_input_file(path) if info.type == FileType.File else None), mtime_ms

    def _sizes(self, folder: str) -> dict[str, int]:
        from pyarrow.fs import FileSelector

        infos = self.system.get_file_info(FileSelector(folder))
        return {info.path: info.size for info in infos if info.size is not None}

    def _fetch(self, path: str) -> FetchedFile:
        """Return a file; runs in a thread of the prefetcher and makes no request to an unreachable store."""
        if self._is_unreachable():
            raise OSError(self.unreachable)
        try:
            file, mtime_ms = self._open(path, path)
        except InputMissingError as error:
            raise FileNotFoundError(path) from error  # the waiting caller knows the URI
        return FetchedFile(bytes(file.read_at(file.size(), 0)), mtime_ms)

    def _is_unreachable(self) -> bool:
        return time.monotonic() - self.unreachable_since < UNREACHABLE_SECONDS


def remote_system(uri: str) -> RemoteSystem:
    """Return the file system of a URI, always the same one within a process.

    Raises:
        UsageError: the URI contains credentials or settings.
        InputError: there is no file system for the URI.
    """
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    user = authority.rpartition("@")[0]
    # For other schemes the user is a name, a container or the word "anonymous", and only HDFS has ports.
    if "?" in uri or ":" in user or (scheme == "s3" and (user or ":" in authority)):
        raise UsageError(
            f"{scheme}:// URIs may contain only a location; credentials, endpoint and region come from the environment "
            "(for s3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION)"
        )
    settings = _settings() if scheme == "s3" else ()
    # A forked child must not use the clients of its parent.
    key = (os.getpid(), scheme, authority, settings)
    if key not in _SYSTEMS:
        _SYSTEMS[key] = _create(uri, scheme, authority, dict(settings))
    return _SYSTEMS[key]


def has_remote_clients() -> bool:
    """Return whether this process has created a store client, whose threads a forked child would not have."""
    return bool(_SYSTEMS)


def _settings() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that configure an S3 client; a change of them creates a new client."""
    return tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))


def _create(uri: str, scheme: str, authority: str, settings: Mapping[str, str]) -> RemoteSystem:
    from pyarrow import ArrowException, fs  # needed for remote inputs only

    user, _, bucket = authority.rpartition("@")
    try:
        if scheme == "s3":
            return RemoteSystem(_s3(bucket, settings), bucket)
        if scheme in ("gs", "gcs"):
            limit = timedelta(seconds=ATTEMPTS * REQUEST_SECONDS)
            return RemoteSystem(fs.GcsFileSystem(anonymous=user == "anonymous", retry_time_limit=limit), bucket)
        return RemoteSystem(*fs.FileSystem.from_uri(f"{scheme}://{authority}/"))
    except (OSError, ValueError, ImportError, ArrowException) as error:
        raise _input_error(uri, "", error) from error


def _s3(bucket: str, environment: Mapping[str, str]) -> fs.S3FileSystem:
    """Return the file system of a bucket; the AWS library itself finds the credentials in the environment."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    address = urlsplit(endpoint or "")
    if endpoint and not address.netloc:
        raise ValueError("AWS_ENDPOINT_URL is not a URL")
    return S3FileSystem(
        # Amazon can resolve the region of a bucket; with another endpoint the region hardly matters.
        region=region or ("us-east-1" if endpoint else resolve_s3_region(bucket)),
        endpoint_override=address.netloc + address.path.rstrip("/") if endpoint else None,
        scheme=address.scheme if endpoint else None,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=REQUEST_SECONDS,
        # Small files are written in one request.
        allow_delayed_open=True,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def _modified(metadata: Mapping[str | bytes, bytes]) -> int | None:
    text = metadata.get("Last-Modified") or metadata.get(b"Last-Modified")
    return None if text is None else int(datetime.fromisoformat(text.decode()).timestamp() * 1000)


def _input_error(uri: str, action: str, error: Exception) -> InputError:
    """Return the error to raise. The original text is repeated only if it does not come from a remote store."""
    # Arrow appends every path on which it searched for a Java runtime.
    text = str(error).partition("\n")[0]
    answer = _AWS.search(text) or _GOOGLE.search(text)
    if answer:
        return _store_error(uri, action, answer, text)
    if isinstance(error, FileNotFoundError):
        return InputMissingError(uri, action + NO_FILE)
    if isinstance(error, PermissionError):
        return InputForbiddenError(uri, f"{action}permission denied; run as a user with read access, or copy it first")
    return InputError(uri, action + _ADDRESS.sub("it", text))


def _store_error(uri: str, action: str, answer: re.Match[str], text: str) -> InputError:
    name, status = answer[1], (answer[2] or "" if answer.re is _AWS else "")
    if name in ("NETWORK_CONNECTION", "UNAVAILABLE"):
        why = CURL.get(code[1]) if (code := _CURL.search(text)) else None
        return InputError(uri, f"{action}{UNREACHABLE}" + (f": {why}" if why else ""))
    if name == "NO_SUCH_BUCKET":
        return InputMissingError(uri, action + NO_BUCKET)
    if name in MISSING:
        return InputMissingError(uri, action + NO_FILE)
    if name in REFUSALS or status in ("401", "403"):
        return InputForbiddenError(uri, action + REFUSED_CREDENTIALS)
    if status == "301":
        return InputError(uri, action + OTHER_REGION)
    other = _NAME.search(text)
    name = other[1] if other else name
    return InputError(uri, f"{action}the store answers {name}" + (f" (HTTP status {status})" if status else ""))
