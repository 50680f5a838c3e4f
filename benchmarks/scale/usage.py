"""What this process and all that come of it take, as Linux tells it: a JVM and Spark's workers included."""

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
    taken = (one for one in _family() if one.is_jvm or not of_jvm)
    return sum(one.ticks for one in taken) / _TICKS


def peak_bytes() -> int:
    """Most memory that was resident in this process."""
    return _peak(os.getpid())


def peak_of_others() -> int:
    """Most memory that was resident in any descendant that is there still, Java left out."""
    return max((_peak(one.pid) for one in _family() if not one.is_jvm and one.pid != os.getpid()), default=0)


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


def _family() -> Iterator[_Process]:
    children: dict[int, list[_Process]] = {}
    for one in _processes():
        children.setdefault(one.parent, []).append(one)
        if one.pid == os.getpid():
            waiting = [one]
    while waiting:
        yield (one := waiting.pop())
        waiting += children.get(one.pid, [])


def _processes() -> Iterator[_Process]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        # One that has ended meanwhile has left its seconds to whoever started it.
        with suppress(OSError):
            yield _Process.of(path.read_text("utf-8", "replace"))
