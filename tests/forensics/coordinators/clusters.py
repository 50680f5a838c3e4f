"""Log directories with coordinators in a short notation, and the clusters read from them.

``forge_coordinator(folder, "a Empty 1 0 t 0; a Ongoing 1 0 {p-0} t 10; a PrepareCommit 1 0 {p-0} t 20")`` writes
``__transaction_state-0``. A record is an id, a state by Kafka's name, a producer id and its epoch, then, in this order
each only if needed, ``tv n`` (version of the client's request), ``prev n``, ``next n``, ``timeout n``,
``{partitions}``, ``start n``, ``@offset`` and ``t`` with the time in ms after ``NOW``. ``a gone t 9`` is a tombstone.
Start times carry over from record to record of an id, as in a coordinator, and offsets increase by one.
``forge_offsets`` writes ``__consumer_offsets-0`` in the notation of ``batch_notation``, with the committed offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kforensics.forensics.audit.cluster_result import coordinator_history, is_coordinator
from kforensics.forensics.checks.cluster import CLUSTER_CHECKS
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.core.election import Leaderless
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.messages.group import (
    GROUP_METADATA_KEY,
    GROUP_METADATA_VALUE,
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
)
from kforensics.parsers.messages.transaction_log import TRANSACTION_LOG_KEY, TRANSACTION_LOG_VALUE
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Content, Segments, forge
from tests.forensics.partition_states import partitions_under
from tests.parsers.messages.encoder import encode

__all__ = [
    "at",
    "cluster_under",
    "codes_in",
    "commit_record",
    "forge_coordinator",
    "forge_offsets",
    "found_in",
    "history_under",
    "key_of",
    "value_of",
]

SOON = NOW + 60_000
RECORD = re.compile(
    r"(?P<id>\S+) (?:(?P<gone>gone)|(?P<state>[A-Z]\w+|\d+) (?P<pid>\d+) (?P<epoch>\d+))(?: tv (?P<tv>\d+))?"
    r"(?: prev (?P<prev>-?\d+))?(?: next (?P<next>\d+))?(?: timeout (?P<timeout>\d+))?(?: \{(?P<partitions>[^}]*)\})?"
    r"(?: start (?P<start>-?\d+))?(?: @(?P<offset>\d+))? t (?P<time>-?\d+)"
)
NUMBERS = {str(state): int(state) for state in State}


def at(milliseconds: int) -> str:
    """Return a batch's timestamp in the notation of ``batch_notation``."""
    return f"ts {NOW + milliseconds}"


def key_of(transactional_id: str) -> bytes:
    """Return the key of an id's records."""
    return bytes(2) + encode(TRANSACTION_LOG_KEY, 0, {"transactionalId": transactional_id})


def value_of(version: int = 1, **fields: Any) -> bytes:
    """Return a value with fields by Kafka's names; the others are those of an ordinary Empty record."""
    usual = {
        "producerId": 1,
        "previousProducerId": fields.get("producerId", 1),
        "nextProducerId": -1,
        "producerEpoch": 0,
        "nextProducerEpoch": -1,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 0,
        "transactionPartitions": None,
        "transactionLastUpdateTimestampMs": NOW,
        "transactionStartTimestampMs": -1,
        "clientTransactionVersion": 0,
    }
    return version.to_bytes(2, "big") + encode(TRANSACTION_LOG_VALUE, version, usual | fields)


def forge_coordinator(
    folder: Path,
    log: str | Mapping[int, str],
    *,
    partition: int = 0,
    version: int = 1,
    others: Mapping[int, Content] | None = None,
    **options: Any,
) -> Path:
    """Write a partition of ``__transaction_state``; return its folder.

    Args:
        folder: the log directory.
        log: records, or records by the base offset of their segment.
        partition: number of the partition.
        version: version of the values.
        others: key and value of further records by offset; they replace those of the notation.
        options: options of ``forge``.
    """
    segments: dict[int, str] = {}
    records: dict[int, list[Content]] = {}
    starts: dict[str, int] = {}
    for base, text in (log if isinstance(log, Mapping) else {0: log}).items():
        batches = []
        for offset, time, content in _records(text, base, version, starts):
            batches.append(f"plain @{offset} ts {NOW + time}")
            records[offset] = [(others or {}).get(offset, content)]
        segments[base] = "; ".join(batches)
    return forge(folder, segments, topic="__transaction_state", partition=partition, records=records, **options)


def _records(text: str, base: int, version: int, starts: dict[str, int]) -> Iterator[tuple[int, int, Content]]:
    offset = base
    for part in filter(None, map(str.strip, text.split(";"))):
        match = RECORD.fullmatch(part)
        assert match is not None, part
        offset = int(match["offset"] or offset)
        yield (
            offset,
            int(match["time"]),
            (key_of(match["id"]), None if match["gone"] else _value(match, version, starts)),
        )
        offset += 1


def _value(match: re.Match[str], version: int, starts: dict[str, int]) -> bytes:
    status = NUMBERS[match["state"]] if match["state"] in NUMBERS else int(match["state"])
    partitions = _partitions(match["partitions"] or "")
    return value_of(
        version,
        producerId=int(match["pid"]),
        previousProducerId=int(match["prev"] or match["pid"]),
        nextProducerId=int(match["next"] or -1),
        producerEpoch=int(match["epoch"]),
        transactionTimeoutMs=int(match["timeout"] or 60_000),
        transactionStatus=status,
        transactionPartitions=None if status == State.EMPTY else partitions,
        transactionLastUpdateTimestampMs=NOW + int(match["time"]),
        transactionStartTimestampMs=_start(match, status, starts),
        clientTransactionVersion=int(match["tv"] or 0),
    )


