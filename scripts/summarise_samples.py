"""Prints a line per folder of sample_logs/: how many files, batches, records, markers and damaged ranges are in it.

It asks nothing but the public library, ``kforensics.dump``.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

import kforensics

ROOT = Path(__file__).resolve().parent.parent
NO_EVIDENCE = ("golden",)
HEADINGS = ("folder", "files", "batches", "records", "committed", "aborted", "damaged", "torn or unused")
# What a crash or a copy of a running broker leaves at the end of a file.
TAILS = ("truncated", "zero-tail", "ragged")


def main() -> int:
    """Print the summary; returns the exit code."""
    rows = [HEADINGS, *summary(ROOT / "sample_logs")]
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(HEADINGS))]
    for name, *numbers in rows:
        cells = [f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=True)]
        print("  ".join([f"{name:<{widths[0]}}", *cells]))
    return 0


def summary(samples: Path) -> Iterator[tuple[str | int, ...]]:
    """Yield the row of every folder, and the sum of all."""
    folders = [folder for folder in sorted(samples.iterdir()) if folder.is_dir() and folder.name not in NO_EVIDENCE]
    rows = [counts(folder) for folder in folders]
    for folder, row in zip(folders, rows, strict=True):
        yield folder.name, *row
    yield ("all", *map(sum, zip(*rows, strict=True)))


def counts(folder: Path) -> tuple[int, ...]:
    """Return the numbers behind the name of a folder."""
    found = kforensics.dump(folder)
    markers, reasons = found.batches["control_type"], found.damage["reason"].to_pylist()
    tails = sum(reason in TAILS for reason in reasons)
    commits, aborts = (pc.sum(pc.equal(markers, name)).as_py() or 0 for name in ("COMMIT", "ABORT"))
    rows = (len(found.files), found.batches.num_rows, found.records.num_rows)
    return (*rows, commits, aborts, len(reasons) - tails, tails)


if __name__ == "__main__":
    sys.exit(main())
