"""Copies of the files of the lab's applications, to be damaged: they read, write and commit offsets in transactions."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, partition_name
from kforensics.forensics.coordinators.cluster_rows import distributed_transaction_rows
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.core.findings import Severity
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import CONTROL_KEY
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.forensics.coordinators.clusters import cluster_under, found_in
from tests.forensics.forge import file_of
from tests.forensics.partition_states import SAMPLES
from tests.parsers.builders import sealed

__all__ = [
    "MINUTE",
    "THREE_BROKERS",
    "Sent",
    "alarms",
    "batch_at",
    "broker_cluster",
    "copied",
    "each_protocol",
    "flip_outcome",
    "log_of",
    "original",
    "sent_to",
    "taken",
    "transactions_of",
    "truth_of",
]

MINUTE = 60_000
THREE_BROKERS = "consume-transform-produce"
# Versions of the transaction protocol; the first one ran on three brokers.
PROTOCOLS = {"TV2": THREE_BROKERS, "TV1": f"{THREE_BROKERS}-v1", "TV0": f"{THREE_BROKERS}-3.9"}
# Old enough that a partition without a marker was not merely copied too early.
OLD = 16 * MINUTE
COUNTS: dict[str, Any] = {"partition_count": 2, "offsets_partition_count": 2}


def each_protocol() -> pytest.MarkDecorator:
    """Return a mark that runs a test with each ``sample``, one for each version of the protocol."""
    return pytest.mark.parametrize("sample", PROTOCOLS.values(), ids=PROTOCOLS)


@cache
def truth_of(sample: str) -> dict[str, Any]:
    """Return what the brokers reported before they were stopped."""
    truth: dict[str, Any] = json.loads((SAMPLES / sample / "truth.json").read_text("utf-8"))
    return truth


def taken(sample: str) -> int:
    """Return when the brokers were asked, in ms."""
    return int(datetime.fromisoformat(truth_of(sample)["taken"]).timestamp() * 1000)


def broker_cluster(folder: Path, sample: str, *, after_ms: int = OLD, without: tuple[str, ...] = ()) -> Cluster:
    """Return the cluster of one broker's files, evaluated some time after its brokers were asked."""
    return cluster_under(folder, as_of_ms=taken(sample) + after_ms, without=without, **COUNTS)


@cache
def original(sample: str, after_ms: int = OLD) -> Cluster:
    """Return the cluster from the files of the first broker."""
    return broker_cluster(SAMPLES / sample / "broker-1", sample, after_ms=after_ms)


def copied(sample: str, folder: Path) -> Path:
    """Return a copy of the files of the first broker."""
    return Path(shutil.copytree(SAMPLES / sample / "broker-1", folder / "broker-1"))


def log_of(log_dir: Path, partition: str) -> Path:
    """Return the log of a partition with one segment."""
    return file_of(log_dir / partition)


def alarms(cluster: Cluster, known: Cluster | None = None) -> list[PlacedFinding]:
    """Return warnings and worse, except those that another cluster has, too.

    A late write that hangs was provoked in each of the samples.
    """
    old = {_key(one) for one in found_in(known)} if known is not None else set()
    return [
        one
        for one in found_in(cluster)
        if one.finding.severity >= Severity.WARNING and _key(one) not in old and not _is_provoked(one)
    ]


def _is_provoked(placed: PlacedFinding) -> bool:
    """Return whether a finding concerns the late write of an application; Kafka's tool listed it as hanging."""
    codes = ("txn-hanging", "txn-write-after-marker")
    return placed.finding.code.name in codes and placed.finding.evidence["transactional_id"] == "late-app"


def _key(placed: PlacedFinding) -> tuple[Any, ...]:
    place, finding = placed
    return place[2:], finding.code.name, finding.first_offset, finding.producer_id, finding.producer_epoch


class Sent(NamedTuple):
    """A marker that a coordinator sent."""

    offset: int
    producer_id: int
    producer_epoch: int


@cache
def sent_to(sample: str, partition: str) -> list[Sent]:
    """Return the markers of a partition that coordinators sent, in the order of the log."""
    join = original(sample).marker_join
    number = [partition_name(one) for one in join.partitions].index(partition)
    markers = join.markers[(join.roles == MarkerRole.SENT) & (join.markers["partition"] == number)]
    names = ("marker_offset", "producer_id", "marker_epoch")
    return [Sent(*row) for row in zip(*(markers[name].tolist() for name in names), strict=True)]


def transactions_of(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the rows of all transactions."""
    names = ("transactional_id", "producer_id", "marker_epoch", "state", "atomic", "partitions")
    return [
        dict(zip(names, row, strict=True))
        for rows in distributed_transaction_rows(cluster)
        for row in rows.only(*names)
    ]


def batch_at(log: Path, base_offset: int) -> Batch:
    """Return the header of a batch."""
    with open_source(log) as source:
        return next(one for one in walk(source) if isinstance(one, Batch) and one.base_offset == base_offset)


def flip_outcome(log: Path, base_offset: int) -> None:
    """Change a COMMIT to an ABORT, or vice versa, with a correct checksum."""
    data, found = log.read_bytes(), batch_at(log, base_offset)
    marker = data[found.position : found.position + found.size]
    # The key follows its length, a varint.
    abort, commit = (b"\x08" + bytes(CONTROL_KEY.build({"version": 0, "type": kind})) for kind in (0, 1))
    assert (abort in marker) != (commit in marker)
    flipped = marker.replace(commit, abort) if commit in marker else marker.replace(abort, commit)
    log.write_bytes(data[: found.position] + sealed(flipped) + data[found.position + found.size :])
