"""Findings: what a check found, with a stable code, severity, place, evidence and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

__all__ = ["Code", "Exactness", "Finding", "FindingSelection", "Severity", "by_name"]


class Severity(IntEnum):
    """Severity of a finding; larger is worse."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    CRITICAL = 3

    def __str__(self) -> str:
        return self.name.lower()


class Exactness(StrEnum):
    """How far a finding can be trusted."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding.

    Attributes:
        name: its stable name.
        severity: default severity; a check may choose another one.
        meaning: what was found, as a sentence.
        remedy: what an operator should do, as a sentence; ``{topic}``, ``{partition}``, ``{first_offset}``,
            ``{producer_id}``, ``{path}`` and ``{transactional_id}`` are replaced by those of the finding. Empty if no
            action is needed.
        why: cause and consequences, for the page of findings.
        benign: harmless causes that can look the same, and how to recognize them.
    """

    name: str
    severity: Severity
    meaning: str
    remedy: str = ""
    why: str = ""
    benign: str = ""


def by_name(*codes: Code) -> dict[str, Code]:
    """Return codes by name."""
    return {code.name: code for code in codes}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in one partition.

    Attributes:
        code: its kind.
        message: what was found, as a sentence with the values in it.
        severity: its severity here.
        first_offset: first offset concerned, None if no offset is.
        last_offset: last offset concerned.
        producer_id: producer concerned, None if no single producer is.
        producer_epoch: epoch of the producer.
        path: file with the evidence.
        position: byte position in the file.
        evidence: the values that the message is based on, as JSON.
        exactness: how far it can be trusted.
        benign: benign explanations that were tested, each with the result, as a phrase.
        cause: code of the finding that this one follows from, None if there is none.
        remedy: what to do, if more is known than the remedy of the code says; None otherwise.
    """

    code: Code
    message: str
    severity: Severity
    first_offset: int | None = None
    last_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    path: str | None = None
    position: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    exactness: Exactness = Exactness.EXACT
    benign: tuple[str, ...] = ()
    cause: str | None = None
    remedy: str | None = None

    @property
    def occurrences(self) -> int:
        """How many findings this one counts as: itself, and those after it that were left out."""
        left_out = self.evidence.get("left_out", 0)
        return 1 + left_out if isinstance(left_out, int) else 1


@dataclass(frozen=True, slots=True)
class FindingSelection:
    """Which findings to show.

    Attributes:
        minimum: the least severity, None for all findings.
        codes: only these codes; all if it is empty.
    """

    minimum: Severity | None = None
    codes: frozenset[str] = frozenset()

    def has(self, severity: Severity, codes: Iterable[str]) -> bool:
        """Return whether a finding, or an incident with findings of some codes, is selected."""
        if self.minimum is None:
            return True
        return severity >= self.minimum and (not self.codes or not self.codes.isdisjoint(codes))

    def of(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return those of some findings that are selected."""
        return tuple(finding for finding in findings if self.has(finding.severity, (finding.code.name,)))
