"""Checks for consumer group offsets that regress, have mixed commit modes, or are beyond the end of a partition.

Rule: ``OffsetMetadataManager`` for which commit takes effect, ``GroupCoordinatorService.partitionFor`` for the
partition of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed, partition_name
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits, GroupPartition
from kforensics.forensics.coordinators.consumer_groups.committers import committer_of, producer_name
from kforensics.forensics.coordinators.consumer_groups.offset_ranges import LESS_LIKELY, OffsetBeyondLog
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.partition_of import hashes_of, likely_count
from kforensics.forensics.coordinators.record_issues import CommitIssue, CommitIssueKind
from kforensics.forensics.core.broker_settings import OFFSETS_PARTITIONS
from kforensics.forensics.core.commands import ABORT, DESCRIBE_GROUP, FIND_HANGING, filled_in
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.reporting import MOST, Row, time_of
from kforensics.forensics.partition.blocking_transactions import silence_of
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.messages.message_columns import texts_of

CODES = by_name(
    Code(
        "eos-offset-regressed",
        Severity.WARNING,
        meaning="A transaction committed a lower offset of a group than the previous transaction.",
        remedy="Check the output: the records between the two offsets were processed twice.",
        why=(
            "A group that goes back reads the records between the two offsets again. If they had been committed "
            "with their output, the output exists twice."
        ),
        benign=(
            "An operator reset the offsets, the topic was recreated, or the group restarted from an older state "
            "of its own."
        ),
    ),
    Code(
        "eos-zombie-commit",
        Severity.ERROR,
        meaning="Two producers alternately commit the same offset of a group.",
        remedy=(
            "Check whether two members worked on the same partition: old clients have no fencing by group (KIP-447)."
        ),
        why=(
            "Two members believed that they owned the partition, and each committed what it had processed. With "
            "group fencing (KIP-447) the older one is rejected."
        ),
        benign=(
            "Repeated rebalances. Then offsets rise; where nothing new was read they stay equal, which is not reported "
            "if the generation or an assignment of the group changed in between, and information if no record shows "
            "its members."
        ),
    ),
    Code(
        "eos-mixed-commit-modes",
        Severity.WARNING,
        meaning="The same offset of a group is committed both with and without transactions.",
        remedy="Check whether a consumer of the group has enable.auto.commit on.",
        why=(
            "Commits outside transactions take effect at once, those inside at the marker, and the later one in "
            "the log wins. So offsets can advance beyond the output."
        ),
        benign=(
            "The application was migrated. What a tool commits, without a leader epoch, to a group that is known to be "
            "empty is not reported; without a leader epoch, to a group without any record, it is information."
        ),
    ),
    Code(
        "eos-offset-beyond-log",
        Severity.ERROR,
        meaning="A group has committed an offset beyond the end of the partition.",
        remedy="Check what the partition has lost: the consumer will restart as auto.offset.reset says.",
        why=(
            "The partition has lost records that the group already processed, or it is another partition of the "
            "same name. New records below that offset will not be read."
        ),
        benign="The partition was copied before the commit. An operator set the offset.",
    ),
    Code(
        "eos-offset-beyond-lso",
        Severity.INFO,
        meaning="A group has committed an offset beyond the last stable offset of the partition.",
        why=(
            "The group processed records of transactions that were not committed yet. For exactly-once the "
            "consumer needs isolation.level=read_committed."
        ),
        benign="A group that uses read_uncommitted on purpose.",
    ),
    Code(
        "eos-offsets-pending",
        Severity.CRITICAL,
        meaning="An open transaction blocks consumer group offsets: they cannot be fetched as stable offsets.",
        remedy=f"Confirm with {FIND_HANGING}. If it is listed, end it with {ABORT}.",
        why=(
            "While the transaction is open its offsets are neither committed nor aborted. A consumer that "
            "starts keeps getting UNSTABLE_OFFSET_COMMIT and does not begin."
        ),
        benign="It was in flight when the files were copied.",
    ),
    Code(
        "group-wrong-partition",
        Severity.CRITICAL,
        meaning="A group has records in a partition that does not match its name.",
        remedy=(
            "The topic cannot be given fewer partitions again. The offsets that the group had are still in its old "
            "partition, where kforensics groups shows them: set them again while it is stopped."
        ),
        why=(
            "A coordinator finds a group by the hash of its name and the partition count. It keeps the count from its "
            "start: once it was changed and brokers were restarted, groups start without their offsets."
        ),
        benign="The partition count differs from the assumed one; it can be given.",
    ),
)

# Groups to name in a message.
NAMED = 5


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield unusual offsets of consumer groups."""
    kinds = {
        CommitIssueKind.REGRESSED: _regressed,
        CommitIssueKind.ZOMBIE: _zombie,
        CommitIssueKind.MIXED: _mixed,
    }
    for commits in cluster.commits:
        for kind, finding_of in kinds.items():
            issues = (finding_of(cluster, commits, issue) for issue in commits.issues if issue.kind is kind)
            yield from _first(issues, commits.issue_counts.get(kind, 0))
        yield from _beyond(cluster, commits)
    yield from _pending(cluster)
    yield from _misplaced(cluster)


