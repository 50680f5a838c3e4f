"""Offsets of groups that were committed out of order, from the wrong side, or beyond what there is.

Rule: ``OffsetMetadataManager`` for what takes effect, ``GroupCoordinatorService.partitionFor`` for where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed, written
from kforensics.forensics.coordinators.consumer_groups.commits import (
    Commit,
    CommitRemark,
    Commits,
    GroupPartition,
    Seat,
    Spoken,
)
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.partition_of import java_hashes, likely_count
from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import MOST, Row, moment, span
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS

__all__ = ["CODES", "findings"]

CODES = codes("""
eos-offset-regressed warning
A transaction committed a lower offset of a group than the one before it.
What lies between was processed twice: look at the output.
why: A group that goes back reads the records between a second time; if they had been committed with their output, the \
output is there twice.
innocent: Somebody reset the offsets, the topic was created anew, or the group began from an older state of its own.

eos-zombie-commit error
Two producers commit the same offset of a group by turns.
Old clients do not fence by group (KIP-447): see whether two members worked on the same partition.
why: Two members believed to own the partition, and each committed what it had processed. With the fencing of groups \
(KIP-447) the older one is refused.
innocent: Rebalances to and fro; then offsets go up.

eos-mixed-commit-modes warning
The same offset of a group is committed with transactions and without.
See whether a consumer of the group has enable.auto.commit on.
why: Commits outside of transactions take effect at once, those inside at the marker, and the later one in the log \
wins. So offsets can run ahead of the output.
innocent: An operator reset the offsets, or the application was migrated.

eos-offset-beyond-log error
A group has committed an offset that the partition does not reach.
The consumer will start where auto.offset.reset says: see what the partition has lost.
why: The partition has lost records that the group has already processed, or it is another partition of the same name. \
New records below that offset will not be read.
innocent: The partition was copied before the commit. An operator set the offset.

eos-offset-beyond-lso info
A group has committed an offset beyond the last stable offset of the partition.
why: The group has processed records of transactions that were not committed yet. For exactly-once the consumer needs \
isolation.level=read_committed.
innocent: A group with read_uncommitted, on purpose.

eos-offsets-pending critical
An open transaction holds offsets of groups: they cannot be fetched as stable.
Confirm with kafka-transactions.sh --bootstrap-server <host:port> find-hanging --topic {topic} \
--partition {partition}; if it is listed, end it with kafka-transactions.sh --bootstrap-server <host:port> abort \
--topic {topic} --partition {partition} --start-offset {first_offset}.
why: As long as the transaction is open, its offsets are neither there nor not there; a consumer that starts gets \
UNSTABLE_OFFSET_COMMIT again and again and does not begin.
innocent: It was in flight when the files were copied.

group-wrong-partition critical
A group has records in a partition that its name does not lead to.
See whether the number of partitions of the topic was changed: then the offsets of every group are split.
why: A coordinator finds a group by the hash of its name and the number of partitions. If that was changed, groups \
begin without their offsets.
innocent: Another number of partitions than was assumed; it can be given.
""")

# So many groups are named in a message.
NAMED = 5


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of the offsets of groups."""
    tellers = {Spoken.REGRESSED: _regressed, Spoken.ZOMBIE: _zombie, Spoken.MIXED: _mixed}
    for commits in cluster.commits:
        for spoken, tell in tellers.items():
            found = (tell(cluster, commits, remark) for remark in commits.remarks if remark.spoken is spoken)
            yield from _counted(found, commits.counts.get(spoken, 0))
        yield from _beyond(cluster, commits)
    yield from _pending(cluster)
    yield from _misplaced(cluster)


def _counted(found: Iterator[Placed], total: int) -> Iterator[Placed]:
    """Yield the first findings; the evidence of the last one says how many are ``left_out``."""
    for count, (place, finding) in enumerate(islice(found, MOST), 1):
        left_out = {"left_out": total - MOST} if count == MOST < total else {}
        yield Placed(place, replace(finding, evidence={**finding.evidence, **left_out}))


