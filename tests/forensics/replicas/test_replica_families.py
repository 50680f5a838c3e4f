"""All families of findings on replicas: each code was seen to fire and to stay silent, a healthy cluster is silent."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

import pytest

from kforensics.forensics.families import FAMILIES
from kforensics.forensics.findings import Severity
from kforensics.forensics.judgement import all_codes
from kforensics.forensics.replicas.families import REPLICA_FAMILIES
from kforensics.forensics.replicas.judgement import findings_on
from tests.forensics.replicas.replicas import GROUPS, compared_group


def _name(family: ModuleType) -> str:
    return family.__name__.rpartition(".")[2]


families = pytest.mark.parametrize("family", REPLICA_FAMILIES, ids=_name)


@families
def test_every_code_was_seen_to_fire_and_to_stay_silent(family: ModuleType) -> None:
    tests = import_module(f"tests.forensics.replicas.checks.test_{_name(family)}")
    for seen in (tests.FIRES, tests.SILENT):
        assert seen.keys() == family.CODES.keys()
        for test in seen.values():
            assert inspect.isfunction(getattr(tests, test)), test
            assert test.startswith("test_")


@families
def test_every_code_says_what_it_means_and_what_to_do(family: ModuleType) -> None:
    for name, code in family.CODES.items():
        assert code.name == name
        assert code.meaning.endswith(".")
        assert code.remedy.endswith(".") or (code.severity is Severity.INFO and not code.remedy)


def test_a_code_is_of_one_family() -> None:
    names = [name for family in REPLICA_FAMILIES for name in family.CODES]
    assert len(names) == len(set(names))
    assert not set(names) & all_codes(FAMILIES).keys()


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_healthy_cluster_wrote_raises_no_alarm(name: str) -> None:
    """Leaders killed, stopped and elected, replicas moved and set aside: nothing at error or above but one election."""
    found = {one.code.name for one in findings_on(compared_group(name)) if one.severity >= Severity.WARNING}
    assert found == ({"replica-divergence"} if name.startswith("unclean") else set())
