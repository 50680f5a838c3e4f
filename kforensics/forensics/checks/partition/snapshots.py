"""Checks that producer snapshots agree with the log: a broker trusts them when it starts.

Rule: ``ProducerStateManager`` writes a snapshot when a segment is rolled, at a clean shutdown and after it has loaded a
log. It contains the state after all batches that end below its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.broker_settings import PRODUCER_EXPIRY
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import UNKNOWN_TIMES, format_duration, format_time
from kforensics.forensics.core.reporting import FirstFindings, Row
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import have_marker_since
from kforensics.forensics.partition.snapshot_records import (
    SnapshotEntries,
    is_latest,
    paired_blocks,
    snapshot_entries,
)
from kforensics.forensics.sidecar.snapshot_differences import (
    STATE_FIELDS,
    AgreeingSnapshot,
    ProducerPairArray,
    SnapshotDifferences,
    cleaned_below,
    snapshot_differences,
)
from kforensics.forensics.sidecar.snapshot_expiry import TakenSnapshot, expired_before

CODES = by_name(
    Code(
        "snapshot-open-txn-mismatch",
        Severity.CRITICAL,
        meaning=(
            "A snapshot disagrees with the log about an open transaction: the broker that has this snapshot has "
            "another last stable offset than the log shows, at the latest when it restarts."
        ),
        remedy=(
            "Stop the broker and move this snapshot and all newer ones away, but keep an older valid one: the "
            "broker then replays the log from there. If none is left it would start without any producer state; "
            "rebuild the replica in that case."
        ),
        why=(
            "At startup a broker takes its open transactions from the newest snapshot and replays the log from "
            "there, and it writes snapshots from what it has in memory. If an open transaction is missing, it is "
            "forgotten and its data becomes visible; an additional one blocks the last stable offset forever."
        ),
        benign=(
            "The transaction ended and has been cleaned since. Batches have been lost from the log, which is "
            "reported separately. A follower whose producers had all expired truncated its log: only a warning if the "
            "transaction has ended since."
        ),
    ),
    Code(
        "snapshot-state-mismatch",
        Severity.ERROR,
        meaning="A snapshot disagrees with the log about the epoch, sequence or offset of a producer.",
        remedy=(
            "Nothing happens while the broker runs; after a restart it accepts duplicates or rejects valid "
            "batches. Stop the broker and move the snapshot and all newer ones away, but keep an older valid "
            "one."
        ),
        why=(
            "A leader uses these values to decide whether a batch is new. After a restart with wrong values it "
            "rejects the producer (OutOfOrderSequenceException), or accepts a retry a second time."
        ),
        benign=(
            "With transaction version 2 each transaction ends with sequence -1, which does not count as a "
            "difference. The newest batch of the producer was cleaned. The producer had expired before its last "
            "marker, because producer.id.expiration.ms is shorter than known."
        ),
    ),
    Code(
        "snapshot-minor-mismatch",
        Severity.INFO,
        meaning="A snapshot disagrees with the log about the timestamp or coordinator epoch of a producer.",
        why=(
            "The timestamp determines when the producer expires, the coordinator epoch whether an old "
            "coordinator is rejected. Neither affects data."
        ),
        benign="A cleaner removed the newest batch or marker, or recomputed timestamps.",
    ),
    Code(
        "snapshot-missing-producer",
        Severity.WARNING,
        meaning="A snapshot lacks a producer that is in the log and cannot have expired.",
        remedy="No action if producer {producer_id} is idle. With a shorter producer.id.expiration.ms, it has expired.",
        why=(
            "A broker that starts from this snapshot does not know the producer, and accepts its next batch "
            "with any sequence."
        ),
        benign=(
            "The producer was idle and had expired by the broker's clock. The snapshot is from a replica that "
            "started later."
        ),
    ),
    Code(
        "snapshot-extra-producer",
        Severity.INFO,
        meaning="A snapshot contains a producer that is not in the log.",
        why=(
            "The producer's batches were removed by retention, DeleteRecords or cleaning; it stays in "
            "snapshots until it expires."
        ),
        benign="Nearly always. Only in a log that is complete from its first offset it is not.",
    ),
)

NOTHING, NEVER = -1, 1 << 62
# Shorter times are no sign of an expiry: a broker may have lost the state that it had before it restarted.
LEAST_IDLE_MS = 5_000
# A broker looks for expired producers every ten minutes (producer.id.expiration.check.interval.ms).
EXPIRY_CHECK_MS = 600_000
MINOR = ("last_timestamp", "coordinator_epoch")
ORDER = ("producer_epoch", "last_offset")
FIELD_NAMES = {
    "producer_epoch": "epoch",
    "last_sequence": "last sequence",
    "last_offset": "last offset",
    "offset_delta": "offset delta",
    "last_timestamp": "timestamp",
    "coordinator_epoch": "coordinator epoch",
}
CLEANED = "cleaned since: no"
LOADED = "log loaded from a later offset: no"
EXPIRED = f"expired: not by {PRODUCER_EXPIRY} as it is given or assumed"
SHORTER_EXPIRY = f"expired: likely, {PRODUCER_EXPIRY} is unknown"


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield where the snapshots of a partition disagree with its log."""
    report, earlier = FirstFindings(CODES), list[TakenSnapshot]()
    agreeing: AgreeingSnapshot | None = None
    for offset, file in sorted(state.partition.snapshots.items()):
        # The log does not cover what is before the boundary or after its end.
        if offset in state.producers_at and state.boundary.offset <= offset <= state.log_end_offset:
            stored = snapshot_entries(file.path)
            if stored is not None:
                compared = _ComparedSnapshot(state, offset, stored, earlier)
                agreeing = _compare(report, compared, agreeing)
                earlier = [*earlier, compared.taken]
    yield from report.findings


