"""All families about clusters together: each code was seen to fire and to stay silent."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

import pytest

from kforensics.forensics import families as of_partitions
from kforensics.forensics.cluster.families import FAMILIES
from kforensics.forensics.findings import Code, Severity


def _name(family: ModuleType) -> str:
    return family.__name__.rpartition(".")[2]


families = pytest.mark.parametrize("family", FAMILIES, ids=_name)


@families
def test_every_code_was_seen_to_fire_and_to_stay_silent(family: ModuleType) -> None:
    tests = import_module(f"tests.forensics.cluster.checks.test_{_name(family)}")
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


@families
def test_borrowed_codes_are_those_of_the_partitions(family: ModuleType) -> None:
    owned = {name: code for one in of_partitions.FAMILIES for name, code in one.CODES.items()}
    borrowed: dict[str, Code] = getattr(family, "BORROWED", {})
    assert all(owned[name] is code for name, code in borrowed.items())


def test_a_code_is_of_one_family() -> None:
    names = [name for family in (*of_partitions.FAMILIES, *FAMILIES) for name in family.CODES]
    assert len(names) == len(set(names))
