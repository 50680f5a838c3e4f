"""Cluster checks share codes with partition checks: they are the same objects."""

from __future__ import annotations

from kforensics.forensics.checks.cluster import decided_markers, hanging, transactional_ids, unfinished
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS


def test_shared_codes_are_those_of_the_partition_checks() -> None:
    owned = {name: code for check in PARTITION_CHECKS for name, code in check.codes.items()}
    sharing = (decided_markers, hanging, transactional_ids, unfinished)
    borrowed = {name: code for module in sharing for name, code in module.SHARED_CODES.items()}
    assert borrowed
    assert all(owned[name] is code for name, code in borrowed.items())
