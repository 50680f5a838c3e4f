"""All families of findings together: each code was seen to fire and to stay silent, and healthy logs raise no alarm."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from kforensics.forensics.audit.partition_result import findings_of, noters_of
from kforensics.forensics.checks.cluster_checks import FAMILIES as CLUSTER_FAMILIES
from kforensics.forensics.checks.key_checks import KEY_FAMILIES
from kforensics.forensics.checks.partition_checks import FAMILIES, GROUPS
from kforensics.forensics.checks.replica_checks import REPLICA_FAMILIES
from kforensics.forensics.checks.topic_checks import TOPIC_FAMILIES
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.cases import SAMPLES, partitions_under

MINUTE = 60_000
# What real brokers were made to do wrong, or to lose: the findings are right, and no others of their severity come.
PROVOKED: dict[str, set[str]] = {
    # The broker had forgotten the producers when they wrote again.
    "duplicates/broker-1/expired-0": {"seq-duplicate-batch", "seq-gap"},
    "duplicates/broker-1/import-0": {"seq-duplicate-batch"},
    # It had lost its snapshots: it took what it should have refused, and wrote snapshots without what it did not know.
    "state-lost-after-stop/broker-1/ended-late-0": {"snapshot-open-txn-mismatch"},
    "state-lost-after-stop/broker-1/open-0": {"snapshot-open-txn-mismatch"},
    "state-lost-after-stop/broker-1/gap-0": {"seq-gap"},
    "state-lost-after-stop/broker-1/retried-0": {"seq-duplicate-batch"},
    "state-lost-after-stop/broker-1/zombie-0": {"epoch-regressed", "txn-write-after-marker"},
}


def _name(family: ModuleType) -> str:
    return family.__name__.rpartition(".")[2]


EVERY = [
    *((family, "tests.forensics.checks") for family in FAMILIES),
    *((family, "tests.forensics.cluster.checks") for family in CLUSTER_FAMILIES),
    *((family, "tests.forensics.replicas.checks") for family in REPLICA_FAMILIES),
    *((family, "tests.forensics.keys.checks") for family in KEY_FAMILIES),
    *((family, "tests.forensics.twice.checks") for family in TOPIC_FAMILIES),
]
families = pytest.mark.parametrize(("family", "tests"), EVERY, ids=[_name(family) for family, _ in EVERY])


@families
def test_every_code_was_seen_to_fire_and_to_stay_silent(family: ModuleType, tests: str) -> None:
    module = import_module(f"{tests}.test_{_name(family)}")
    for seen in (module.FIRES, module.SILENT):
        assert seen.keys() == family.CODES.keys()
        for test in seen.values():
            assert inspect.isfunction(getattr(module, test)), test
            assert test.startswith("test_")


@families
def test_every_code_says_what_it_means_and_what_to_do(family: ModuleType, tests: str) -> None:
    for name, code in family.CODES.items():
        assert code.name == name
        assert code.meaning.endswith(".")
        assert code.remedy.endswith(".") or (code.severity is Severity.INFO and not code.remedy)


def test_a_code_is_of_one_family() -> None:
    names = [name for family, _ in EVERY for name in family.CODES]
    assert len(names) == len(set(names))
    assert set(GROUPS["evidence"]) | set(GROUPS["holders"]) <= set(GROUPS["all"])


def _scenarios() -> Iterator[tuple[Partition, int]]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        as_of = _as_of(path)
        for partition in partitions_under(path.parent):
            yield partition, as_of


def _as_of(truth: Path) -> int:
    """Return when the broker was stopped: what it last said was then at most some seconds old."""
    asked = json.loads(truth.read_text("utf-8"))["taken"]
    return int(datetime.fromisoformat(asked).timestamp() * 1000) + MINUTE


@pytest.mark.parametrize(
    ("partition", "as_of"),
    [pytest.param(*found, id=str(Path(found[0].folder).relative_to(SAMPLES))) for found in _scenarios()],
)
def test_what_real_brokers_wrote_raises_no_alarm(partition: Partition, as_of: int) -> None:
    """Compacted, transactional, trimmed, torn, old and new: nothing at error or above that was not provoked."""
    case = examine(partition, Rules(as_of), noters_of(FAMILIES), watches_indexes=True)
    found = {one.code.name for one in findings_of(case, FAMILIES) if one.severity >= Severity.ERROR}
    assert found == PROVOKED.get(str(Path(partition.folder).relative_to(SAMPLES)), set())