def _compare(
    report: FirstFindings, compared: _ComparedSnapshot, agreeing: AgreeingSnapshot | None
) -> AgreeingSnapshot | None:
    """Report where a snapshot disagrees with the log; return the last snapshot that agrees with it."""
    (offset, now_ms, stored, replay), is_agreeing = compared.taken, True
    for entries, replayed in paired_blocks(stored, replay):
        # If there are several entries for one producer, a broker keeps the last one.
        is_last = is_latest(entries)
        report.add("snapshot-state-mismatch", entries[~is_last], compared.repeated)
        latest = entries[is_last]
        beyond = latest[(latest["last_offset"] >= offset) | (latest["current_txn_first_offset"] >= offset)]
        differences = snapshot_differences(compared.state, offset, (latest, replayed), now_ms, agreeing)
        for code, rows, finding in compared.kinds(differences):
            # Entries that reach beyond the snapshot are reported as snapshot-beyond-offset.
            report.add(code, rows[~np.isin(rows["producer_id"], beyond["producer_id"])], finding)
        is_agreeing &= bool(is_last.all()) and not differences
    return AgreeingSnapshot(offset, stored, replay) if is_agreeing else agreeing


class _ComparedSnapshot:
    """Creates findings about a snapshot that a broker accepts."""

    def __init__(
        self, state: PartitionState, offset: int, stored: SnapshotEntries, earlier: Sequence[TakenSnapshot]
    ) -> None:
        self.state, self._offset, self._earlier = state, offset, earlier
        self._file = state.partition.snapshots[offset]
        self.taken = TakenSnapshot(offset, self.now_ms, stored, state.producers_at[offset])
        self._is_lossy = _is_lossy(state, offset)
        # A snapshot with open transactions alone has not lost the state of those that have ended; an empty one may.
        self._oldest_kept = stored.oldest_idle_timestamp() if len(stored) else NOTHING
        self._is_empty = not len(stored)

    @property
    def now_ms(self) -> int:
        """When the snapshot was written: the file time or, if it is unknown, the largest timestamp before it.

        A file that is newer than the time of evaluation is a copy that has not kept its time.
        """
        if self._file.mtime_ms is not None:
            return min(self._file.mtime_ms, self.state.rules.as_of_ms)
        segments = self.state.log.segments
        return int(segments["max_timestamp"][segments["first_offset"] < self._offset].max(initial=NOTHING))

    def kinds(
        self, differences: SnapshotDifferences
    ) -> Iterator[tuple[str, ProducerPairArray, Callable[[Row], Finding]]]:
        """Yield for each kind of difference its code, its rows and the function that creates findings from them."""
        yield "snapshot-open-txn-mismatch", differences.open_transaction, self._transaction
        yield (
            "snapshot-state-mismatch",
            differences.state,
            partial(self._fields, "snapshot-state-mismatch", STATE_FIELDS),
        )
        yield "snapshot-minor-mismatch", differences.minor, partial(self._fields, "snapshot-minor-mismatch", MINOR)
        yield "snapshot-missing-producer", differences.missing, self._missing
        yield "snapshot-extra-producer", differences.extra, self._extra

    def _finding(
        self,
        code: str,
        message: str,
        row: Row,
        benign: tuple[str, ...],
        severity: Severity | None = None,
    ) -> Finding:
        worst = CODES[code].severity if severity is None else severity
        is_lossy = self._is_lossy and not (code == "snapshot-open-txn-mismatch" and self._is_forgotten(row))
        lost = "possible" if is_lossy else "only before the transaction" if self._is_lossy else "no"
        finding = self.state.finding(
            CODES[code],
            f"The snapshot at offset {self._offset} {message}.",
            severity=min(worst, Severity.WARNING) if is_lossy else worst,
            offsets=(self._offset, self._offset),
            producer=(row["producer_id"], row.get("producer_epoch", row.get("stored_producer_epoch"))),
            evidence=_evidence(row) | self._settings(code),
            exactness=Exactness.APPROXIMATE if is_lossy else Exactness.EXACT,
            benign=(*benign, f"batches lost from the log: {lost}"),
        )
        return replace(finding, path=self._file.path)

    def _unless_lost(self, last_offset: int, finding: Finding) -> Finding:
        """Return a finding, as info if what explains it may have been lost or damaged after an offset."""
        lacking = self.state.log_gaps.between(last_offset, self._offset)
        if lacking.cause is None:
            return finding
        return replace(finding, severity=Severity.INFO, exactness=Exactness.UNVERIFIABLE, cause=lacking.cause)

    def _settings(self, code: str) -> dict[str, object]:
        """Return the setting that a finding leans on, for its evidence."""
        return self.state.rules.evidence(PRODUCER_EXPIRY) if code == "snapshot-missing-producer" else {}

    def repeated(self, row: Row) -> Finding:
        """Return the finding about an entry that is followed by another one for the same producer."""
        message = f"has more than one entry for producer {row['producer_id']}"
        return self._finding("snapshot-state-mismatch", message, row, ())

    def _transaction(self, row: Row) -> Finding:
        message = (
            f"has {_open_transaction(row, 'stored')} of producer {row['producer_id']}, but the log has "
            f"{_open_transaction(row, 'expected')}"
        )
        if self._is_forgotten(row):
            message += ": this replica has forgotten it, and as leader it delivers its data to all consumers"
        sides = (row[f"{side}_current_txn_first_offset"] for side in ("stored", "expected"))
        first = min(first for first in sides if first >= 0)
        lacking = self.state.log_gaps.between(first, self._offset)
        benign = (CLEANED, LOADED, lacking.benign)
        if lacking.any:
            finding = self._finding("snapshot-open-txn-mismatch", message, row, benign, Severity.INFO)
            return replace(finding, exactness=Exactness.UNVERIFIABLE, cause=lacking.cause)
        if not (self._was_truncated_without_producers and self._has_ended(row)):
            return self._finding("snapshot-open-txn-mismatch", message, row, benign)
        truncated = "log truncated by a follower whose producers had expired: likely, and the transaction has ended"
        return self._finding("snapshot-open-txn-mismatch", message, row, (*benign, truncated), Severity.WARNING)

    def _is_forgotten(self, row: Row) -> bool:
        """Return whether a transaction is forgotten, as this snapshot shows: then no batch is missing since its data.

        See ``without_forgotten``, which ignores what is missing or damaged before it.
        """
        store = self.state.transaction_store
        return store.is_lacking(self._offset, row["producer_id"], row["expected_current_txn_first_offset"])

    def _has_ended(self, row: Row) -> bool:
        producer_ids = np.array([row["producer_id"]], "i8")
        return bool(have_marker_since(self.state, producer_ids, self._offset)[0])

    @property
    def _was_truncated_without_producers(self) -> bool:
        """Whether a follower wrote the snapshot after it had truncated the log to the start of a leader epoch.

        If all its producers had expired, it does not read the log again, although markers are gone whose transactions
        are open again. Rule: ``UnifiedLog.rebuildProducerState``.
        """
        if not self._is_empty or self.state.partition.topic_id in self.state.rules.unreplicated_topics:
            return False
        return self._offset in self.state.log.epochs["first_offset"]

    def _fields(self, code: str, names: tuple[str, ...], row: Row) -> Finding:
        differing = [name for name in names if row[f"stored_{name}"] != row[f"expected_{name}"]]
        stored, expected = (
            ", ".join(_field(name, row[f"{side}_{name}"]) for name in differing) for side in ("stored", "expected")
        )
        message = f"has {stored} of producer {row['producer_id']}, but the log has {expected}"
        if not self._may_have_expired(row["idle_before_marker"]):
            finding = self._finding(code, message, row, (CLEANED, LOADED, EXPIRED))
            in_file, in_log = ([row[f"{side}_{name}"] for name in ORDER] for side in ("stored", "expected"))
            is_damaged = self.state.log_gaps.damage_at(row["expected_last_offset"]) is not None
            # What is lost or damaged later cannot explain a snapshot that is older than the log.
            return self._unless_lost(in_log[1], finding) if in_file > in_log or is_damaged else finding
        idle = format_duration(row["idle_before_marker"])
        message += f": it only knows its last marker, before which the producer was idle for {idle}"
        finding = self._finding(code, message, row, (CLEANED, LOADED, SHORTER_EXPIRY), Severity.INFO)
        return replace(finding, exactness=Exactness.UNVERIFIABLE)

    def _may_have_expired(self, idle_time: int) -> bool:
        """Return whether an expiry shorter than the default explains that only the marker after an idle time is known.

        Idle producers that the snapshot still has show that the expiry is not that short.
        """
        longest = self.now_ms - self._oldest_kept if self._oldest_kept != NOTHING else 0
        return idle_time >= max(LEAST_IDLE_MS, longest - EXPIRY_CHECK_MS) and not self._is_expiry_known

    def _missing(self, row: Row) -> Finding:
        idle_time = self.now_ms - row["expected_last_timestamp"]
        message = (
            f"lacks producer {row['producer_id']}, whose last batch or marker before it is of "
            f"{format_time(row['expected_last_timestamp'])}"
        )
        if idle_time >= 0:  # otherwise it was evaluated as of a time before its records
            message += f", {format_duration(idle_time)} before the snapshot was taken"
        expired = expired_before(self._earlier, row, self.now_ms, self.state.rules.possible_pid_expiry_ms)
        if expired is not None:
            known = f"expired: likely, the snapshot at offset {expired.offset} lacks it, too, by a clock that was ahead"
            finding = self._finding("snapshot-missing-producer", message, row, (known, LOADED), Severity.INFO)
            return replace(finding, exactness=Exactness.UNVERIFIABLE)
        younger = "taken by a replica that started later: possible, no other replica was compared"
        if not self._may_be_shorter(row, idle_time):
            return self._finding("snapshot-missing-producer", message, row, (EXPIRED, LOADED, younger))
        shorter = f"{SHORTER_EXPIRY}, and the snapshot only has younger ones"
        finding = self._finding("snapshot-missing-producer", message, row, (shorter, LOADED, younger), Severity.INFO)
        return replace(finding, exactness=Exactness.UNVERIFIABLE)

    def _may_be_shorter(self, row: Row, idle_time: int) -> bool:
        """Return whether an expiry shorter than the default explains what the snapshot has and lacks.

        It may still be shorter than what other snapshots prove. An empty snapshot may also have lost its producers,
        unless others prove that the expiry is shorter, if only on another broker.
        """
        rules = self.state.rules
        is_proven = rules.least_pid_expiry_ms is not None or (rules.shown_pid_expiry_ms or NEVER) <= idle_time
        is_older = row["expected_last_timestamp"] < self._oldest_kept or (self._oldest_kept == NOTHING and is_proven)
        return is_older and idle_time >= LEAST_IDLE_MS and not self._is_expiry_known

    @property
    def _is_expiry_known(self) -> bool:
        rules = self.state.rules
        return not rules.is_default(PRODUCER_EXPIRY) and rules.least_pid_expiry_ms is None

    def _extra(self, row: Row) -> Finding:
        is_whole = self.state.is_complete and not cleaned_below(self.state)
        message = (
            f"has producer {row['producer_id']}, epoch {row['stored_producer_epoch']}, which has no batch in the log"
        )
        severity = Severity.ERROR if is_whole else None
        benign = (CLEANED, "start of the log deleted: no")
        return self._unless_lost(NOTHING, self._finding("snapshot-extra-producer", message, row, benign, severity))


