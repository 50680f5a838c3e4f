"""Sources: what can be opened, errors for what cannot, and that nothing is written next to the input."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.errors import InputError, InputForbiddenError, InputKindError, InputMissingError
from kforensics.parsers.files import source as module
from kforensics.parsers.files.input_paths import is_uri
from kforensics.parsers.files.source import (
    BytesSource,
    LocalSource,
    RemoteSource,
    Source,
    Window,
    file_name,
    open_source,
)
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batches import walk
from tests.parsers.builders import batches
from tests.parsers.ranges import ShrunkSource

DATA = bytes(range(256)) * 3


@pytest.fixture(params=["bytes", "local", "remote"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    """Return each kind of source for the same bytes."""
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    kinds: dict[str, Callable[[], BytesSource | LocalSource | RemoteSource]] = {
        "bytes": lambda: BytesSource(DATA),
        "local": lambda: LocalSource(path),
        "remote": lambda: RemoteSource(path.as_uri()),
    }
    with kinds[request.param]() as opened:
        yield opened


@pytest.mark.parametrize(
    ("position", "length"), [(0, 0), (0, 768), (0, 9999), (767, 1), (768, 1), (99999, 5), (10, 20), (760, 100)]
)
def test_every_source_returns_the_same_ranges(source: Source, position: int, length: int) -> None:
    assert source.size == len(DATA)
    assert source.read(position, length) == DATA[position : position + length]


@pytest.mark.parametrize(("position", "length"), [(0, 0), (0, 768), (0, 999), (767, 5), (768, 1), (99999, 5), (10, 20)])
def test_every_source_reads_into_memory(source: Source, position: int, length: int) -> None:
    """The bytes are those of ``read``; the memory after them is unchanged."""
    target = bytearray(b"\xff" * length)
    expected = source.read(position, length)
    assert source.read_into(position, memoryview(target)) == len(expected)
    assert target == expected + b"\xff" * (length - len(expected))


def test_next_data_skips_sparse_ranges(tmp_path: Path) -> None:
    """A file system without sparse files returns the requested position."""
    path, far = tmp_path / "f", 1 << 40
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(far)
        file.write(b"end")
    with LocalSource(path) as source:
        assert source.next_data(0) == 0
        end = source.next_data(1 << 20)
        assert end in (1 << 20, far - far % 4096)
        assert source.next_data(far) == far
        assert source.next_data(source.size) == source.size
    os.truncate(path, 2 * far)
    with LocalSource(path) as source:
        assert source.next_data(far + (1 << 20)) in (far + (1 << 20), source.size)


def test_a_tebibyte_of_sparse_ranges_is_walked_quickly(tmp_path: Path) -> None:
    """The zeros after a preallocated segment and around a lost batch are not read."""
    path, far = tmp_path / "00000000000000000000.log", 1 << 40
    good = batches(1)[0]
    broken = good[:-1] + bytes([good[-1] ^ 1])
    with path.open("wb") as file:
        file.write(good + broken)
        file.seek(far)
        file.write(good)
        file.truncate(2 * far)
    with LocalSource(path) as source:
        rows = list(walk(source))
    assert [row.position for row in rows if isinstance(row, Batch) and row.crc_valid] == [0, far]
    assert isinstance(rows[-1], Damage)
    assert (rows[-1].start, rows[-1].end, rows[-1].reason) == (far + len(good), 2 * far, "zero-tail")


def test_a_source_can_be_closed_twice(source: Source) -> None:
    source.close()
    source.close()


def test_a_local_file_has_its_modification_time(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"abc")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    for name in (str(path), path.as_uri()):
        with open_source(name) as opened:
            assert (opened.path, opened.size, opened.mtime_ms) == (name, 3, 1_700_000_000_123)


# Not a file -----------------------------------------------------------------------------------------------------


def folder(path: Path) -> None:
    """Create a directory."""
    path.mkdir()


def bound_socket(path: Path) -> None:
    """Create a socket; its path must be short, so it is bound elsewhere and moved."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        Path(short, "s").rename(path)


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "directory": (folder, "it is a directory, not a file"),
    "pipe": (os.mkfifo, "it is a pipe, not a file"),
    "socket": (bound_socket, "it is a socket or device, not a file"),
    "device": (lambda path: path.symlink_to(os.devnull), "it is a device, not a file"),
}


