"""What a check says when it is not content: a code that stays the same, how bad it is, where, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

__all__ = ["Code", "Exactness", "Finding", "Severity", "codes"]

# Begin the lines of a code that only a reader with time wants.
LABELS = ("why: ", "innocent: ")


class Severity(IntEnum):
    """How bad a finding is; larger is worse."""

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
        name: its code, which never changes.
        severity: how bad it is, unless a check knows better.
        meaning: what it says, as a sentence.
        remedy: what an operator does about it, as a sentence; ``{topic}``, ``{partition}``, ``{first_offset}``,
            ``{producer_id}``, ``{path}`` and ``{transactional_id}`` stand for those of the finding. Empty where
            there is nothing to be done.
        why: how it comes about, and what it leads to, for the page on findings.
        innocent: what else may look like it, and what to read off that.
    """

    name: str
    severity: Severity
    meaning: str
    remedy: str = ""
    why: str = ""
    innocent: str = ""


def codes(text: str) -> dict[str, Code]:
    """Return the codes of a family by name.

    Args:
        text: a paragraph for each: ``code severity``, a line that says what it means, maybe one that says what to do,
            and lines that begin with ``why:`` and ``innocent:``.

    >>> code = codes('''
    ... control-shell info
    ... An empty control batch.
    ... why: The cleaner empties a batch and keeps its header.
    ... ''')["control-shell"]
    >>> code.meaning, code.remedy, code.why
    ('An empty control batch.', '', 'The cleaner empties a batch and keeps its header.')
    """
    return {code.name: code for code in map(_code, text.strip().split("\n\n"))}


def _code(paragraph: str) -> Code:
    head, *lines = paragraph.strip().splitlines()
    name, severity = head.split()
    sentences = [line for line in lines if not line.startswith(LABELS)]
    labelled = dict(line.split(": ", 1) for line in lines if line.startswith(LABELS))
    return Code(name, Severity[severity.upper()], *sentences, **labelled)


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in one partition.

    Attributes:
        code: which kind.
        message: what was found, as a sentence with the figures in it.
        severity: how bad it is here.
        first_offset: first offset it is about, None if it is about none.
        last_offset: last one.
        producer_id: whose batches it is about, None if nobody's in particular.
        producer_epoch: their epoch.
        path: file with the evidence.
        position: byte position in it.
        evidence: figures behind the message, as JSON has them.
        exactness: how far it can be trusted.
        benign: innocent explanations that were tested, each with the outcome, as a phrase.
        cause: code of the finding it follows from, None if it stands for itself.
        remedy: what to do about it, where more is known than the code says of all of its kind; None where not.
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
