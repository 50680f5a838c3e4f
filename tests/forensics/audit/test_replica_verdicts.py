"""The verdict of a replica includes what its comparison with others found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.analyses.audit import STORED
from kforensics.render.evidence_store import StoredTables
from tests.command import SAMPLES, run
from tests.forensics.replicas.replicas import forged

AS_OF = "2026-11-21T13:00"


def partitions_in(store: Path) -> list[dict[str, Any]]:
    """Return the rows of the partitions in an evidence store."""
    rows: list[dict[str, Any]] = dict(StoredTables(str(store), [*STORED]).items())["partitions"].to_pylist()
    return rows


@pytest.mark.parametrize("processes", [1, 2])
def test_both_replicas_of_a_divergence_are_critical(tmp_path: Path, processes: int) -> None:
    """One of them has a harmless finding of its own, too."""
    store = tmp_path / "store"
    options = ("--as-of", AS_OF, "--processes", processes, "--output", store)
    ended = run("audit", *options, SAMPLES / "replication")
    assert ended.lines[1].startswith("partitions by worst finding: 2 critical, ")
    critical = [row for row in partitions_in(store) if row["verdict"] == "critical"]
    assert [(row["topic"], row["broker_id"], row["findings"]) for row in critical] == [
        ("unclean", 2, 1),
        ("unclean", 3, 2),
    ]


def test_replicas_that_only_lag_are_clean(tmp_path: Path) -> None:
    forged(tmp_path, ("plain @0-4", {}), ("plain @0-4; plain @5-9", {"high_watermark": 5}))
    ended = run("audit", "--as-of", "2023-11-14T22:14", tmp_path)
    assert ended.lines[0].startswith("INFO: 2 partitions, ")
    assert ended.lines[1] == "partitions by worst finding: 2 clean"