def _seat(commit: Commit) -> tuple[int, int, int]:
    return commit.segment, commit.position, commit.offset


def _whose(key: GroupPartition) -> str:
    group, topic, partition = key
    return f"group {group!r} for {written((topic, partition))}"


def _evidence(key: GroupPartition, commit: Commit, before: Commit) -> dict[str, object]:
    group, topic, partition = key
    return {
        "group": group,
        "partition": written((topic, partition)),
        "committed": commit.committed,
        "before": before.committed,
        "before_at_offset": before.offset,
    }


def _regressed(cluster: Cluster, commits: Commits, remark: CommitRemark) -> Placed:
    _, key, commit, before = remark
    return cluster.at_commit(
        commits,
        _seat(commit),
        CODES["eos-offset-regressed"],
        f"The transaction of producer {commit.producer_id} that ended at {moment(commit.time)} committed offset "
        f"{commit.committed} of {_whose(key)}; a transaction before it had committed {before.committed}.",
        producer=(commit.producer_id, commit.producer_epoch),
        evidence=_evidence(key, commit, before),
        exactness=Exactness.EXACT if commits.is_whole else Exactness.APPROXIMATE,
        benign=(
            "offsets reset between the two: no, there is no other commit between them",
            f"topic created anew: {'cannot be seen here' if commit.topic_id is None else 'no, it has the same id'}",
            "group started again from an older state of its own: possible",
        ),
    )


def _zombie(cluster: Cluster, commits: Commits, remark: CommitRemark) -> Placed:
    _, key, commit, before = remark
    return cluster.at_commit(
        commits,
        _seat(commit),
        CODES["eos-zombie-commit"],
        f"Producer {commit.producer_id} committed offset {commit.committed} of {_whose(key)} after producer "
        f"{before.producer_id} had committed {before.committed}, and had committed before that one too.",
        producer=(commit.producer_id, commit.producer_epoch),
        evidence={**_evidence(key, commit, before), "producer_id_between": before.producer_id},
        benign=("rebalances to and fro: no, the offset did not go up",),
    )


def _mixed(cluster: Cluster, commits: Commits, remark: CommitRemark) -> Placed:
    _, key, commit, before = remark
    ways = ("with a transaction", "without one") if commit.producer_id >= 0 else ("without a transaction", "with one")
    return cluster.at_commit(
        commits,
        _seat(commit),
        CODES["eos-mixed-commit-modes"],
        f"Offset {commit.committed} of {_whose(key)} was committed {ways[0]}, the one before it {ways[1]}.",
        evidence=_evidence(key, commit, before),
        benign=("offsets reset by an operator, application migrated: possible",),
    )


def _beyond(cluster: Cluster, commits: Commits) -> Iterator[Placed]:
    """Yield what is to be said of offsets that the partitions on hand do not have."""
    by_name = {markers.name: markers for markers in cluster.joined.markers.values()}
    log, stable = [], []
    for key, commit in commits.last.items():
        markers = by_name.get(key[1:])
        if markers is not None and commit.committed > markers.log_end_offset:
            log.append((key, commit, markers))
        elif markers is not None and commit.committed > markers.last_stable_offset:
            stable.append((key, commit, markers))
    yield from _counted((_beyond_log(cluster, commits, *one) for one in log), len(log))
    yield from _counted((_beyond_stable(cluster, commits, *one) for one in stable), len(stable))


def _beyond_log(cluster: Cluster, commits: Commits, key: GroupPartition, commit: Commit, markers: Markers) -> Placed:
    """What was committed long before the files were copied is not on hand for another reason than their order."""
    age = cluster.rules.as_of_ms - commit.time
    later = markers.whole_to <= commit.time
    old = commit.time != NO_TIME and age > cluster.rules.max_txn_timeout_ms and not later
    copied = f"no, that is {span(age)} old" if old else "likely, its broker was running" if later else "possible"
    return cluster.at_commit(
        commits,
        _seat(commit),
        CODES["eos-offset-beyond-log"],
        f"The offset of {_whose(key)} is {commit.committed}, and the log of that partition ends at "
        f"{markers.log_end_offset}.",
        severity=None if old else Severity.INFO if later else Severity.WARNING,
        evidence={"group": key[0], "committed": commit.committed, "log_end_offset": markers.log_end_offset},
        exactness=Exactness.EXACT if old else Exactness.APPROXIMATE,
        benign=(
            f"partition copied before the commit: {copied}",
            "log cut after an unclean election, topic created anew, offset set by an operator: possible",
        ),
    )