def _first(placed: Iterator[PlacedFinding], total: int) -> Iterator[PlacedFinding]:
    """Yield the first findings; the evidence of the last one states how many are ``left_out``."""
    for count, (place, finding) in enumerate(islice(placed, MOST), 1):
        left_out = {"left_out": total - MOST} if count == MOST < total else {}
        yield PlacedFinding(place, replace(finding, evidence={**finding.evidence, **left_out}))


def _position(commit: Commit) -> tuple[int, int, int]:
    return commit.segment, commit.position, commit.offset


def _owner(key: GroupPartition) -> str:
    group, topic, partition = key
    return f"group {group!r} for {partition_name((topic, partition))}"


def _evidence(key: GroupPartition, commit: Commit, before: Commit) -> dict[str, object]:
    group, topic, partition = key
    return {
        "group": group,
        "partition": partition_name((topic, partition)),
        "committed": commit.committed,
        "before": before.committed,
        "before_at_offset": before.offset,
    }


def _regressed(cluster: Cluster, commits: Commits, issue: CommitIssue) -> PlacedFinding:
    _, key, commit, before, _ = issue
    return cluster.at_commit(
        commits,
        _position(commit),
        CODES["eos-offset-regressed"],
        f"The offset of {_owner(key)} regressed from {before.committed} to {commit.committed} in the transaction of "
        f"{producer_name(cluster, commit.producer_id)} that ended at {format_time(commit.time)}.",
        producer=(commit.producer_id, commit.producer_epoch),
        evidence={
            **_evidence(key, commit, before),
            "transactional_id": committer_of(cluster, key, commit, None).transactional_id,
        },
        exactness=Exactness.EXACT if commits.is_whole else Exactness.APPROXIMATE,
        benign=(
            "offsets reset between the two: no, no other commit between them",
            f"topic recreated: {'not visible here' if commit.topic_id is None else 'no, same topic id'}",
            "group restarted from an older state of its own: possible",
        ),
    )


def _zombie(cluster: Cluster, commits: Commits, issue: CommitIssue) -> PlacedFinding:
    _, key, commit, before, group = issue
    is_lower = commit.committed < before.committed
    # Without the records of its members a partition may have been assigned to one, then to the other.
    shows_members = group is not None and bool(group.members) and commits.is_whole
    if is_lower:
        outcome = "no, the offset is lower"
    else:
        outcome = "no, the group has the same generation" if shows_members else "possible, no record shows its members"
    return cluster.at_commit(
        commits,
        _position(commit),
        CODES["eos-zombie-commit"],
        f"Producer {commit.producer_id} committed offset {commit.committed} of {_owner(key)} after producer "
        f"{before.producer_id} had committed {before.committed}, and had also committed before it.",
        severity=None if is_lower or shows_members else Severity.INFO,
        producer=(commit.producer_id, commit.producer_epoch),
        evidence={**_evidence(key, commit, before), "producer_id_between": before.producer_id},
        benign=(f"repeated rebalances: {outcome}",),
    )


