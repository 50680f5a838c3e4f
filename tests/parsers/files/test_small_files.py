"""Which small files are prefetched, and when they are fetched again."""

from __future__ import annotations

from threading import Lock

import pytest

from kforensics.parsers.files.remote_prefetch import (
    FILES_AHEAD,
    FRESH_SECONDS,
    SMALL_FILE_BYTES,
    FetchedFile,
    SmallFiles,
)

BASE = "0" * 20


class Store:
    """Folders that record listings and fetches."""

    def __init__(self, **folders: dict[str, int]) -> None:
        self.folders, self.listed, self.fetched = folders, list[str](), list[str]()
        self._lock = Lock()

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the sizes of the files of a folder."""
        self.listed.append(folder)
        return {f"{folder}/{name}": size for name, size in self.folders[folder].items()}

    def fetch(self, path: str) -> FetchedFile:
        """Return a file."""
        with self._lock:
            self.fetched.append(path)
        if path.endswith(".broken"):
            raise OSError("broken")
        return FetchedFile(path.encode(), 5)


def names(*suffixes: str, of: int = 1) -> dict[str, int]:
    return {f"{number:020}.{suffix}": 10 for number in range(of) for suffix in suffixes}


def test_opening_a_second_file_prefetches_the_next_ones() -> None:
    store = Store(t=names("index", "log", "snapshot", of=20))
    small, files = SmallFiles(store.sizes, store.fetch), sorted(store.sizes("t"))
    store.listed.clear()
    assert small.get(files[0]) is None
    assert store.listed == []
    assert small.get(files[1]) == FetchedFile(files[1].encode(), 5)
    assert [small.get(path) for path in files] == [FetchedFile(path.encode(), 5) for path in files]
    assert store.listed == ["t"]
    assert sorted(store.fetched) == files


def test_only_nearby_files_are_prefetched() -> None:
    store = Store(t=names("index", of=100))
    small, files = SmallFiles(store.sizes, store.fetch), sorted(store.sizes("t"))
    small.get(files[0])
    small.get(files[40])
    small.get(files[40 + FILES_AHEAD - 1])
    assert set(store.fetched) <= set(files[40 : 40 + 2 * FILES_AHEAD])


def test_large_and_missing_files_are_not_fetched() -> None:
    store = Store(
        t={f"{BASE}.index": 1, f"{BASE}.log": SMALL_FILE_BYTES + 1, f"{BASE}.snapshot": SMALL_FILE_BYTES, "name": 3}
    )
    small = SmallFiles(store.sizes, store.fetch)
    small.get(f"t/{BASE}.index")
    assert [small.get(f"t/{name}") for name in (f"{BASE}.log", f"{BASE}.missing", "zzz")] == [None] * 3
    assert small.get(f"t/{BASE}.snapshot")
    assert small.get("t/name")
    assert f"t/{BASE}.log" not in store.fetched


@pytest.mark.parametrize("name", ["meta.properties", "replication-offset-checkpoint", "x.log", f"{BASE}1.log"])
def test_a_folder_in_which_no_segment_was_opened_is_not_listed(name: str) -> None:
    """A log directory has a folder per partition."""
    store = Store(t={name: 1})
    small = SmallFiles(store.sizes, store.fetch)
    assert [small.get(f"t/{name}") for _ in range(3)] == [None] * 3
    assert store.listed == []


def test_a_file_that_cannot_be_read_fails_alone() -> None:
    store = Store(t=names("broken", "index"))
    small = SmallFiles(store.sizes, store.fetch)
    small.get(f"t/{BASE}.index")
    with pytest.raises(OSError, match="broken"):
        small.get(f"t/{BASE}.broken")
    assert small.get(f"t/{BASE}.index")


@pytest.mark.parametrize("how", ["forgotten", "all forgotten", "old", "others came"])
def test_files_that_may_have_changed_are_fetched_again(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kforensics.parsers.files.remote_prefetch.time.monotonic", lambda: now[0])
    store = Store(t=names("index"), u=names("index"), v=names("index"))
    small, path = SmallFiles(store.sizes, store.fetch), f"t/{BASE}.index"
    assert [bool(small.get(path)) for _ in range(3)] == [False, True, True]
    now[0] += FRESH_SECONDS
    assert small.get(path)
    if how == "forgotten":
        small.forget("t")
    elif how == "all forgotten":
        small.forget()
    elif how == "old":
        now[0] += 0.1
    else:
        small.get(f"u/{BASE}.index")
        small.get(f"v/{BASE}.index")
    assert [bool(small.get(path)) for _ in range(2)] == [False, True]
    assert store.fetched == [path, path]
