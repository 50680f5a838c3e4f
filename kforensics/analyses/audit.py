"""The audit: every partition under some paths, judged by all checks, into an evidence store and a report."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from kforensics.analyses.partitions import Investigation
from kforensics.analyses.pool import comparisons, judgements
from kforensics.forensics.audit.audit_scope import Asked
from kforensics.forensics.audit.cluster_input import Contribution
from kforensics.forensics.audit.copies import copies_among
from kforensics.forensics.audit.cross_partition_duplicates import judged_duplicates
from kforensics.forensics.audit.deferred_verdicts import settled
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.audit.topic_keys import judged_topics
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.tables.schemas import TABLES, Table
from kforensics.version import __version__

__all__ = ["STORED", "AuditRequest", "Stages", "audited", "judged", "sha256_of", "size_of", "without_secrets"]

# What a store has beside the verdicts: whose bytes they speak of, and which of them could not be read.
STORED: dict[str, Table] = {name: TABLES[name] for name in ("files", "damage")} | RESULTS
# As Spark's own spark.redaction.regex, and for variables of an environment; up to the sign behind which the secret is.
SECRET = re.compile(r"(.*?(?:secret|password|token|access[._]?key)[^=]*=).+", re.IGNORECASE | re.DOTALL)
PIECE = 1 << 20
Advance = Callable[[int], object]
Judgements = Generator[Judgement, None, None]


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """How to audit.

    Attributes:
        output: folder of the evidence store, None for none.
        processes: how many to use; None for one that reads in several threads or, for much, one per processor.
        families: which findings, a name in ``families.GROUPS``.
        records: whether records are decoded, checked and searched for what is there twice, and keys looked at.
        copies: whether copies of the same partition are held against each other.
        checksums: whether the manifest gets the SHA-256 of every input.
        command: what was asked, for the manifest.
        split_size: bytes of the pieces in which processes read large segments, about.
    """

    output: Path | None = None
    processes: int | None = None
    families: str = "all"
    records: bool = False
    copies: bool = False
    checksums: bool = False
    command: tuple[str, ...] = ()
    split_size: int = SPLIT_SIZE


@dataclass(slots=True)
class Stages:
    """How long the stages of an audit took.

    Attributes:
        seconds: by the name of the stage.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that a block takes to a stage."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun


# From so many bytes on, a second process is worth its start.
WORTH_A_POOL = 1 << 32


def size_of(found: Investigation, request: AuditRequest) -> int:
    """Return how many bytes :func:`judged` reads."""
    copies = copies_among(found.partitions, found.clusters) if request.copies else ()
    return sum(partition.size for partition in found.partitions) + sum(one.size for one in copies)


def judged(found: Investigation, request: AuditRequest, advance: Advance) -> Judgements:
    """Yield what is to be said of the partitions, in their order, and then of several together.

    Where partitions are judged as a cluster, their verdicts come last; before that there are rows that are not counted.

    Args:
        found: the partitions.
        request: how to audit.
        advance: told how many more bytes are done.
    """
    clusters = found.clusters if request.families == "all" else None
    asked = Asked(found.rules, request.families, records=request.records, clusters=clusters)
    processes = request.processes
    if processes is None:
        processes = len(os.sched_getaffinity(0)) if size_of(found, request) >= WORTH_A_POOL else None
    contributions: list[Contribution] = []
    split_size = request.split_size
    for judgement in judgements(found.partitions, asked, advance, processes=processes, split_size=split_size):
        if judgement.contribution:
            contributions.append(judgement.contribution)
        yield replace(judgement, contribution=None)
    yield from settled(contributions, found.rules)
    if request.copies:
        copies = copies_among(found.partitions, found.clusters)
        yield from comparisons(copies, found.rules, advance, processes=processes)
    if request.records:
        yield from judged_topics(found.partitions, found.clusters, found.rules, workers=None)
        yield from judged_duplicates(found.partitions, found.clusters, found.rules, workers=None)


def audited(found: Investigation, request: AuditRequest, advance: Advance, stages: Stages) -> Judgements:
    """Yield judgements as :func:`judged` does, and write all of them into the evidence store.

    The store appears once the last judgement was taken.

    Args:
        found: the partitions.
        request: how to audit, with an output.
        advance: told how many more bytes are done.
        stages: takes the times.

    Raises:
        UsageError: the store cannot be written.
    """
    if request.output is None:
        yield from judged(found, request, advance)
        return
    from kforensics.render.store import EvidenceStore  # only a store needs Arrow

    with EvidenceStore(request.output) as store:
        begun = time.perf_counter()
        store.add_values(STORED["files"], map(attrgetter(*STORED["files"].names), found.files))
        for judgement in judged(found, request, advance):
            stages.seconds["examine"] = time.perf_counter() - begun
            with stages.stage("write"):
                for rows in judgement.rows.values():
                    store.add(rows)
                store.add_values(STORED["damage"], judgement.damage)
            yield judgement
        with stages.stage("checksums"):
            inputs = [_input(file, with_checksum=request.checksums) for file in found.files]
        store.finish(STORED, _manifest(found, request, inputs, stages))


def _manifest(
    found: Investigation, request: AuditRequest, inputs: list[dict[str, Any]], stages: Stages
) -> dict[str, Any]:
    return {
        "schema": "kforensics-store/1",
        "version": __version__,
        "command": list(request.command),
        "as_of_ms": found.rules.as_of_ms,
        "options": {
            "processes": request.processes,
            "records": request.records,
            "checksums": request.checksums,
        },
        "partitions": len(found.partitions),
        "unreadable": found.unreadable,
        "inputs": inputs,
        "seconds": {name: round(seconds, 3) for name, seconds in stages.seconds.items()},
    }


def _input(found: FoundFile, *, with_checksum: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"path": found.path, "size": found.size, "mtime_ms": found.mtime_ms}
    if with_checksum:
        said["sha256"] = sha256_of(found.path)
    return said


def sha256_of(path: str) -> str | None:
    """Return the SHA-256 of a file, None if it cannot be read any more."""
    digest = hashlib.sha256()
    try:
        with open_source(path) as source:
            for position in range(0, source.size, PIECE):
                digest.update(source.read(position, PIECE))
    except OSError:
        return None
    return digest.hexdigest()


def without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command as a manifest may have them: properties of Spark may be passwords."""
    return tuple(f"{found[1]}…" if (found := SECRET.fullmatch(word)) else word for word in words)