def _mixed(cluster: Cluster, commits: Commits, issue: CommitIssue) -> PlacedFinding:
    _, key, commit, before, _ = issue
    is_transactional = commit.producer_id >= 0
    modes = ("with a transaction", "without one") if is_transactional else ("without a transaction", "with one")
    # Tools and clients before 2.1 send none, and a group without members in time has no record.
    is_of_tool = (before if is_transactional else commit).leader_epoch == NONE
    return cluster.at_commit(
        commits,
        _position(commit),
        CODES["eos-mixed-commit-modes"],
        f"Offset {commit.committed} of {_owner(key)} was committed {modes[0]}, an earlier one {modes[1]}.",
        severity=Severity.INFO if is_of_tool else None,
        evidence=_evidence(key, commit, before),
        benign=(
            "application migrated: possible",
            f"offsets set by a tool: {'possible' if is_of_tool else 'no, as a consumer commits'}",
        ),
    )


def _beyond(cluster: Cluster, commits: Commits) -> Iterator[PlacedFinding]:
    """Yield committed offsets beyond the end or the last stable offset of the available partitions."""
    by_name = {markers.name: markers for markers in cluster.marker_join.by_partition.values()}
    names, codes = commits.last.partitions
    markers = [by_name.get(name) for name in names]
    end, stable = (
        np.array([NEVER if one is None else getattr(one, name) for one in markers], "i8")[codes]
        for name in ("log_end_offset", "last_stable_offset")
    )
    committed = commits.last.table.rows["committed"]
    is_beyond_log = committed > end
    for is_beyond, finding_of in (
        (is_beyond_log, _beyond_log),
        (~is_beyond_log & (committed > stable), _beyond_stable),
    ):
        rows = np.flatnonzero(is_beyond)
        placed = (
            finding_of(cluster, commits, *commits.last.at(row), found)
            for row in rows.tolist()
            if (found := markers[codes[row]]) is not None
        )
        yield from _first(placed, len(rows))


def _beyond_log(
    cluster: Cluster, commits: Commits, key: GroupPartition, commit: Commit, markers: PartitionMarkers
) -> PlacedFinding:
    """Return the finding for an offset beyond the end of the log; copying order does not explain old commits."""
    beyond = OffsetBeyondLog.of(cluster, commits, key, markers)
    if beyond.is_certain:
        outcome = f"no, committed {format_duration(beyond.age_ms)} earlier"
    else:
        outcome = "likely" if beyond.may_be_outdated and beyond.explanation not in LESS_LIKELY else "possible"
    return cluster.at_commit(
        commits,
        _position(commit),
        CODES["eos-offset-beyond-log"],
        f"The offset of {_owner(key)} is {commit.committed}, but {beyond.why}.",
        severity=None if beyond.is_certain else Severity.INFO if beyond.may_be_outdated else Severity.WARNING,
        evidence={
            "group": key[0],
            "partition": partition_name(key[1:]),
            "committed": commit.committed,
            "log_end_offset": markers.log_end_offset,
            **time_of(commit.time),
        },
        exactness=Exactness.EXACT if beyond.is_certain else Exactness.APPROXIMATE,
        benign=(
            f"partition from before the commit, or offsets from before a later one: {outcome}",
            "log truncated after an unclean election, topic recreated, offset set by an operator: "
            + ("possible" if beyond.lost is None else "no, the whole log was lost"),
        ),
    )


def _beyond_stable(
    cluster: Cluster, commits: Commits, key: GroupPartition, commit: Commit, markers: PartitionMarkers
) -> PlacedFinding:
    return cluster.at_commit(
        commits,
        _position(commit),
        CODES["eos-offset-beyond-lso"],
        f"The offset of {_owner(key)} is {commit.committed}, but the last stable offset of the partition is "
        f"{markers.last_stable_offset}.",
        evidence={
            "group": key[0],
            "committed": commit.committed,
            "last_stable_offset": markers.last_stable_offset,
            **time_of(commit.time),
        },
        benign=("consumer with isolation.level read_uncommitted: likely",),
    )


