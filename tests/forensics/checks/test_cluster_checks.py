"""Cluster checks share codes with partition checks: they are the same objects."""

from __future__ import annotations

from kforensics.forensics.checks.cluster import hanging, transactional_ids, unfinished
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS


def test_shared_codes_are_those_of_the_partition_checks() -> None:
    owned = {name: code for check in PARTITION_CHECKS for name, code in check.codes.items()}
    borrowed = {**hanging.SHARED_CODES, **transactional_ids.SHARED_CODES, **unfinished.SHARED_CODES}
    assert borrowed
    assert all(owned[name] is code for name, code in borrowed.items())
