"""Kills ``audit --output`` at system calls: afterwards there is no store, or a whole one, and the next audit succeeds.

``python -m lab.fuzz.kills --every 100``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kforensics.errors import KforensicsError
from kforensics.report_html.store_reader import open_store
from lab.errors import LabError
from lab.fuzz.attack import Weakness, require
from lab.fuzz.cluster_attack import AS_OF
from lab.fuzz.command_run import CLEAN, FINDINGS, run_command
from lab.fuzz.system_calls import run_and_kill
from lab.places import SAMPLES
from lab.progress import say

EVIDENCE = SAMPLES / "classic-transaction"
EVERY = 100


class KilledAudits:
    """Audits that are killed, and the store that one of them writes if it is not.

    Args:
        scratch: an empty folder.

    Attributes:
        calls: number of system calls of a whole audit.
        unfinished: how many killed audits left an unfinished store.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch, self.unfinished = scratch, 0
        whole, self.calls = self._audit(scratch / "whole", None)
        require(whole in {CLEAN, FINDINGS}, "the audit ended with", whole)
        self._tables = tables_of(scratch / "whole")

    def _audit(self, store: Path, kill_at: int | None) -> tuple[int, int]:
        words = ["audit", "--fail-on", "never", *AS_OF, "--output", str(store), str(EVIDENCE)]
        temporary = self._scratch / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
        return run_and_kill([sys.executable, "-m", "kforensics", *words], kill_at, environment)

    def kill_at(self, call: int) -> bool:
        """Kill an audit before a system call, and check what it leaves; return whether it was killed before its end."""
        folder = self._scratch / str(call)
        folder.mkdir()
        store = folder / "store"
        code, _ = self._audit(store, call)
        self.unfinished += any(path != store for path in folder.iterdir())
        looks_whole = _can_be_opened(store)
        if looks_whole:
            require(tables_of(store) == self._tables, "killed at call", call, "a store looks whole and is not")
        else:
            result = run_command("audit", "--fail-on", "never", *AS_OF, "--output", store, EVIDENCE)
            require(result.code == CLEAN, "killed at call", call, "the next audit fails:", result)
            require(tables_of(store) == self._tables, "killed at call", call, "the next audit has other tables")
        temporary = (path for path in (self._scratch / "temporary").iterdir() if not _is_probe(path))
        left = sorted(path.name for path in (*folder.iterdir(), *temporary))
        require(left == ["store"], "killed at call", call, "these files are left:", left)
        return code < 0

    def kill_at_all(self, calls: Iterable[int]) -> int:
        """Kill an audit before each of these system calls; return how many were killed before their end."""
        return sum(self.kill_at(call) for call in calls)


def tables_of(store: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of a store by table, read without the library."""
    folders = sorted(path for path in store.iterdir() if path.is_dir())
    return {folder.name: pq.read_table(folder).to_pylist() for folder in folders}


def _is_probe(path: Path) -> bool:
    """Return whether Python tried with it whether it may write to the folder, as ``tempfile.gettempdir`` does."""
    return path.is_file() and b"blat".startswith(path.read_bytes())


def _can_be_opened(store: Path) -> bool:
    try:
        open_store(str(store))
    except KforensicsError:
        return False
    return True


def main() -> int:
    """Kill an audit at every n-th system call until it ends, and return 1 if it leaves something wrong."""
    parser = argparse.ArgumentParser(prog="python -m lab.fuzz.kills", description=__doc__)
    parser.add_argument("--every", type=int, default=EVERY, metavar="CALLS", help="kill at every so many system calls")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            audits = KilledAudits(Path(scratch))
            killed = audits.kill_at_all(range(options.every, audits.calls + options.every, options.every))
        except (LabError, Weakness) as error:
            say(f"kills: {error}")
            return 1
    say(
        f"kills: {killed} audits killed at every {options.every} of {audits.calls} system calls, "
        f"{audits.unfinished} of them while they wrote the store"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