def _is_lossy(state: PartitionState, offset: int) -> bool:
    """Return whether batches before an offset may be missing that were not cleaned.

    Unlike a torn end alone, a damaged last batch is none of them, either: only a snapshot at the log end is after it.
    """
    segments = state.partition.segments
    is_damaged = any(
        (segments[number].base_offset or 0) < offset
        and (number < len(segments) - 1 or row.next_good_position is not None)
        for number, row in state.log.damage
    )
    return is_damaged or (state.log.offset_gaps > 0 and not cleaned_below(state))


def _evidence(row: Row) -> dict[str, object]:
    hidden = {"producer_id", "recent", "recent_count"}
    if row.get("idle_before_marker") == NOTHING:
        hidden.add("idle_before_marker")
    shown = {name: value for name, value in row.items() if name not in hidden}
    return {name: None if _is_absent_time(name, value) else value for name, value in shown.items()}


def _field(name: str, value: int) -> str:
    return f"no {FIELD_NAMES[name]}" if _is_absent_time(name, value) else f"{FIELD_NAMES[name]} {value}"


def _is_absent_time(name: str, value: object) -> bool:
    """Return whether a value is the -1 that Kafka has for the timestamp of a batch without one."""
    return name.endswith("last_timestamp") and value in UNKNOWN_TIMES


def _open_transaction(row: Row, side: str) -> str:
    first = row[f"{side}_current_txn_first_offset"]
    return "no open transaction" if first < 0 else f"an open transaction with first offset {first}"


CHECK = Check("snapshots", CODES, findings)
