"""``python -m benchmarks.scale``: what the audit on Spark costs as data, partitions and splits become many."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.scale import parts
from benchmarks.scale.measuring import Bench, Row
from benchmarks.tables import aligned
from lab.errors import LabError

PARTS: Mapping[str, Callable[[Bench, argparse.Namespace], Iterator[tuple[str, Sequence[Row]]]]] = {
    "bars": parts.bars,
    "growth": parts.growth,
    "skew": parts.skew,
    "transactions": parts.transactions,
    "partitions": parts.partitions,
    "planning": parts.planning,
    "merging": parts.merging,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every part that is selected, print its tables; 1 when something failed."""
    options = _options(arguments)
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    taken: dict[str, list[Row]] = {}
    try:
        for part in options.parts:
            for title, rows in PARTS[part](Bench(options.rounds), options):
                taken.setdefault(part, []).extend(rows)
                print("\n".join(["", title, *aligned([tuple(rows[0]), *map(_cells, rows)])]), flush=True)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(taken, indent=1), "utf-8")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Measure the audit on Spark.")
    help_text = f"what to measure, of {', '.join(PARTS)} (default: all)"
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART", help=help_text)
    help_text = "how often audits run (default: %(default)s)"
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help=help_text)
    help_text = "partitions of 1 GB to audit (default: 1 2 4 8)"
    parser.add_argument("--gigabytes", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help=help_text)
    help_text = "kinds of segments, alternating, for the bars (default: txn plain)"
    parser.add_argument("--kinds", nargs="+", default=[*parts.KINDS], metavar="KIND", help=help_text)
    for name, default, meaning in (
        ("held", 8, "partitions of 1 GB that are held to the bars"),
        ("large", 4000, "MB of the partition among small ones"),
        ("small", 2000, "how many small ones"),
        ("transactions", 20_000_000, "in one partition"),
        ("partitions", 100_000, "tiny ones"),
        ("planned", 1000, "GB of splits to be planned, the most"),
        ("summaries", 1_000_000, "of splits to be joined, the most"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    return parser.parse_args(arguments)


def _cells(row: Row) -> list[str]:
    return [cell if isinstance(cell, str) else _number(cell) for cell in row.values()]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
