"""A cluster in which an operator aborted data of transactions that were ongoing, and were committed later."""

from __future__ import annotations

from pathlib import Path

from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge

__all__ = ["forge_living"]

FIRST = "x{0} Ongoing {0} 0 {{p-0}} t 10; x{0} PrepareCommit {0} 0 {{p-0}} t {1}; x{0} CompleteCommit {0} 0 t {2}"
SECOND = (
    "x{0} Ongoing {0} 0 {{p-0}} t 20000; x{0} PrepareCommit {0} 0 {{p-0}} t 30000; x{0} CompleteCommit {0} 0 t 30010"
)


def forge_living(folder: Path, ends: dict[int, int], *, written: int = 19_999, has_more: bool = True) -> None:
    """Write two transactions of each producer; an operator aborted what it wrote before 25 s.

    Args:
        folder: the log directory.
        ends: when the first transaction of each producer was decided, in ms after ``NOW``.
        written: of which time the aborted data is; the second transactions begin at 20 s.
        has_more: whether the producers wrote again after the abort.
    """
    records, log = list[str](), list[str]()
    for producer, end in ends.items():
        first, second = FIRST.format(producer, end, end + 10), SECOND.format(producer)
        records += [f"x{producer} Empty {producer} 0 t 0", *f"{first}; {second}".split("; ")]
        log += [f"D {producer} 0 0-0 @{{}} T {at(10)}", f"M {producer} 0 C 0 @{{}} {at(end + 5)}"]
        log += [f"D {producer} 0 1-1 @{{}} T {at(written)}", f"M {producer} 0 A 0 @{{}} {at(25_000)}"]
        log += [f"D {producer} 0 2-2 @{{}} T {at(26_000)}"] if has_more else []
        log += [f"M {producer} 0 C 0 @{{}} {at(30_005)}"]
    records.sort(key=lambda record: int(record.rpartition(" ")[2]))
    forge_coordinator(folder, "; ".join([*records, "z Empty 99 0 t 50000"]))
    log.sort(key=lambda batch: int(batch.rpartition(" ")[2]))
    offsets = (f"{n}-{n}" if batch.startswith("D") else f"{n}" for n, batch in enumerate(log))
    forge(folder, "; ".join(map(str.format, log, offsets)), topic="p")
