"""Collects what the partitions of a plan show of the settings, in one stage of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kforensics.forensics.audit.setting_evidence import SettingEvidence, setting_evidence
from kforensics.spark.audit.audit_job import NUMBERED, Plan, mapped
from kforensics.spark.audit.listing import PARTITION
from kforensics.spark.audit.serialization import Row, deserialize, serialize

__all__ = ["setting_evidence_of"]


def setting_evidence_of(plan: Plan, as_of_ms: int) -> list[SettingEvidence]:
    """Return what the partitions of a plan show of the settings, in the order of their numbers.

    Args:
        plan: the partitions.
        as_of_ms: time of evaluation.
    """
    partitions = plan.frame.where(plan.frame.kind == PARTITION)
    found = mapped(partitions, [partial(_setting_evidence, as_of_ms=as_of_ms)], NUMBERED).toArrow()
    return [deserialize(payload) for payload in found.sort_by("number")["payload"].to_pylist()]


def _setting_evidence(rows: Iterator[Row], as_of_ms: int) -> Iterator[Row]:
    for _, number, *_, payload in rows:
        if evidence := setting_evidence(deserialize(payload), as_of_ms):
            yield number, serialize(evidence)