def _start(match: re.Match[str], status: int, starts: dict[str, int]) -> int:
    name, given = match["id"], match["start"]
    if given is not None:
        starts[name] = int(given) if int(given) < 0 else NOW + int(given)
    elif status == State.EMPTY:
        starts[name] = -1
    elif status == State.ONGOING and starts.get(f"{name} before", State.EMPTY) != State.ONGOING:
        starts[name] = NOW + int(match["time"])
    starts[f"{name} before"] = status
    return starts.get(name, NOW)


def _partitions(text: str) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for name in filter(None, map(str.strip, text.split(","))):
        topic, _, number = name.rpartition("-")
        topics.setdefault(topic, []).append(int(number))
    return [{"topic": topic, "partitionIds": numbers} for topic, numbers in topics.items()]


def forge_offsets(
    folder: Path, log: Segments, committed: Mapping[int, tuple[Any, ...]], *, partition: int = 0, **options: Any
) -> Path:
    """Write a partition of ``__consumer_offsets``; return its folder.

    Args:
        folder: the log directory.
        log: batches of one record each, in the notation of ``batch_notation``.
        committed: group, partition, offset (None for a tombstone) and optional topic id, by offset of the batch.
        partition: number of the partition.
        options: options of ``forge``.
    """
    records = {at: [commit_record(*content)] for at, content in committed.items()}
    return forge(folder, log, topic=CONSUMER_OFFSETS, partition=partition, records=records, **options)


def commit_record(
    group: str, name: str, offset: int | None, topic_id: str | None = None, leader_epoch: int = -1
) -> Content:
    """Return key and value of a committed offset; None for a tombstone."""
    topic, _, number = name.rpartition("-")
    key = encode(OFFSET_COMMIT_KEY, 0, {"group": group, "topic": topic, "partition": int(number)})
    fields = {"offset": offset, "leaderEpoch": leader_epoch, "metadata": "", "commitTimestamp": NOW}
    fields["topicId"] = topic_id
    version = 3 if topic_id is None else 4
    value = version.to_bytes(2, "big") + encode(OFFSET_COMMIT_VALUE, version, fields) if offset is not None else None
    return b"\x00\x01" + key, value


def group_record(group: str, members: int | None, since: int = 0, generation: int = 1) -> Content:
    """Return the record of a classic group with so many members; None removes it."""
    key = b"\x00\x02" + encode(GROUP_METADATA_KEY, 0, {"group": group})
    if members is None:
        return key, None
    member = {"groupInstanceId": None, "clientHost": "/127.0.0.1", "rebalanceTimeout": 1, "sessionTimeout": 1}
    listed = [{**member, "memberId": f"m{n}", "clientId": f"client-{n}", "subscription": b"", "assignment": b""}
              for n in range(members)]  # fmt: skip
    value = {"protocolType": "consumer", "generation": generation, "protocol": None, "leader": None, "members": listed}
    return key, b"\x00\x03" + encode(GROUP_METADATA_VALUE, 3, {**value, "currentStateTimestamp": NOW + since})


def history_under(folder: Path, partition: int = 0) -> History:
    """Return the history of a coordinator's partition in a log directory."""
    (one,) = (one for one in partitions_under(folder) if one.place[2:] == ("__transaction_state", partition))
    return coordinator_history(examine(one, Rules(SOON)))


def cluster_under(
    folder: Path,
    *,
    as_of_ms: int = SOON,
    is_assumed: bool = False,
    without: tuple[str, ...] = (),
    leaderless: Mapping[tuple[str, int], tuple[Leaderless, ...]] | None = None,
    **counts: int | None,
) -> Cluster:
    """Return the cluster whose files are in a folder.

    Args:
        folder: a log directory.
        as_of_ms: time of evaluation.
        is_assumed: whether that is the time of the newest file, not one that the user gives.
        without: names of partitions to leave out.
        leaderless: when partitions had no leader, by topic id and partition.
        counts: numbers of partitions of the internal topics, if known.
    """
    rules = Rules(as_of_ms, is_assumed=is_assumed, leaderless=leaderless or {})
    states = [examine(one, rules) for one in partitions_under(folder) if one.name not in without]
    return Cluster.of(
        [coordinator_history(state) for state in states if is_coordinator(state)],
        [PartitionMarkers.of(state) for state in states if not is_coordinator(state)],
        rules,
        commits=[commits_of(state) for state in states if state.partition.place.topic == CONSUMER_OFFSETS],
        join=None,
        **counts,
    )


def found_in(cluster: Cluster) -> list[PlacedFinding]:
    """Return all findings in a cluster."""
    return [placed for check in CLUSTER_CHECKS for placed in check.findings(cluster)]


def codes_in(cluster: Cluster) -> dict[str, str]:
    """Return the worst severity of the findings in a cluster, by code."""
    findings = sorted((placed.finding for placed in found_in(cluster)), key=lambda finding: finding.severity)
    return {finding.code.name: str(finding.severity) for finding in findings}