def _pending(cluster: Cluster) -> Iterator[PlacedFinding]:
    pending = {commits.place.partition: commits.pending for commits in cluster.commits}
    for partition, markers in cluster.marker_join.by_partition.items():
        if markers.name[0] == CONSUMER_OFFSETS:
            late = markers.open_transactions[markers.open_transactions["idle_ms"] > cluster.rules.late_ms]
            yield from first_n_placed(late, partial(_blocked, cluster, partition, pending.get(markers.name[1], {})))


def _blocked(cluster: Cluster, partition: int, pending: Mapping[int, tuple[str, ...]], row: Row) -> PlacedFinding:
    groups = pending.get(row["producer_id"], ())
    more = f" and {len(groups) - NAMED} more" if len(groups) > NAMED else ""
    named = ", ".join(map(repr, groups[:NAMED]))
    blocked = f" It blocks offsets of {named}{more}." if groups else ""
    return cluster.at_partition(
        partition,
        CODES["eos-offsets-pending"],
        f"The transaction of producer {row['producer_id']}, open since offset {row['first_offset']}, has been idle for "
        f"{format_duration(row['idle_ms'])}.{blocked}",
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(row["producer_id"], row["producer_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={**silence_of(cluster.rules, row), "groups": list(groups[:NAMED])},
        benign=("in flight when the files were copied: no, it is late",),
    )


def _misplaced(cluster: Cluster) -> Iterator[PlacedFinding]:
    captured = [commits.place.partition or 0 for commits in cluster.commits]
    lengths = np.array([len(commits.groups) for commits in cluster.commits], "i8")
    actual = np.repeat(np.array(captured, "i8"), lengths)
    hashes = np.concatenate([np.empty(0, "i8"), *(hashes_of(commits.groups.names) for commits in cluster.commits)])
    given = cluster.offsets_partition_count
    count = likely_count(captured, hashes, actual) if given is None else given
    if count is None:
        return
    wrong = np.flatnonzero(hashes % count != actual)
    owners = np.repeat(np.arange(len(lengths)), lengths)[wrong]
    numbers = wrong - np.concatenate([[0], np.cumsum(lengths)])[owners]
    placed = (
        _wrong_partition(cluster, cluster.commits[owner], number, count, int(hashes[index] % count))
        for index, owner, number in zip(wrong.tolist(), owners.tolist(), numbers.tolist(), strict=True)
    )
    yield from _first(placed, len(wrong))


def _wrong_partition(cluster: Cluster, commits: Commits, number: int, count: int, expected: int) -> PlacedFinding:
    is_given = cluster.offsets_partition_count is not None
    outcome = "no, it was given" if is_given else "possible, most groups match this one"
    (group,) = texts_of(commits.groups.names.take(np.array([number])))
    source = f" ({cluster.rules.source_of(OFFSETS_PARTITIONS)})" if is_given else ""
    return cluster.at_commit(
        commits,
        commits.groups.position(number),
        CODES["group-wrong-partition"],
        f"Group {group!r} has records in partition {commits.place.partition}; with {count} partitions it belongs to "
        f"partition {expected}{source}.",
        evidence={
            "group": group,
            "partitions": count,
            "wanted_partition": expected,
            **(cluster.rules.evidence(OFFSETS_PARTITIONS) if is_given else {}),
        },
        exactness=Exactness.EXACT if is_given else Exactness.APPROXIMATE,
        benign=(f"another partition count: {outcome}",),
        remedy=f"See which offsets the group has now: {filled_in(DESCRIBE_GROUP, {'group': group})}. "
        f"{CODES['group-wrong-partition'].remedy}",
    )


CHECK = Check("group_offsets", CODES, findings)
