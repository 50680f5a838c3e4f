"""Log directories with coordinators in a short notation, and the clusters that they are read as.

``forge_coordinator(folder, "a Empty 1 0 t 0; a Ongoing 1 0 {p-0} t 10; a PrepareCommit 1 0 {p-0} t 20")`` writes
``__transaction_state-0``. A record is an id, a state by Kafka's name, a producer id and its epoch, then, in this order
and each only where it is needed, ``tv n`` (version of the client's request), ``prev n``, ``next n``, ``timeout n``,
``{partitions}``, ``start n``, ``@offset`` and ``t`` with the time in ms behind ``NOW``. ``a gone t 9`` is a tombstone.
Times of start go on from record to record of an id as a coordinator has them, and offsets go up by one.
``forge_offsets`` writes ``__consumer_offsets-0`` in the notation of ``events``, with what was committed beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kforensics.forensics.audit.cluster_result import coordinator_history, is_coordinator
from kforensics.forensics.checks.cluster_checks import FAMILIES
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed
from kforensics.forensics.coordinators.consumer_groups.commits import commits_of
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.messages.group import OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE
from kforensics.parsers.messages.transaction import TRANSACTION_LOG_KEY, TRANSACTION_LOG_VALUE
from tests.forensics.cases import partitions_under
from tests.forensics.events import NOW
from tests.forensics.forge import Content, Segments, forge
from tests.parsers.messages.encoder import encode

__all__ = [
    "at",
    "cluster_under",
    "codes_in",
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
    """Return how a batch has a timestamp in the notation of ``events``."""
    return f"ts {NOW + milliseconds}"


def key_of(transactional_id: str) -> bytes:
    """Return the key of an id's records."""
    return bytes(2) + encode(TRANSACTION_LOG_KEY, 0, {"transactionalId": transactional_id})


def value_of(version: int = 1, **fields: Any) -> bytes:
    """Return a value; fields by Kafka's names, of an ordinary Empty record unless given."""
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
    """Write a partition of ``__transaction_state``; returns its folder.

    Args:
        folder: the log directory.
        log: records, or records by the base offset of their segment.
        partition: its number.
        version: of the values.
        others: key and value of further records by offset, or in the place of those of the notation.
        options: of ``forge``.
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
        found = RECORD.fullmatch(part)
        assert found is not None, part
        offset = int(found["offset"] or offset)
        yield (
            offset,
            int(found["time"]),
            (key_of(found["id"]), None if found["gone"] else _value(found, version, starts)),
        )
        offset += 1


def _value(found: re.Match[str], version: int, starts: dict[str, int]) -> bytes:
    status = NUMBERS[found["state"]] if found["state"] in NUMBERS else int(found["state"])
    partitions = _partitions(found["partitions"] or "")
    return value_of(
        version,
        producerId=int(found["pid"]),
        previousProducerId=int(found["prev"] or found["pid"]),
        nextProducerId=int(found["next"] or -1),
        producerEpoch=int(found["epoch"]),
        transactionTimeoutMs=int(found["timeout"] or 60_000),
        transactionStatus=status,
        transactionPartitions=None if status == State.EMPTY else partitions,
        transactionLastUpdateTimestampMs=NOW + int(found["time"]),
        transactionStartTimestampMs=_start(found, status, starts),
        clientTransactionVersion=int(found["tv"] or 0),
    )


def _start(found: re.Match[str], status: int, starts: dict[str, int]) -> int:
    name, given = found["id"], found["start"]
    if given is not None:
        starts[name] = int(given) if int(given) < 0 else NOW + int(given)
    elif status == State.EMPTY:
        starts[name] = -1
    elif status == State.ONGOING and starts.get(f"{name} before", State.EMPTY) != State.ONGOING:
        starts[name] = NOW + int(found["time"])
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
    """Write a partition of ``__consumer_offsets``; returns its folder.

    Args:
        folder: the log directory.
        log: batches in the notation of ``events``, each of one record.
        committed: by offset of a batch group, partition, offset (None for a tombstone) and, if any, topic id.
        partition: its number.
        options: of ``forge``.
    """
    records = {at: [_commit(*content)] for at, content in committed.items()}
    return forge(folder, log, topic=CONSUMER_OFFSETS, partition=partition, records=records, **options)


def _commit(group: str, name: str, offset: int | None, topic_id: str | None = None) -> Content:
    topic, _, number = name.rpartition("-")
    key = encode(OFFSET_COMMIT_KEY, 0, {"group": group, "topic": topic, "partition": int(number)})
    fields = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW, "topicId": topic_id}
    version = 3 if topic_id is None else 4
    value = version.to_bytes(2, "big") + encode(OFFSET_COMMIT_VALUE, version, fields) if offset is not None else None
    return b"\x00\x01" + key, value


def history_under(folder: Path, partition: int = 0) -> History:
    """Return the history of a coordinator's partition in a log directory."""
    (one,) = (one for one in partitions_under(folder) if one.place[2:] == ("__transaction_state", partition))
    return coordinator_history(examine(one, Rules(SOON)))


def cluster_under(
    folder: Path, *, as_of_ms: int = SOON, without: tuple[str, ...] = (), **counts: int | None
) -> Cluster:
    """Return the cluster whose files lie under a folder.

    Args:
        folder: a log directory.
        as_of_ms: when it is judged.
        without: names of partitions to leave out.
        counts: how many partitions the internal topics have, if anybody told.
    """
    rules = Rules(as_of_ms)
    cases = [examine(one, rules) for one in partitions_under(folder) if one.name not in without]
    return Cluster.of(
        [coordinator_history(case) for case in cases if is_coordinator(case)],
        [Markers.of(case) for case in cases if not is_coordinator(case)],
        rules,
        commits=[commits_of(case) for case in cases if case.partition.place.topic == CONSUMER_OFFSETS],
        **counts,
    )


def found_in(cluster: Cluster) -> list[Placed]:
    """Return everything that is found in a cluster."""
    return [placed for family in FAMILIES for placed in family.findings(cluster)]


def codes_in(cluster: Cluster) -> dict[str, str]:
    """Return the worst severity of everything that is found in a cluster, by code."""
    found = sorted((placed.finding for placed in found_in(cluster)), key=lambda finding: finding.severity)
    return {finding.code.name: str(finding.severity) for finding in found}
