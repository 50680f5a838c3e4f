"""Which findings are of one incident: the kinds of incidents, and what two findings of one incident have in common.

A finding belongs to the kind that lists its code. Findings of a kind with equal
keys are one incident. A finding that follows from another one of the same partition joins the incident of that one:
its ``cause`` or ``CASCADES`` says so. Two incidents are one if evidence links their keys (``incident_links``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from kforensics.forensics.checks.partition import cluster_ids, start_effects
from kforensics.forensics.checks.replicas import log_directories
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.parsers.log.log_rows import Place

__all__ = ["CASCADES", "KINDS", "Cascade", "IncidentKey", "IncidentKind", "PlacedEvidence", "key_of", "kind_of"]

# Kind, cluster, and the values that findings of an incident have in common.
IncidentKey: TypeAlias = tuple[Any, ...]


class PlacedEvidence(NamedTuple):
    """A finding and where it is, as far as grouping needs it.

    Attributes:
        cluster: name of the cluster.
        place: the partition; of a comparison of replicas it has no broker and no log directory.
        folder: folder of the partition.
        finding: the finding.
    """

    cluster: str
    place: Place
    folder: str
    finding: Finding

    @property
    def log_dir(self) -> str:
        """The log directory; in a comparison that of the replica that the finding is about."""
        replica = self.finding.evidence.get("replica")
        if self.place.log_dir is None and isinstance(replica, str):
            return replica.rpartition("/")[0]
        return self.place.log_dir or ""

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Topic and partition; without a topic, the folder."""
        return self.place.topic or self.folder, -1 if self.place.partition is None else self.place.partition


def by_cluster(_: PlacedEvidence) -> tuple[Any, ...]:
    """Return nothing: all findings of a cluster are of one incident."""
    return ()


def _disk(placed: PlacedEvidence) -> tuple[Any, ...]:
    return (placed.log_dir,)


def _broker(placed: PlacedEvidence) -> tuple[Any, ...]:
    return (placed.log_dir if placed.place.broker_id is None else placed.place.broker_id,)


def _copy(placed: PlacedEvidence) -> tuple[Any, ...]:
    return placed.log_dir, *placed.topic_partition


def _partition(placed: PlacedEvidence) -> tuple[Any, ...]:
    return placed.topic_partition


def _topic(placed: PlacedEvidence) -> tuple[Any, ...]:
    return (placed.topic_partition[0],)


def _producer(placed: PlacedEvidence) -> tuple[Any, ...]:
    producer_id = placed.finding.producer_id
    return placed.topic_partition if producer_id is None else (producer_id,)


def _group(placed: PlacedEvidence) -> tuple[Any, ...]:
    group = placed.finding.evidence.get("group")
    return placed.topic_partition if group is None else (str(group),)


def _election(placed: PlacedEvidence) -> tuple[Any, ...]:
    evidence = placed.finding.evidence
    if "elected_at" not in evidence:
        return placed.topic_partition
    return int(evidence["leader"]), int(evidence["elected_at"])


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """A kind of incident.

    Attributes:
        name: its stable name.
        meaning: what happened, as a phrase for a headline.
        key: returns what its findings have in common, beside the cluster.
        codes: codes of its findings; the one that explains most is the first.
        at_most: severity up to which findings are of this kind, None for any; another kind takes the others.
    """

    name: str
    meaning: str
    key: Callable[[PlacedEvidence], tuple[Any, ...]]
    codes: tuple[str, ...]
    at_most: Severity | None = None