@pytest.fixture
def guard() -> Iterator[None]:
    """Fail a test that hangs in the operating system."""

    def fail(number: int, frame: object) -> None:
        raise TimeoutError(f"it hangs: signal {number} in {frame}")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """A pipe without a writer must not hang."""
    path = tmp_path / "00000000000000000000.log"
    make, why = KINDS[kind]
    make(path)
    with pytest.raises(InputKindError) as caught:
        open_source(path)
    assert str(caught.value) == f"cannot read {path}: {why}"


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("kind", KINDS)
def test_a_uri_of_what_is_not_a_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "00000000000000000000.log"
    KINDS[kind][0](path)
    with pytest.raises(InputKindError) as caught:
        open_source(path.as_uri())
    assert caught.value.why == "it is a directory or something else that is not a file"


@pytest.mark.parametrize("name", ["none.log", "file/below", "loop/none", "zero\0byte", ""])
def test_a_missing_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputMissingError) as caught:
        open_source(f"{tmp_path}/{name}" if name else "")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.why.startswith("there is no such file") or "\0" in name


def test_a_missing_uri(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError) as caught:
        open_source((tmp_path / "none").as_uri())
    assert str(caught.value) == f"cannot read {(tmp_path / 'none').as_uri()}: there is no such file"


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="symbolic links"):
        open_source(tmp_path / "loop")


@pytest.mark.parametrize("uri", ["nothing://bucket/key", "file://relative/path"])
def test_a_uri_without_a_file_system_is_one_sentence(uri: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(uri)
    assert str(caught.value).startswith(f"cannot read {uri}: ")
    assert "\n" not in str(caught.value)


FORBIDDEN = """
import os, sys
from kforensics.errors import InputForbiddenError
from kforensics.parsers.files.source import open_source
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
for name in sys.argv[1:]:
    try:
        open_source(name)
    except InputForbiddenError as error:
        print(error.why)
    else:
        print("opened", name)
"""


def test_a_file_without_read_permission() -> None:
    """Root drops its privileges first, because it may read anything."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "secret.log")
        path.write_bytes(b"abc")
        path.chmod(0)
        ran = subprocess.run(
            [sys.executable, "-c", FORBIDDEN, str(path)], capture_output=True, text=True, check=True, timeout=60
        )
    assert ran.stdout == "permission denied; run as a user with read access, or copy it first\n"


def test_a_refusal_is_a_permission_error_that_can_be_pickled(tmp_path: Path) -> None:
    error = InputForbiddenError(str(tmp_path), "why")
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(copied, InputForbiddenError)
    assert issubclass(InputForbiddenError, PermissionError)
    assert (copied.path, copied.why) == (str(tmp_path), "why")


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="only Linux opens files without a new access time")
def test_reading_does_not_change_the_access_time(tmp_path: Path) -> None:
    """Access times are evidence too; a time older than the modification is updated on all mounts but ``noatime``."""
    path = tmp_path / "0.log"
    path.write_bytes(b"abc")
    os.utime(path, (1_000_000_000, 1_700_000_000))
    with open_source(path) as source:
        assert source.read(0, 3) == b"abc"
    assert path.stat().st_atime == 1_000_000_000


FOREIGN = """
import os, sys
from kforensics.parsers.files.source import open_source
os.setegid(65534)
os.seteuid(65534)
print(open_source(sys.argv[1]).read(0, 3))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_another_user_is_read_all_the_same() -> None:
    """The system refuses to keep the access time of a file that belongs to another user."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "0.log")
        path.write_bytes(b"abc")
        path.chmod(0o644)
        ran = subprocess.run(
            [sys.executable, "-c", FOREIGN, str(path)], capture_output=True, text=True, check=True, timeout=60
        )
    assert ran.stdout == "b'abc'\n"


# A file that changes -------------------------------------------------------------------------------------------------


def test_a_file_that_grows_is_read_up_to_its_original_size(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    parts = batches(4)
    path.write_bytes(b"".join(parts[:2]))
    with LocalSource(path) as opened:
        with path.open("ab") as more:
            more.write(b"".join(parts[2:]))
        assert opened.read(0, 10_000) == b"".join(parts[:2])
        assert [type(row) for row in walk(opened)] == [Batch, Batch]


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_file_that_shrinks_is_covered_up_to_its_original_size(tmp_path: Path, remote: bool) -> None:
    path = tmp_path / "a.log"
    parts = batches(4)
    data = b"".join(parts)
    path.write_bytes(data)
    with open_source(path.as_uri() if remote else path) as opened:
        os.truncate(path, len(parts[0]) + 5)
        rows = list(walk(opened))
    assert isinstance(rows[0], Batch)
    assert [type(row) for row in rows[1:]] == [Damage, Damage]
    last = rows[-1]
    assert isinstance(last, Damage)
    assert (last.end, last.reason) == (len(data), "shrunk")


def test_a_deleted_file_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    with LocalSource(path) as opened:
        path.unlink()
        assert opened.read(0, 999) == DATA


def test_a_failed_read_names_its_position(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    opened = LocalSource(path)
    opened.close()
    with pytest.raises(InputError, match="reading at byte 0x40 failed: Bad file descriptor"):
        opened.read(64, 1)


# Read-only -----------------------------------------------------------------------------------------------------------


def test_nothing_is_written_next_to_the_input(tmp_path: Path) -> None:
    """Read-only files are read, and the folder is unchanged."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batches(3)) + bytes(100))
    path.chmod(0o444)
    os.utime(tmp_path, ns=(0, 1_000_000_000))
    before = path.stat()
    with LocalSource(path) as opened:
        assert len(list(walk(opened))) == 4
    after = path.stat()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert tmp_path.stat().st_mtime_ns == 1_000_000_000
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_size) == (
        before.st_mtime_ns,
        before.st_ctime_ns,
        before.st_size,
    )


