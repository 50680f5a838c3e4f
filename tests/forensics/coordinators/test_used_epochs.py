"""Whether the epochs of a producer are nearly used up by design, according to its coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

import kforensics
from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge

OPEN = f"D 1 32100 0-0 @0-0 T {at(11)}"


def fenced(count: int, version: int) -> str:
    """Return the records of an id that is initialized again and again, and then writes."""
    inits = "; ".join(f"a Empty 1 {32_100 - count + number} tv {version} t {number}" for number in range(1, count + 1))
    return f"{inits}; a Ongoing 1 32100 tv {version} {{t-0}} t 100"


@pytest.mark.parametrize(
    ("log", "severity"),
    [
        pytest.param(fenced(1, 2), "info", id="first transaction in the partition"),
        pytest.param(fenced(1, 0), "warning", id="version 0 or 1"),
        pytest.param(fenced(3000, 0), "warning", id="thousands of instances"),
        pytest.param(fenced(20, 2), "warning", id="many instances of version 2"),
        pytest.param(f"{fenced(1, 0)}; a Empty 50 0 prev 1 t 120", "info", id="new producer id"),
        pytest.param("b Empty 2 0 tv 2 t 1; b Ongoing 2 0 tv 2 {t-0} t 100", "warning", id="unknown producer"),
    ],
)
def test_epochs_that_are_nearly_used_up(log: str, severity: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, log)
    forge(tmp_path, OPEN)
    found = kforensics.audit(tmp_path).findings.to_pylist()
    (near,) = (row for row in found if row["code"] == "epoch-near-exhaustion")
    assert (near["topic"], near["severity"]) == ("t", severity)


@pytest.mark.parametrize(
    ("log", "impact"),
    [
        (
            "a Empty 1 32766 t 1",
            "At its last epoch the producer needs a new producer id. Without one, it cannot go on.",
        ),
        ("a Empty 1 32766 t 1; a Empty 50 0 prev 1 t 9", None),
    ],
)
def test_a_producer_is_in_trouble_until_it_has_a_new_id(log: str, impact: str | None, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, log)
    forge(tmp_path, "D 1 32766 0-0 @0-0 T; M 1 32766 C 4 @1")
    (row,) = (row for row in kforensics.audit(tmp_path).incidents.to_pylist() if row["kind"] == "producer-epochs")
    assert row["impact"] == impact
