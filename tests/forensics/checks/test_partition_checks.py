"""All checks: every code has tests that fire it and keep it silent, and healthy logs raise no alarm."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.checks.check import Check, collectors_of, findings_of
from kforensics.forensics.checks.partition_checks import CHECK_GROUPS, PARTITION_CHECKS
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.partition_states import SAMPLES, partitions_under

MINUTE = 60_000
# What the lab made real brokers do wrong or lose: exactly these findings of their severity are right.
PROVOKED: dict[str, set[str]] = {
    # The broker had expired the producers when they wrote again.
    "duplicates/broker-1/expired-0": {"seq-duplicate-batch", "seq-gap"},
    "duplicates/broker-1/import-0": {"seq-duplicate-batch"},
    # It had lost its snapshots: it accepted what it should have rejected, and wrote incomplete snapshots.
    "state-lost-after-stop/broker-1/ended-late-0": {"snapshot-open-txn-mismatch"},
    "state-lost-after-stop/broker-1/open-0": {"snapshot-open-txn-mismatch"},
    "state-lost-after-stop/broker-1/gap-0": {"seq-gap"},
    # Without its settings: a broker that expires producers after 4 s.
    "producer-expiry/broker-1/gap-0": {"seq-gap"},
    "state-lost-after-stop/broker-1/retried-0": {"seq-duplicate-batch"},
    "state-lost-after-stop/broker-1/zombie-0": {"epoch-regressed", "txn-write-after-marker"},
}


checks = pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.name)


@checks
def test_every_code_has_a_test_that_fires_and_one_that_stays_silent(check: Check[Any, Any]) -> None:
    """The test module of each check names both tests for each of its codes."""
    room = check.findings.__module__.removeprefix("kforensics.").rpartition(".")[0]
    module = import_module(f"tests.{room}.test_{check.name}")
    for seen in (module.FIRES, module.SILENT):
        assert seen.keys() == check.codes.keys()
        for test in seen.values():
            assert inspect.isfunction(getattr(module, test)), test
            assert test.startswith("test_")


@checks
def test_every_code_has_a_meaning_and_a_remedy(check: Check[Any, Any]) -> None:
    for name, code in check.codes.items():
        assert code.name == name
        assert code.meaning.endswith(".")
        assert code.remedy.endswith(".") or (code.severity is Severity.INFO and not code.remedy)


def test_a_code_belongs_to_one_check() -> None:
    names = [name for check in ALL_CHECKS for name in check.codes]
    assert len(names) == len(set(names))
    grouped = {check.name for group in ("evidence", "blocking") for check in CHECK_GROUPS[group]}
    assert grouped <= {check.name for check in CHECK_GROUPS["all"]}


def _scenarios() -> Iterator[tuple[Partition, int]]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        as_of = _as_of(path)
        for partition in partitions_under(path.parent):
            yield partition, as_of


def _as_of(truth: Path) -> int:
    """Return when the broker was stopped; its last report was at most a few seconds old."""
    taken = json.loads(truth.read_text("utf-8"))["taken"]
    return int(datetime.fromisoformat(taken).timestamp() * 1000) + MINUTE


@pytest.mark.parametrize(
    ("partition", "as_of"),
    [pytest.param(*scenario, id=str(Path(scenario[0].folder).relative_to(SAMPLES))) for scenario in _scenarios()],
)
def test_what_real_brokers_wrote_raises_no_alarm(partition: Partition, as_of: int) -> None:
    """Compacted, transactional, trimmed, torn, old and new logs: no error or critical finding that was not provoked."""
    state = examine(partition, Rules(as_of), collectors_of(PARTITION_CHECKS), watches_indexes=True)
    finding = {result.code.name for result in findings_of(state, PARTITION_CHECKS) if result.severity >= Severity.ERROR}
    assert finding == PROVOKED.get(str(Path(partition.folder).relative_to(SAMPLES)), set())