def test_a_local_file_is_opened_read_only(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    with LocalSource(path) as opened, pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(opened._descriptor, b"x", 0)
    assert path.read_bytes() == DATA


# Names and URIs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://b/k", True),
        ("hdfs://h:1/k", True),
        ("file:///a", True),
        ("/a/b", False),
        ("a.log", False),
        ("://a", False),
        ("odd name://a", False),
        ("", False),
    ],
)
def test_is_uri(path: str, expected: bool) -> None:
    assert is_uri(path) is expected


@pytest.mark.parametrize("path", ["a.log", "/x/a.log", "s3://b/x/a.log"])
def test_the_name_of_a_file(path: str) -> None:
    assert file_name(path) == "a.log"


NUMBERED = bytes(n * 7 % 251 for n in range(3 * module.BUFFER_BYTES // 2))
reads = st.tuples(st.integers(0, len(NUMBERED) + 9), st.integers(0, 3000), st.booleans())


class CountedSource(BytesSource):
    """Counts its reads."""

    reads = 0

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range."""
        self.reads += 1
        return super().read(position, length)


@given(
    requests=st.lists(reads, max_size=12), end=st.sampled_from([None, 0, 5000, len(NUMBERED) - 1, len(NUMBERED) + 9])
)
def test_any_range_in_any_order(requests: list[tuple[int, int, bool]], end: int | None) -> None:
    window = Window(BytesSource(NUMBERED), end)
    limit = len(NUMBERED) if end is None else min(end, len(NUMBERED))
    assert window.end == limit
    for position, length, peeks in requests:
        read = window.peek if peeks else window.read
        assert read(position, length) == NUMBERED[position : max(position, min(position + length, limit))]
    assert window.end == limit


def test_small_steps_share_one_read() -> None:
    source = CountedSource(NUMBERED)
    window = Window(source)
    for position in range(0, module.BUFFER_BYTES - 61, 61):
        window.read(position, 61)
    assert source.reads == 1


def test_peeking_far_away_does_not_move_the_buffer() -> None:
    source = CountedSource(NUMBERED)
    window = Window(source)
    window.read(0, 61)
    assert window.peek(len(NUMBERED) - 10, 61) == NUMBERED[-10:]
    window.read(61, 61)
    assert source.reads == 2


@given(start=st.integers(0, len(NUMBERED)), end=st.integers(0, len(NUMBERED)))
def test_chunks_cover_a_range_once(start: int, end: int) -> None:
    assert b"".join(Window(BytesSource(NUMBERED)).chunks(start, end)) == NUMBERED[start : max(start, end)]


def test_chunks_are_no_larger_than_the_buffer() -> None:
    assert max(map(len, Window(BytesSource(NUMBERED * 6)).chunks(0, 6 * len(NUMBERED)))) == module.BUFFER_BYTES


def test_the_end_decreases_when_the_file_has_shrunk() -> None:
    window = Window(ShrunkSource(NUMBERED[:1000], len(NUMBERED)))
    assert window.end == len(NUMBERED)
    assert window.read(990, 61) == NUMBERED[990:1000]
    assert window.end == 1000
    assert window.read(1000, 61) == b""
    assert list(window.chunks(0, len(NUMBERED))) == [NUMBERED[:1000]]


def test_peeking_detects_that_the_file_has_shrunk() -> None:
    window = Window(ShrunkSource(NUMBERED[:1000], len(NUMBERED)))
    assert window.peek(5000, 61) == b""
    assert window.end == 5000
    assert window.peek(990, 61) == NUMBERED[990:1000]
    assert window.end == 1000
