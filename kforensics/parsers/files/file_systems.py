"""The file systems behind URIs: one each in a process, made from the environment alone, with errors as sentences.

Credentials and endpoints on a command line are there for every user of the machine to read, and would be in every
manifest. So a URI that holds any is refused, and what a store answers is never repeated word by word: its texts name
hosts and keys.
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

from kforensics.errors import InputError, InputForbiddenError, InputMissingError, UsageError
from kforensics.parsers.files.small_files import Fetched, SmallFiles

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = ["RemoteSystem", "is_any_in_use", "remote_system"]

# A store that says nothing is given up after all attempts together, about half a minute.
ATTEMPTS, CONNECT_SECONDS, SILENT_SECONDS = 3, 5, 10
# So long nobody is asked again who could not be reached: a folder has hundreds of files.
GONE_SECONDS = 10.0
OBJECT_STORES = ("s3", "gcs", "abfs")

NO_FILE, NO_BUCKET = "there is no such file", "there is no such bucket"
REFUSED = "the store refuses these credentials; see the environment variables of its file system"
GONE = "the store cannot be reached"
ELSEWHERE = "the bucket is in another region; name it in AWS_REGION"
# Codes of curl, which both S3 and Google's client use.
CURL = {"6": "its name is not known", "7": "nobody answers there", "28": "it does not answer in time"}
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
    """A file system of pyarrow behind a scheme and an authority.

    Attributes:
        system: the file system.
        root: what stands in front of a path of it, such as the bucket.
        gone_since: when it could last not be reached, on the monotonic clock.
        gone: what was said of it then.
        small: the small files of folders that are read just now.
    """

    system: fs.FileSystem
    root: str
    gone_since: float = -GONE_SECONDS
    gone: str = GONE
    small: SmallFiles = field(init=False)

    def __post_init__(self) -> None:
        self.small = SmallFiles(self._sizes, self._fetched)

    @property
    def is_object_store(self) -> bool:
        """Whether a whole tree is listed as cheaply as a folder, and nothing in it is a link."""
        return str(self.system.type_name) in OBJECT_STORES

    def inner(self, uri: str) -> str:
        """Return the path that the file system knows something by."""
        path = unquote(uri.partition("://")[2].partition("/")[2]).rstrip("/")
        return f"{self.root.rstrip('/')}/{path}" if path else self.root

    @contextmanager
    def asked(self, uri: str, what: str = "") -> Iterator[None]:
        """Turn what the file system raises into errors that name the URI.

        Args:
            uri: what it is asked about.
            what: what was tried, half a sentence that ends with a colon, if the URI alone does not tell.

        Raises:
            InputError: it cannot be read; the subclass says why.
        """
        from pyarrow import ArrowException

        if self._is_gone():
            raise InputError(uri, f"{what}{self.gone}")
        try:
            yield
        except InputError:
            raise
        except (OSError, ValueError, ArrowException) as error:
            found = _input_error(uri, what, error)
            if GONE in found.why:
                self.gone_since, self.gone = time.monotonic(), found.why.removeprefix(what)
            raise found from error

    def opened(self, uri: str) -> tuple[Any, int | None]:
        """Return a file of pyarrow opened for ranged reads, None if it is none, and its modification time in ms.

        An object of S3 tells its time as it is opened. pyarrow cannot open one without asking for its size first.

        Raises:
            InputError: it cannot be opened.
        """
        with self.asked(uri):
            return self._opened(uri, self.inner(uri))

    def small_file(self, uri: str) -> Fetched | None:
        """Return a small file of a store that has been fetched with others of its folder, else None.

        Raises:
            InputError: it cannot be read.
        """
        if not self.is_object_store:
            return None
        with self.asked(uri):
            return self.small.get(self.inner(uri))

    def _opened(self, uri: str, path: str) -> tuple[Any, int | None]:
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

    def _fetched(self, path: str) -> Fetched:
        """Return a file, asked for in a thread of its own; nobody else is asked once a store is gone."""
        if self._is_gone():
            raise OSError(self.gone)
        try:
            file, mtime_ms = self._opened(path, path)
        except InputMissingError as error:
            raise FileNotFoundError(path) from error  # who waits for it knows the URI
        return Fetched(bytes(file.read_at(file.size(), 0)), mtime_ms)

    def _is_gone(self) -> bool:
        return time.monotonic() - self.gone_since < GONE_SECONDS


def remote_system(uri: str) -> RemoteSystem:
    """Return the file system behind a URI, always the same in a process.

    Raises:
        UsageError: the URI holds credentials or settings.
        InputError: no file system answers to it.
    """
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    user = authority.rpartition("@")[0]
    # Elsewhere a user is a name, a container or the word "anonymous"; and only HDFS has ports.
    if "?" in uri or ":" in user or (scheme == "s3" and (user or ":" in authority)):
        raise UsageError(
            f"a URI of {scheme}:// holds more than a place; credentials, endpoint and region come from the environment "
            "(for s3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION)"
        )
    settings = _settings() if scheme == "s3" else ()
    # A copy of this process must not use what was its parent's.
    key = (os.getpid(), scheme, authority, settings)
    if key not in _SYSTEMS:
        _SYSTEMS[key] = _made(uri, scheme, authority, dict(settings))
    return _SYSTEMS[key]


def is_any_in_use() -> bool:
    """Tell whether this process has asked a store: its client has threads that a copy of the process would not have."""
    return bool(_SYSTEMS)


def _settings() -> tuple[tuple[str, str], ...]:
    """Return what of the environment a client of S3 is made from; who changes it gets another one."""
    return tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))


def _made(uri: str, scheme: str, authority: str, settings: Mapping[str, str]) -> RemoteSystem:
    from pyarrow import ArrowException, fs  # only remote inputs pay for it

    user, _, bucket = authority.rpartition("@")
    try:
        if scheme == "s3":
            return RemoteSystem(_s3(bucket, settings), bucket)
        if scheme in ("gs", "gcs"):
            limit = timedelta(seconds=ATTEMPTS * SILENT_SECONDS)
            return RemoteSystem(fs.GcsFileSystem(anonymous=user == "anonymous", retry_time_limit=limit), bucket)
        return RemoteSystem(*fs.FileSystem.from_uri(f"{scheme}://{authority}/"))
    except (OSError, ValueError, ImportError, ArrowException) as error:
        raise _input_error(uri, "", error) from error


def _s3(bucket: str, environment: Mapping[str, str]) -> fs.S3FileSystem:
    """Return the file system for a bucket; the library itself looks for credentials in the environment."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    place = urlsplit(endpoint or "")
    if endpoint and not place.netloc:
        raise ValueError("AWS_ENDPOINT_URL holds no URL")
    return S3FileSystem(
        # Without an endpoint it is Amazon's, which tells where a bucket is; elsewhere the name hardly matters.
        region=region or ("us-east-1" if endpoint else resolve_s3_region(bucket)),
        endpoint_override=place.netloc + place.path.rstrip("/") if endpoint else None,
        scheme=place.scheme if endpoint else None,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=SILENT_SECONDS,
        # What is small is written in one request.
        allow_delayed_open=True,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def _modified(metadata: Mapping[str | bytes, bytes]) -> int | None:
    said = metadata.get("Last-Modified") or metadata.get(b"Last-Modified")
    return None if said is None else int(datetime.fromisoformat(said.decode()).timestamp() * 1000)


def _input_error(uri: str, what: str, error: Exception) -> InputError:
    """Return what to say; the text of the store itself is only repeated where it is none of a remote store."""
    # Arrow lists every place where it looked for a Java runtime behind its sentence.
    text = str(error).partition("\n")[0]
    answer = _AWS.search(text) or _GOOGLE.search(text)
    if answer:
        return _answered(uri, what, answer, text)
    if isinstance(error, FileNotFoundError):
        return InputMissingError(uri, what + NO_FILE)
    if isinstance(error, PermissionError):
        return InputForbiddenError(uri, f"{what}you may not read it; run as a user who may, or copy it first")
    return InputError(uri, what + _ADDRESS.sub("it", text))


def _answered(uri: str, what: str, answer: re.Match[str], text: str) -> InputError:
    name, status = answer[1], (answer[2] or "" if answer.re is _AWS else "")
    if name in ("NETWORK_CONNECTION", "UNAVAILABLE"):
        why = CURL.get(code[1]) if (code := _CURL.search(text)) else None
        return InputError(uri, f"{what}{GONE}" + (f": {why}" if why else ""))
    if name == "NO_SUCH_BUCKET":
        return InputMissingError(uri, what + NO_BUCKET)
    if name in MISSING:
        return InputMissingError(uri, what + NO_FILE)
    if name in REFUSALS or status in ("401", "403"):
        return InputForbiddenError(uri, what + REFUSED)
    if status == "301":
        return InputError(uri, what + ELSEWHERE)
    other = _NAME.search(text)
    name = other[1] if other else name
    return InputError(uri, f"{what}the store answers {name}" + (f" (HTTP status {status})" if status else ""))
