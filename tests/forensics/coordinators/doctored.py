"""Copies of what the lab's applications left, to be spoilt: they read, write and commit offsets in one transaction."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, written
from kforensics.forensics.coordinators.cluster_rows import transaction_rows
from kforensics.forensics.coordinators.transactions.marker_roles import Role
from kforensics.forensics.core.findings import Severity
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import CONTROL_KEY
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.forensics.cases import SAMPLES
from tests.forensics.coordinators.clusters import cluster_under, found_in
from tests.forensics.forge import file_of
from tests.parsers.builders import sealed

__all__ = [
    "MINUTE",
    "THREE_BROKERS",
    "Sent",
    "alarms",
    "batch_at",
    "copied",
    "each_protocol",
    "flip_outcome",
    "judged_under",
    "log_of",
    "original",
    "sent_to",
    "taken",
    "transactions_of",
    "truth_of",
]

MINUTE = 60_000
THREE_BROKERS = "consume-transform-produce"
# Versions of the protocol of transactions; the first one ran on three brokers.
PROTOCOLS = {"TV2": THREE_BROKERS, "TV1": f"{THREE_BROKERS}-v1", "TV0": f"{THREE_BROKERS}-3.9"}
# Old enough for a partition that lacks a marker not to be taken for one that was copied too early.
OLD = 16 * MINUTE
COUNTS = {"partition_count": 2, "offsets_partition_count": 2}


def each_protocol() -> pytest.MarkDecorator:
    """Return a mark that has a test take ``sample``, one for each version of the protocol."""
    return pytest.mark.parametrize("sample", PROTOCOLS.values(), ids=PROTOCOLS)


@cache
def truth_of(sample: str) -> dict[str, Any]:
    """Return what the brokers said before they were stopped."""
    truth: dict[str, Any] = json.loads((SAMPLES / sample / "truth.json").read_text("utf-8"))
    return truth


def taken(sample: str) -> int:
    """Return when the brokers were asked, in ms."""
    return int(datetime.fromisoformat(truth_of(sample)["taken"]).timestamp() * 1000)


def judged_under(folder: Path, sample: str, *, after_ms: int = OLD, without: tuple[str, ...] = ()) -> Cluster:
    """Return the cluster of one broker's files, so long after its brokers were asked."""
    return cluster_under(folder, as_of_ms=taken(sample) + after_ms, without=without, **COUNTS)


@cache
def original(sample: str, after_ms: int = OLD) -> Cluster:
    """Return the cluster as the first broker has it."""
    return judged_under(SAMPLES / sample / "broker-1", sample, after_ms=after_ms)


def copied(sample: str, folder: Path) -> Path:
    """Return a copy of what the first broker has."""
    return Path(shutil.copytree(SAMPLES / sample / "broker-1", folder / "broker-1"))


def log_of(log_dir: Path, partition: str) -> Path:
    """Return the log of a partition that has one segment."""
    return file_of(log_dir / partition)


def alarms(cluster: Cluster, known: Cluster | None = None) -> list[Placed]:
    """Return warnings and worse, but for those that another cluster has too."""
    old = {_key(one) for one in found_in(known)} if known is not None else set()
    return [one for one in found_in(cluster) if one.finding.severity >= Severity.WARNING and _key(one) not in old]


def _key(placed: Placed) -> tuple[Any, ...]:
    place, finding = placed
    return place[2:], finding.code.name, finding.first_offset, finding.producer_id, finding.producer_epoch


class Sent(NamedTuple):
    """A marker that a coordinator has sent."""

    offset: int
    producer_id: int
    producer_epoch: int


@cache
def sent_to(sample: str, partition: str) -> list[Sent]:
    """Return the markers of a partition that its coordinators have sent, in the order of the log."""
    joined = original(sample).joined
    number = [written(one) for one in joined.partitions].index(partition)
    found = joined.marks[(joined.roles == Role.SENT) & (joined.marks["partition"] == number)]
    names = ("marker_offset", "producer_id", "marker_epoch")
    return [Sent(*row) for row in zip(*(found[name].tolist() for name in names), strict=True)]


def transactions_of(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the rows of all transactions."""
    names = ("transactional_id", "producer_id", "marker_epoch", "state", "atomic", "partitions")
    return [dict(zip(names, row, strict=True)) for rows in transaction_rows(cluster) for row in rows.only(*names)]


def batch_at(log: Path, base_offset: int) -> Batch:
    """Return the header of a batch."""
    with open_source(log) as source:
        return next(one for one in walk(source) if isinstance(one, Batch) and one.base_offset == base_offset)


def flip_outcome(log: Path, base_offset: int) -> None:
    """Make an ABORT of a COMMIT, or the other way round, with a right checksum."""
    data, found = log.read_bytes(), batch_at(log, base_offset)
    marker = data[found.position : found.position + found.size]
    # The length of a key stands before it as a varint.
    abort, commit = (b"\x08" + bytes(CONTROL_KEY.build({"version": 0, "type": kind})) for kind in (0, 1))
    assert (abort in marker) != (commit in marker)
    flipped = marker.replace(commit, abort) if commit in marker else marker.replace(abort, commit)
    log.write_bytes(data[: found.position] + sealed(flipped) + data[found.position + found.size :])
