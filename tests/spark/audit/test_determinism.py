"""A task that runs again sends on the same bytes: Spark aborts a job whose lost rows come back as others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kforensics.spark.audit import task_sizing
from kforensics.spark.audit.run import SparkRequest
from kforensics.spark.audit.serialization import Address, to_frames, values
from tests.command import ROOT, SAMPLES
from tests.spark.audits import AS_OF_MS, audit_in_process, stored
from tests.spark.stage_bytes import stage_digests

NAMES = ("transactions-v2", "replication", "unclean-election", "duplicates")
IN_SPLITS = {"whole": 0, "split_size": 1, "few": 0, "joins": 3, "records": True}


def _started(seed: int, store: Path, options: Mapping[str, Any]) -> subprocess.Popen[str]:
    """Begin an audit in a process of its own, which hashes text as no other does."""
    paths = [str(SAMPLES / name) for name in NAMES]
    request = json.dumps({"paths": paths, "output": str(store), "as_of_ms": AS_OF_MS, **options})
    variables = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-m", "tests.spark.stage_bytes", str(seed), request]
    return subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, IN_SPLITS], ids=["whole", "in-splits-with-records"])
def test_a_task_that_runs_again_sends_on_the_same_bytes(tmp_path: Path, options: Mapping[str, Any]) -> None:
    """In another process, after other tasks, and whatever the order in which its input arrives."""
    outputs = []
    for seed in (1, 2):
        process = _started(seed, tmp_path / f"store-{seed}", options)
        outputs.append(json.loads(process.communicate(timeout=300)[0]))
        assert process.returncode == 0
    first, second = outputs
    assert first.keys() == second.keys()
    # What the tasks that list folders return goes to the driver alone, with the names of the files of their attempts.
    sent = {stage: digests for stage, digests in first.items() if "listed" not in stage}
    assert [stage for stage, digests in sent.items() if digests != second[stage]] == []
    # The stages of the test are those of a job: its tasks evaluate partitions and their replicas.
    assert sum(map(len, first.values())) > 100
    names = {stage.split("-")[1] for stage in first}
    assert "met.copies" in names
    assert any("joined" in name for name in names) == ("joins" in options)


@pytest.mark.slow
def test_answers_of_many_small_tasks_are_all_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More small tasks than one task combines, and no partition that is split: a few gigabytes of small partitions."""
    monkeypatch.setattr(task_sizing, "LEAST_TOGETHER", 1)
    monkeypatch.setattr(task_sizing, "TASKS", 10)
    paths = [str(SAMPLES / name) for name in ("transactions-v2", "duplicates")]
    request = SparkRequest((*paths,), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS, few=0)
    ended = [stage for stage in stage_digests(1, request) if ".ended" in stage or "-ended" in stage]
    assert len(ended) > 5
    expected = audit_in_process(paths, tmp_path / "expected")
    found = stored(tmp_path / "store")
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_values_with_the_same_address_are_refused() -> None:
    """One of them would be lost."""
    rows = [*to_frames(Address(1, 2, 3, 4), "one"), *to_frames(Address(1, 2, 3, 4), "other")]
    with pytest.raises(ValueError, match="several values have the address"):
        list(values(rows))