# If links join incidents of several kinds, the first of them in this order gives the incident its kind.
KINDS = (
    IncidentKind(
        "unclean-election", "a replica that was out of sync became leader", _election, ("unclean-election-loss",)
    ),
    IncidentKind(
        "replica-divergence",
        "replicas differ",
        _disk,
        (
            *("replica-divergence", "replica-record-divergence", "replica-truncated", "replica-txn-state-divergence"),
            *("leader-epoch-regressed", "replica-key-divergence", "lso-regressed"),
        ),
    ),
    IncidentKind("under-replication", "replicas do not catch up", _disk, ("replica-out-of-sync",)),
    IncidentKind("missing-log", "logs are missing", _disk, ("log-missing",)),
    IncidentKind("corrupt-bytes", "corrupt bytes in logs", _disk, ("batch-crc-mismatch", "batch-length-invalid")),
    IncidentKind("torn-log-end", "logs end in a torn batch", _disk, ("batch-truncated",), Severity.WARNING),
    IncidentKind(
        "missing-offsets",
        "the offsets of a log are broken",
        _copy,
        (
            *("segment-missing", "segment-overlap", "offset-not-monotonic", "offset-overlap", "batch-truncated"),
            *("offset-gap", "segment-base-mismatch"),
        ),
    ),
    IncidentKind(
        "stuck-transaction",
        "a transaction does not end",
        _producer,
        (
            *("txn-hanging", "txn-hanging-unknown-id", "txnlog-prepare-stuck", "txnlog-ongoing-overdue", "txn-late"),
            *("lso-stuck", "eos-offsets-pending", "txn-head-deleted"),
        ),
    ),
    IncidentKind(
        "split-transaction",
        "a transaction ended differently in its partitions",
        _producer,
        (
            *("atomicity-split-outcome", "atomicity-marker-missing", "eos-offset-outcome-mismatch"),
            *("txnlog-prepare-flip", "marker-conflict"),
        ),
    ),
    IncidentKind(
        "late-writes",
        "a producer wrote outside of its transaction or epoch",
        _producer,
        (
            *("txn-foreign-data-absorbed", "txn-nontxn-inside", "txn-write-after-marker", "epoch-regressed"),
            *("txn-epoch-mixed", "eos-zombie-commit", "marker-epoch-regressed", "epoch-bump-nonzero-seq"),
            *("epoch-bump-without-marker", "marker-epoch-jump", "pid-mixed-modes"),
        ),
    ),
    IncidentKind("fencing-loop", "producers keep fencing each other", _producer, ("txnlog-fencing-loop",)),
    IncidentKind(
        "wrong-visibility",
        "read_committed consumers receive wrong records",
        _copy,
        ("txnindex-missing-entry", "visibility-mismatch", "txnindex-corrupt", "txnindex-extra-entry"),
    ),
    IncidentKind(
        "producer-state",
        "producer snapshots disagree with logs",
        _disk,
        (
            *("snapshot-open-txn-mismatch", "snapshot-state-mismatch", "snapshot-beyond-offset"),
            *("snapshot-missing-producer", "snapshot-absent", "snapshot-corrupt", "snapshot-extra-producer"),
        ),
    ),
    IncidentKind(
        "producer-duplicates",
        "a producer's batches were written twice",
        _producer,
        ("seq-duplicate-batch", "seq-reuse", "seq-overlap"),
    ),
    IncidentKind(
        "sequence-gap",
        "sequence numbers of a producer are missing",
        _producer,
        ("seq-gap", "seq-missing", "producer-expired-by-timestamp"),
    ),
    IncidentKind("retry-duplicates", "records were written twice", _topic, ("content-duplicate-retry",)),
    IncidentKind(
        "coordinator-log",
        "the log of a coordinator is inconsistent",
        _partition,
        (
            *("txnlog-unparsable", "txnlog-illegal-transition", "txnlog-epoch-regressed", "txnlog-pid-reused"),
            "txnlog-transient-state",
        ),
    ),
    IncidentKind(
        "internal-partitions",
        "names belong to other partitions of an internal topic",
        _topic,
        ("txnlog-wrong-partition", "group-wrong-partition"),
    ),
    IncidentKind("shared-producer-id", "two transactional ids share a producer id", _producer, ("pid-two-ids",)),
    IncidentKind("offset-beyond-log", "a group is beyond the end of a log", _group, ("eos-offset-beyond-log",)),
    IncidentKind(
        "group-offsets",
        "the committed offsets of a group are inconsistent",
        _group,
        ("eos-offset-regressed", "eos-mixed-commit-modes"),
    ),
    IncidentKind("group-reset", "a group was reset", _group, ("group-offset-reset", "group-offset-out-of-range")),
    IncidentKind(
        "faulty-markers",
        "transaction markers are faulty",
        _producer,
        (
            *("marker-malformed", "marker-partition-unlisted", "marker-flags-unexpected", "marker-outside-window"),
            *("marker-coordinator-epoch-regressed", "marker-coordinator-epoch-mismatch", "control-shell"),
        ),
    ),
    IncidentKind(
        "forgotten-log-start",
        "a broker has forgotten the log start of a partition in remote storage",
        _partition,
        ("log-start-forgotten",),
    ),
    IncidentKind(
        "next-start",
        "the next start of the broker fails, or changes what it serves",
        _disk,
        (*start_effects.CODES, *cluster_ids.CODES, *log_directories.CODES, "folder-in-partition"),
    ),
    IncidentKind("stray-folders", "a broker has set aside folders with records", _broker, ("stray-has-records",)),
    IncidentKind(
        "index-damage",
        "indexes disagree with logs",
        _disk,
        ("index-mismatch", "index-corrupt", "timeindex-mismatch", "txnindex-lso-mismatch"),
    ),
    IncidentKind(
        "checkpoint-damage",
        "checkpoints disagree with logs",
        _disk,
        (
            *("leader-epoch-checkpoint-mismatch", "checkpoint-start-invalid", "checkpoint-hw-beyond-end"),
            *("checkpoint-cleaner-invalid", "leader-epoch-missing", "metadata-snapshot-damaged"),
            *("metadata-snapshot-missing", "metadata-snapshot-differs"),
        ),
    ),
    IncidentKind(
        "malformed-records",
        "records are malformed",
        _partition,
        ("record-parse-error", "seq-count-mismatch", "ts-max-mismatch", "batch-attributes-unknown"),
    ),
    IncidentKind("keyless-records", "a compacted topic has records without a key", _topic, ("keyless-in-compacted",)),
    IncidentKind(
        "misplaced-keys",
        "keys are in unexpected partitions",
        _topic,
        ("tombstone-wrong-partition", "key-in-two-partitions", "key-partition-mismatch", "partition-growth"),
    ),
    IncidentKind(
        "producer-epochs", "a producer runs out of epochs", _producer, ("epoch-max-used", "epoch-near-exhaustion")
    ),
    IncidentKind("slow-transactions", "transactions last too long", _producer, ("txn-duration-excessive",)),
    IncidentKind("aborted-transactions", "many transactions are aborted", by_cluster, ("txn-aborted-rate-high",)),
    IncidentKind("operator-abort", "an operator aborted a transaction", _producer, ("marker-admin-abort",)),
    IncidentKind("broker-clocks", "the clocks of brokers differ", by_cluster, ("broker-clocks-differ",)),
    IncidentKind(
        "timestamps",
        "timestamps are unusual",
        _topic,
        ("ts-future", "ts-ancient", "ts-missing", "ts-append-regressed", "ts-type-mixed"),
    ),
    IncidentKind(
        "repeated-content",
        "records have equal content",
        _topic,
        ("content-duplicate-cross-producer", "content-duplicate-repeated", "content-duplicate-cross-partition"),
    ),
    IncidentKind("open-transactions", "transactions are in flight", by_cluster, ("txn-open-at-end",)),
    IncidentKind(
        "client-usage",
        "unusual use by clients",
        by_cluster,
        (
            *("pid-churn", "txnlog-id-churn", "txn-open-many", "txnlog-timeout-too-large", "seq-first-nonzero"),
            *("eos-commit-without-output", "eos-offset-beyond-lso"),
        ),
    ),
    IncidentKind(
        "harmless-traces",
        "harmless traces of restarts, upgrades, retention or cleaning",
        by_cluster,
        (
            *("marker-empty", "marker-duplicate", "control-shell", "marker-timestamp-regressed", "snapshot-stray"),
            *("snapshot-extra-producer", "snapshot-minor-mismatch", "txnindex-lso-mismatch", "index-absent"),
            *("index-orphaned", "folder-in-partition", "batch-magic-old", "replica-lag", "replica-start-differs"),
            *("lso-prefix-unknown", "atomicity-unverifiable", "batch-truncated", "metadata-snapshot-ahead"),
            "replica-out-of-sync",
        ),
        Severity.INFO,
    ),
)


