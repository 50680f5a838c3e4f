"""Families about clusters: what they take from those of a partition alone is theirs."""

from __future__ import annotations

from types import ModuleType

import pytest

from kforensics.forensics.checks import partition_checks as of_partitions
from kforensics.forensics.checks.cluster_checks import FAMILIES
from kforensics.forensics.core.findings import Code


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rpartition(".")[2])
def test_borrowed_codes_are_those_of_the_partitions(family: ModuleType) -> None:
    owned = {name: code for one in of_partitions.FAMILIES for name, code in one.CODES.items()}
    borrowed: dict[str, Code] = getattr(family, "BORROWED", {})
    assert all(owned[name] is code for name, code in borrowed.items())
