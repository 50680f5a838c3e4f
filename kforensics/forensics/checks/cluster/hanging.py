"""Open transactions, and data that came too late, with what their coordinators know.

Rule: ``TransactionsCommand.FindHangingTransactionsCommand``. Findings whose code another family has take the place of
that family's: with the coordinator's log they are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.partition import open_transactions, transactions
from kforensics.forensics.coordinators.awaited_markers import is_awaited, is_illegible
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.record_types import NO_TIME, Ending
from kforensics.forensics.core.reporting import Row, moment, span

__all__ = ["BORROWED", "CODES", "findings"]

CODES = codes("""
txn-hanging-unknown-id critical
Nobody will ever end this transaction: no coordinator knows its producer.
Confirm with kafka-transactions.sh --bootstrap-server <host:port> find-hanging --topic {topic} \
--partition {partition}; if it is listed, end it with kafka-transactions.sh --bootstrap-server <host:port> abort \
--topic {topic} --partition {partition} --start-offset {first_offset}.
why: It hangs as with txn-hanging, and no coordinator has the producer id, so that nothing can be found out about the \
application. The client never registered, or the state of the coordinator is lost.
innocent: Some partitions of __transaction_state are not among the files. If the id has expired, the transaction hangs \
all the same.
""")
# Codes of families that judge a partition alone.
BORROWED = {
    "txn-hanging": open_transactions.CODES["txn-hanging"],
    "txn-write-after-marker": transactions.CODES["txn-write-after-marker"],
    "txn-foreign-data-absorbed": transactions.CODES["txn-foreign-data-absorbed"],
}


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of data that its coordinator does not wait for."""
    if cluster.coordinators.histories:
        for partition, markers in cluster.joined.markers.items():
            yield from _still_open(cluster, partition, markers)
        yield from _absorbed(cluster)


def _still_open(cluster: Cluster, partition: int, markers: Markers) -> Iterator[Placed]:
    found, rules = markers.still_open, cluster.rules
    ids = cluster.coordinators.id_of(found["producer_id"])
    unknown = (ids == NONE) & (found["silence"] > rules.late_ms)
    yield from each_placed(found[unknown], partial(_unknown_id, cluster, partition))
    found, ids = found[ids != NONE], ids[ids != NONE]
    awaited = is_awaited(cluster, partition, found, ids)
    hangs = (found["silence"] > rules.max_txn_timeout_ms) & ~awaited & ~is_illegible(cluster, ids)
    yield from each_placed(found[hangs], partial(_hangs, cluster, partition), id=ids[hangs])
    after = hangs & (found["behind_marker"] != NONE)
    yield from each_placed(found[after], partial(_late_write, cluster, partition), id=ids[after])


def _place(row: Row) -> dict[str, tuple[int, int]]:
    return {
        "offsets": (row["first_offset"], row["last_offset"]),
        "producer": (row["producer_id"], row["producer_epoch"]),
        "at": (row["segment"], row["position"]),
    }


def _unknown_id(cluster: Cluster, partition: int, row: Row) -> Placed:
    captured = {history.place.partition for history in cluster.coordinators.histories}
    count, whole = cluster.partition_count, cluster.has_all_coordinators
    return cluster.at_partition(
        partition,
        CODES["txn-hanging-unknown-id"],
        f"The transaction of producer {row['producer_id']} that is open since offset {row['first_offset']}, "
        f"{moment(row['first_timestamp'])}, has been silent for {span(row['silence'])}, and no transactional id on "
        "hand has had this producer id.",
        **_place(row),
        severity=None if whole else Severity.WARNING,
        evidence={"silent_ms": row["silence"], "coordinator_partitions": len(captured), "of_partitions": count},
        exactness=Exactness.EXACT if whole else Exactness.UNVERIFIABLE,
        benign=(
            f"coordinator partitions not on hand: {'no' if whole else 'possible'}",
            "id expired and removed: then it hangs all the same, for no id expires while its transaction goes on",
        ),
    )


