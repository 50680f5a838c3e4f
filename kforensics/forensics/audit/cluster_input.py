"""What a partition adds to what is judged across all of them, and what is put off until that is known."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cluster_result import coordinator_history, group_commits, is_coordinator
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.core.cluster_tables import COORDINATOR_TRANSACTIONS, GROUP_OFFSETS
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.spill_file import RowFile
from kforensics.forensics.metadata.topic_metadata import topics_in
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, Case
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.tables.schemas import Table

__all__ = ["PUT_OFF", "Contribution", "contributing"]

# Rows that the coordinators may still change.
PUT_OFF = ("partitions", "findings")
INTERNAL = (TRANSACTION_STATE, CONSUMER_OFFSETS)
BYTE = np.dtype("u1")


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a partition adds; it may travel.

    Attributes:
        cluster: name of its cluster.
        judgement: what is said of the partition alone, without the rows that are said already.
        markers: the ends of its transactions; None for a coordinator's log.
        history: what a transaction coordinator wrote into it, None if none did.
        commits: the same of a group coordinator.
        partition_counts: of the topics of both, if this is the cluster's metadata.
    """

    cluster: str
    judgement: Judgement
    markers: Markers | None = None
    history: History | None = None
    commits: Commits | None = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)


def contributing(judgement: Judgement, case: Case, clusters: Clusters) -> Judgement:
    """Return what is said of a partition, with what it adds to its cluster if there is anything to be judged there.

    Then the verdict is put off: the rows of PUT_OFF come along in the contribution alone.

    Args:
        judgement: what is said of the partition alone.
        case: the partition; the log of a coordinator is read once more.
        clusters: all clusters.

    Raises:
        InputError: a segment cannot be read.
    """
    cluster = clusters.name_of(case.partition)
    if not clusters.is_judged(cluster):
        return judgement
    late = {name: rows for name, rows in judgement.rows.items() if name in PUT_OFF}
    rows = {name: rows for name, rows in judgement.rows.items() if name not in PUT_OFF}
    alone = Contribution(cluster, replace(judgement, rows=late, damage=()))
    added, more = _added(alone, case, has_coordinators=cluster in clusters.coordinated)
    early = replace(judgement, rows={**rows, **more}, findings=(), stable=None, is_counted=False)
    return replace(early, contribution=added)


def _added(alone: Contribution, case: Case, *, has_coordinators: bool) -> tuple[Contribution, Mapping[str, RowStream]]:
    """Return the contribution, and rows of the coordinator's records."""
    if is_coordinator(case):
        kept = _Kept(COORDINATOR_TRANSACTIONS)
        return replace(alone, history=coordinator_history(case, kept.add)), kept.rows()
    markers = Markers.of(case)
    if not has_coordinators:
        markers = replace(markers, marks=markers.marks[:0])  # nobody will ask for them
    alone = replace(alone, markers=markers, partition_counts=_counts(case))
    if case.partition.place.topic != CONSUMER_OFFSETS:
        return alone, {}
    kept = _Kept(GROUP_OFFSETS)
    return replace(alone, commits=group_commits(case, kept.add)), kept.rows()


def _counts(case: Case) -> dict[str, int]:
    if case.partition.place.topic != METADATA_TOPIC:
        return {}
    topics = topics_in([case.partition]).values()
    return {one.name: one.partition_counts[-1].count for one in topics if one.name in INTERNAL and one.partition_counts}


class _Kept:
    """Takes rows of a table, of which there may be very many, into a temporary file."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._file: RowFile | None = None
        self._parts: list[tuple[int, int]] = []

    def add(self, rows: Rows) -> None:
        """Take rows."""
        self._file = self._file or RowFile(BYTE)
        data = np.frombuffer(pickle.dumps(rows, pickle.HIGHEST_PROTOCOL), BYTE)
        self._parts.append((self._file.append(data), len(data)))

    def rows(self) -> dict[str, RowStream]:
        """Return all rows by the name of their table."""
        return {self._table.name: RowStream(self._table, partial(_read, self._file, tuple(self._parts)))}


def _read(file: RowFile | None, parts: tuple[tuple[int, int], ...]) -> Iterator[Rows]:
    if file is None:
        return
    for first, size in parts:
        rows: Rows = pickle.loads(file.read(first, size).data)  # noqa: S301  # this process wrote it
        yield rows