def _limit(kind: IncidentKind) -> int:
    return len(Severity) if kind.at_most is None else kind.at_most


KINDS_BY_CODE: Mapping[str, tuple[IncidentKind, ...]] = {
    code: tuple(sorted((kind for kind in KINDS if code in kind.codes), key=_limit))
    for kind in KINDS
    for code in kind.codes
}
KIND_RANKS = {kind.name: rank for rank, kind in enumerate(KINDS)}


def kind_of(finding: Finding) -> IncidentKind:
    """Return the kind of incident of a finding.

    Raises:
        KeyError: no kind lists its code.
    """
    kinds = KINDS_BY_CODE[finding.code.name]
    fitting = (kind for kind in kinds if kind.at_most is None or finding.severity <= kind.at_most)
    return next(fitting, kinds[-1])


def key_of(placed: PlacedEvidence) -> IncidentKey:
    """Return the key of the incident of a finding that follows from no other finding."""
    kind = kind_of(placed.finding)
    return kind.name, placed.cluster, *kind.key(placed)


def same_batch(finding: Finding) -> object:
    """Return the producer and the first offset of a finding, None if it has no single producer."""
    return None if finding.producer_id is None else (finding.producer_id, finding.first_offset)


def same_segment(finding: Finding) -> object:
    """Return what the names of the files of a segment have in common, None if the finding is about no file."""
    if finding.path is None:
        return None
    folder, _, name = finding.path.rpartition("/")
    return folder, name.partition(".")[0]


def same_partition(_: Finding) -> object:
    """Return what all findings of a partition have in common."""
    return "partition"


@dataclass(frozen=True, slots=True)
class Cascade:
    """Findings that follow from others of the same partition.

    Attributes:
        effects: codes of the findings that follow.
        kinds: kinds of the incidents that they join.
        common: returns what both findings must have in common, None if a finding lacks it.
    """

    effects: tuple[str, ...]
    kinds: tuple[str, ...]
    common: Callable[[Finding], object]


CASCADES = (
    Cascade(("marker-admin-abort",), ("split-transaction",), same_batch),
    Cascade(("txn-open-at-end", "txn-write-after-marker"), ("stuck-transaction",), same_batch),
    Cascade(("epoch-regressed", "txn-epoch-mixed", "marker-epoch-regressed"), ("stuck-transaction",), same_batch),
    Cascade(
        (
            *("index-mismatch", "index-corrupt", "timeindex-mismatch", "offset-gap", "offset-overlap"),
            *("offset-not-monotonic", "batch-truncated", "record-parse-error"),
        ),
        ("corrupt-bytes", "torn-log-end"),
        same_segment,
    ),
    # A snapshot or a checkpoint that knows offsets beyond the end of a log knew what has been torn off.
    Cascade(("checkpoint-hw-beyond-end", "snapshot-beyond-offset"), ("torn-log-end",), same_partition),
)