def _beyond_stable(cluster: Cluster, commits: Commits, key: GroupPartition, commit: Commit, markers: Markers) -> Placed:
    return cluster.at_commit(
        commits,
        _seat(commit),
        CODES["eos-offset-beyond-lso"],
        f"The offset of {_whose(key)} is {commit.committed}, and the last stable offset of that partition is "
        f"{markers.last_stable_offset}.",
        evidence={"group": key[0], "committed": commit.committed, "last_stable_offset": markers.last_stable_offset},
        benign=("consumer with isolation.level read_uncommitted: likely",),
    )


def _pending(cluster: Cluster) -> Iterator[Placed]:
    waiting = {commits.place.partition: commits.pending for commits in cluster.commits}
    for partition, markers in cluster.joined.markers.items():
        if markers.name[0] == CONSUMER_OFFSETS:
            late = markers.still_open[markers.still_open["silence"] > cluster.rules.late_ms]
            yield from each_placed(late, partial(_held, cluster, partition, waiting.get(markers.name[1], {})))


def _held(cluster: Cluster, partition: int, pending: Mapping[int, tuple[str, ...]], row: Row) -> Placed:
    groups = pending.get(row["producer_id"], ())
    more = f" and {len(groups) - NAMED} more" if len(groups) > NAMED else ""
    named = ", ".join(map(repr, groups[:NAMED]))
    whose = f" It holds offsets of {named}{more}." if groups else ""
    return cluster.at_partition(
        partition,
        CODES["eos-offsets-pending"],
        f"The transaction of producer {row['producer_id']} that is open since offset {row['first_offset']} has been "
        f"silent for {span(row['silence'])}.{whose}",
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(row["producer_id"], row["producer_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"silent_ms": row["silence"], "groups": list(groups[:NAMED])},
        benign=("in flight when the files were copied: no, it is late",),
    )


def _misplaced(cluster: Cluster) -> Iterator[Placed]:
    captured = [commits.place.partition or 0 for commits in cluster.commits]
    names = [group for commits in cluster.commits for group in commits.groups]
    lengths = np.array([len(commits.groups) for commits in cluster.commits], "i8")
    found = np.repeat(np.array(captured, "i8"), lengths)
    hashes, told = java_hashes(names), cluster.offsets_partition_count
    count = likely_count(captured, hashes, found) if told is None else told
    if count is None:
        return
    wrong = np.flatnonzero(hashes % count != found).tolist()
    seats = [(commits, seat) for commits in cluster.commits for seat in commits.groups.values()]
    placed = (_wrong(cluster, names[at], *seats[at], count, int(hashes[at] % count)) for at in wrong)
    yield from _counted(placed, len(wrong))


def _wrong(cluster: Cluster, group: str, commits: Commits, seat: Seat, count: int, wanted: int) -> Placed:  # noqa: PLR0913, PLR0917
    told = cluster.offsets_partition_count is not None
    return cluster.at_commit(
        commits,
        seat,
        CODES["group-wrong-partition"],
        f"Group {group!r} has records in partition {commits.place.partition}; with {count} partitions its coordinator "
        f"is that of partition {wanted}.",
        evidence={"group": group, "partitions": count, "wanted_partition": wanted},
        exactness=Exactness.EXACT if told else Exactness.APPROXIMATE,
        benign=(
            f"another number of partitions: {'no, it was given' if told else 'possible, most groups go with this one'}",
        ),
    )