def _hangs(cluster: Cluster, partition: int, row: Row) -> Placed:
    return cluster.at_partition(
        partition,
        BORROWED["txn-hanging"],
        f"Nobody will ever end the transaction of producer {row['producer_id']}, epoch {row['producer_epoch']}, that "
        f"is open since offset {row['first_offset']}, {moment(row['first_timestamp'])}: {_last(cluster, row)}, and "
        f"waits for nothing in this partition. It has been silent for {span(row['silence'])}.",
        **_place(row),
        evidence={
            "silent_ms": row["silence"],
            "coordinator_epoch": row["coordinator_epoch"],
            "transactional_id": cluster.id_name(row),
        },
        benign=("coordinator's log copied earlier than this partition: it would have to be by as long as the silence",),
    )


def _last(cluster: Cluster, row: Row) -> str:
    """Return the last record of an id in words."""
    last = cluster.coordinators.ids[row["id"]]
    name, at = cluster.id_name(row), moment(int(last["last_time"]))
    if last["is_removed"]:
        return f"its transactional id {name!r} was removed at {at}"
    return (
        f"its transactional id {name!r} has been in state {State(int(last['status']))} since {at} (producer "
        f"{int(last['producer_id'])}, epoch {int(last['producer_epoch'])})"
    )


def _late_write(cluster: Cluster, partition: int, row: Row) -> Placed:
    return cluster.at_partition(
        partition,
        BORROWED["txn-write-after-marker"],
        f"Producer {row['producer_id']} wrote with epoch {row['lowest_epoch']} from offset {row['first_offset']} on, "
        f"after the marker at offset {row['behind_marker']}, and {cluster.id_name(row)!r} has not enlisted this "
        "partition since; it is still open.",
        **_place(row),
        evidence={"marker_offset": row["behind_marker"], "transactional_id": cluster.id_name(row)},
        benign=("enlisted, and the record of it gone to the cleaner: no, the last record of an id stays",),
        cause="txn-hanging",
    )


def _absorbed(cluster: Cluster) -> Iterator[Placed]:
    """Yield committed transactions that hold data from before they began: of a lower epoch, or of an earlier time."""
    parts, marks = cluster.joined.parts, cluster.joined.marks
    parts = parts[(parts["mark"] != NONE) & parts["is_exact"]]
    mine, found = cluster.coordinators.instances[parts["instance"]], marks[parts["mark"]] if len(parts) else marks[:0]
    appended = np.zeros(len(cluster.joined.partitions), bool)
    for partition, markers in cluster.joined.markers.items():
        appended[partition] = markers.has_append_times
    lower = (mine["data_epoch"] != NONE) & (found["lowest_epoch"] < mine["data_epoch"])
    timed = appended[found["partition"]] & (found["first_timestamp"] != NO_TIME) & (mine["start"] != NO_TIME)
    earlier = timed & (found["first_timestamp"] < mine["start"] - cluster.rules.clock_skew_ms)
    which = (found["first_offset"] != NONE) & (found["ending"] == Ending.COMMITTED) & (lower | earlier)
    more = {"id": mine["id"][which], "begun_epoch": mine["data_epoch"][which], "start": mine["start"][which]}
    yield from each_placed(found[which], partial(_foreign, cluster), **more)


def _foreign(cluster: Cluster, row: Row) -> Placed:
    return cluster.at_partition(
        row["partition"],
        BORROWED["txn-foreign-data-absorbed"],
        f"The COMMIT at offset {row['marker_offset']} made data of producer {row['producer_id']} visible from offset "
        f"{row['first_offset']} on that begins with epoch {row['lowest_epoch']}, {moment(row['first_timestamp'])}, "
        f"while {cluster.id_name(row)!r} began the transaction with epoch {row['begun_epoch']} at "
        f"{moment(row['start'])}.",
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(row["producer_id"], row["data_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"marker_offset": row["marker_offset"], "lowest_epoch": row["lowest_epoch"]},
        benign=("clocks of brokers differ, timestamps set by clients: no",),
    )
