"""CPU time and memory of this process and its descendants, from /proc: a JVM and Spark's workers included."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


def cpu_seconds(*, of_jvm: bool = False) -> float:
    """Seconds of processor that this process and its descendants have taken, those that have ended included.

    Args:
        of_jvm: only those of virtual machines for Java.
    """
    taken = (process for process in _process_tree() if process.is_jvm or not of_jvm)
    return sum(process.ticks for process in taken) / _TICKS


def peak_bytes() -> int:
    """Most memory that was resident in this process."""
    return _peak(os.getpid())


def peak_of_others() -> int:
    """Most memory that was resident in any descendant that is there still, Java left out."""
    return max(
        (_peak(process.pid) for process in _process_tree() if not process.is_jvm and process.pid != os.getpid()),
        default=0,
    )


def _peak(pid: int) -> int:
    with suppress(OSError):
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text("utf-8", "replace"))
        return int(found[1]) << 10 if found else 0
    return 0


def load() -> float:
    """How many processes wanted a processor in the last minute."""
    return os.getloadavg()[0]


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    is_jvm: bool
    ticks: int

    @classmethod
    def of(cls, stat: str) -> _Process:
        """What ``/proc/PID/stat`` says; a name in brackets may hold anything."""
        head, _, rest = stat.rpartition(") ")
        pid, _, name = head.partition(" (")
        fields = rest.split()
        return cls(int(pid), int(fields[1]), name == "java", sum(map(int, fields[11:15])))


def _process_tree() -> Iterator[_Process]:
    children: dict[int, list[_Process]] = {}
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid == os.getpid():
            waiting = [process]
    while waiting:
        yield (process := waiting.pop())
        waiting += children.get(process.pid, [])


def _processes() -> Iterator[_Process]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        # The seconds of a process that has ended meanwhile count for its parent.
        with suppress(OSError):
            yield _Process.of(path.read_text("utf-8", "replace"))
