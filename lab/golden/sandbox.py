"""The throw-away copy that the tools may open for writing."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Fixed, because the tools print absolute paths; it is written down in every golden file.
DIRECTORY = Path("/tmp/kforensics-golden")  # noqa: S108 - the lock next to it keeps others out


class Sandbox:
    """A copy of one scenario in the working directory of the tools, whose inode never changes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._source = directory

    def load(self, scenario: Path) -> None:
        """Replace the content by a copy of this scenario."""
        for entry in self.directory.iterdir():
            _remove(entry)
        shutil.copytree(scenario, self.directory, dirs_exist_ok=True)
        self._source = scenario

    def restore(self, folder: str) -> None:
        """Make one folder equal to the scenario's again: indexes may have been made, trimmed or resized."""
        source, copy = self._source / folder, self.directory / folder
        names = {path.name for path in source.iterdir()}
        for path in copy.iterdir():
            if path.name not in names:
                _remove(path)
        for path in source.iterdir():
            if path.is_file() and _content(copy / path.name) != path.read_bytes():
                _remove(copy / path.name)  # a JVM may still map the old file
                shutil.copy2(path, copy / path.name)


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    """The one sandbox of this machine; a second caller waits."""
    with DIRECTORY.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        DIRECTORY.mkdir(exist_ok=True)
        try:
            yield Sandbox(DIRECTORY)
        finally:
            shutil.rmtree(DIRECTORY)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
