"""Whether the snapshots of producers say what the log says: a broker that starts believes them.

Rule: ``ProducerStateManager`` takes one when a segment is rolled, at an orderly stop and after it has loaded a log; it
holds the state behind all batches that end below its offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST, Row, each, moment, span
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.forensics.sidecar.snapshot_differences import STATE, Differences, Link, cleaned_below, differences

__all__ = ["CODES", "findings"]

CODES = codes("""
snapshot-open-txn-mismatch critical
A snapshot has another open transaction than the log: the last stable offset moves when the broker starts again.
While the broker is stopped, move this snapshot and all newer ones away, but leave an older good one: the broker then \
replays the log from there. With none left it would begin with no state at all; then build the replica again.
why: A broker that starts takes its open transactions from the newest snapshot and replays the log from there. An open \
transaction that is missing in it is forgotten, and its data is shown; one too many holds the last stable offset for \
ever.
innocent: The transaction ended and was cleaned away since. Batches have been lost from the log, which is a finding of \
its own.

snapshot-state-mismatch error
A snapshot has another epoch, sequence or offset of a producer than the log.
As long as the broker runs, nothing happens; after a start it takes duplicates or refuses what is right. Move the \
snapshot and all newer ones away while it is stopped, but leave an older good one.
why: By these figures a leader decides whether a batch is new. After a start with wrong ones it refuses the producer \
(OutOfOrderSequenceException), or takes a retry a second time.
innocent: With transaction version 2 each transaction ends with sequence -1, which is no difference. The newest batch \
of the producer was cleaned away.

snapshot-minor-mismatch info
A snapshot has another timestamp or coordinator epoch of a producer than the log.
why: The timestamp decides when the producer is forgotten, the coordinator epoch whether an old coordinator is \
refused. Neither moves data.
innocent: A cleaner has taken the newest batch or marker, or has computed timestamps anew.

snapshot-missing-producer warning
A snapshot does not know a producer that is in the log and cannot have expired.
Nothing, if producer {producer_id} is idle.
why: A broker that starts from this snapshot does not know the producer, and takes its next batch whatever its \
sequence.
innocent: It was idle and had expired by the clock of the broker. The snapshot is of a replica that began later.

snapshot-extra-producer info
A snapshot knows a producer that is not in the log.
why: The producer's batches are gone, by retention, DeleteRecords or cleaning; it stays in snapshots until it expires.
innocent: Nearly always. Only in a log that is complete from its first offset can it not be.
""")

NOTHING = -1
MINOR = ("last_timestamp", "coordinator_epoch")
WORDS = {
    "producer_epoch": "epoch",
    "last_sequence": "last sequence",
    "last_offset": "last offset",
    "offset_delta": "offset delta",
    "last_timestamp": "timestamp",
    "coordinator_epoch": "coordinator epoch",
}
CLEANED = "cleaned away since: no"
LOADED = "loaded from behind the data: no"
EXPIRED = "expired: no"


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the snapshots of a partition, and where they do not agree with its log."""
    report = _Report()
    link: Link | None = None
    for offset, file in sorted(case.partition.snapshots.items()):
        # What stands before the boundary is not on hand, and what stands behind the log neither.
        if offset in case.producers_at and case.boundary.offset <= offset <= case.log_end_offset:
            stored = snapshot_records(file.path)
            link = link if stored is None else _compare(case, report, offset, stored, link)
    yield from report.findings


class _Report:
    """Findings about producers, of each kind no more than some, and the others counted."""

    def __init__(self) -> None:
        self._found: dict[str, list[Finding]] = {}
        self._left_out = Counter[str]()

    def add(self, code: str, rows: Records, finding: Callable[[Row], Finding]) -> None:
        """Take a finding for each row."""
        found = self._found.setdefault(code, [])
        some = rows[: MOST - len(found)]
        found.extend(each(some, finding))
        self._left_out[code] += len(rows) - len(some)

    @property
    def findings(self) -> Iterator[Finding]:
        """The findings; the evidence of the last one of a kind says how many are left out."""
        for code in CODES:
            found = self._found.get(code, [])
            if self._left_out[code]:
                found[-1] = replace(found[-1], evidence={**found[-1].evidence, "left_out": self._left_out[code]})
            yield from found


def _compare(case: Case, report: _Report, offset: int, stored: Records, link: Link | None) -> Link | None:
    """Report where a snapshot differs from the log; return the link that the next one has to go on from."""
    about = _About(case, offset)
    # Of several entries for one producer a broker keeps the last.
    is_last = np.ones(len(stored), bool)
    is_last[:-1] = stored["producer_id"][1:] != stored["producer_id"][:-1]
    report.add("snapshot-state-mismatch", stored[~is_last], about.twice)
    stored = stored[is_last]
    beyond = stored[(stored["last_offset"] >= offset) | (stored["current_txn_first_offset"] >= offset)]
    found = differences(case, offset, stored, about.now_ms, link)
    for code, rows, finding in about.kinds(found):
        # What reaches beyond the snapshot is wrong by itself.
        report.add(code, rows[~np.isin(rows["producer_id"], beyond["producer_id"])], finding)
    return Link(offset, stored, case.producers_at[offset]) if is_last.all() and not found else link


class _About:
    """Makes findings about a snapshot that a broker accepts."""

    def __init__(self, case: Case, offset: int) -> None:
        self._case, self._offset = case, offset
        self._file = case.partition.snapshots[offset]
        self._is_lossy = _is_lossy(case, offset)

    @property
    def now_ms(self) -> int:
        """When it was taken: when the file was written or, where nobody knows, the largest timestamp in front of it.

        A file that is younger than the moment it is judged as of is a copy that has not kept its time.
        """
        if self._file.mtime_ms is not None:
            return min(self._file.mtime_ms, self._case.rules.as_of_ms)
        segments = self._case.log.segments
        return int(segments["max_timestamp"][segments["first_offset"] < self._offset].max(initial=NOTHING))

    def kinds(self, found: Differences) -> Iterator[tuple[str, Records, Callable[[Row], Finding]]]:
        """Yield the code of each kind of difference, the rows and what makes findings of them."""
        yield "snapshot-open-txn-mismatch", found.open_transaction, self._transaction
        yield "snapshot-state-mismatch", found.state, partial(self._other, "snapshot-state-mismatch", STATE)
        yield "snapshot-minor-mismatch", found.minor, partial(self._other, "snapshot-minor-mismatch", MINOR)
        yield "snapshot-missing-producer", found.missing, self._missing
        yield "snapshot-extra-producer", found.extra, self._extra

    def _finding(
        self,
        code: str,
        message: str,
        row: Row,
        benign: tuple[str, ...],
        severity: Severity | None = None,
    ) -> Finding:
        worst = CODES[code].severity if severity is None else severity
        found = self._case.finding(
            CODES[code],
            f"{message}.",
            severity=min(worst, Severity.WARNING) if self._is_lossy else worst,
            offsets=(self._offset, self._offset),
            producer=(row["producer_id"], _epoch(row)),
            evidence=_evidence(row),
            exactness=Exactness.APPROXIMATE if self._is_lossy else Exactness.EXACT,
            benign=(*benign, f"batches lost from the log: {'possible' if self._is_lossy else 'no'}"),
        )
        return replace(found, path=self._file.path)

    def twice(self, row: Row) -> Finding:
        """Return the finding about an entry that another one for the same producer follows."""
        message = f"The snapshot at offset {self._offset} has producer {row['producer_id']} more than once"
        return self._finding("snapshot-state-mismatch", message, row, ())

    def _transaction(self, row: Row) -> Finding:
        message = (
            f"By the snapshot at offset {self._offset} producer {row['producer_id']} has {_opened(row, 'stored')}; "
            f"by the log {_opened(row, 'expected')}"
        )
        return self._finding("snapshot-open-txn-mismatch", message, row, (CLEANED, LOADED))

    def _other(self, code: str, names: tuple[str, ...], row: Row) -> Finding:
        differing = [name for name in names if row[f"stored_{name}"] != row[f"expected_{name}"]]
        stored, expected = (
            ", ".join(f"{WORDS[name]} {row[f'{side}_{name}']}" for name in differing) for side in ("stored", "expected")
        )
        has = f"producer {row['producer_id']} has {stored}"
        message = f"By the snapshot at offset {self._offset} {has}; by the log {expected}"
        return self._finding(code, message, row, (CLEANED, LOADED, EXPIRED))

    def _missing(self, row: Row) -> Finding:
        idle = self.now_ms - row["expected_last_timestamp"]
        message = (
            f"The snapshot at offset {self._offset} does not know producer {row['producer_id']}, whose last batch or "
            f"marker before it is of {moment(row['expected_last_timestamp'])}, {span(idle)} before it was taken"
        )
        younger = "taken by a replica that began behind it: possible, no copy of another replica was compared"
        return self._finding("snapshot-missing-producer", message, row, (EXPIRED, LOADED, younger))

    def _extra(self, row: Row) -> Finding:
        case = self._case
        whole = case.is_complete and not cleaned_below(case)
        message = (
            f"The snapshot at offset {self._offset} knows producer {row['producer_id']} with epoch "
            f"{row['stored_producer_epoch']}, of which nothing is in the log"
        )
        severity = Severity.ERROR if whole else None
        return self._finding(
            "snapshot-extra-producer", message, row, (CLEANED, "head of the log deleted: no"), severity
        )


def _is_lossy(case: Case, offset: int) -> bool:
    """Whether batches that nobody cleaned away may be missing in front of an offset."""
    last = len(case.partition.segments) - 1
    bases = [segment.base_offset or 0 for segment in case.partition.segments]
    lost = any(
        bases[segment] < offset and (segment < last or row.next_good_position is not None)
        for segment, row in case.log.damage
    )
    return lost or (case.log.holes > 0 and not cleaned_below(case))


def _epoch(row: Row) -> int:
    epoch: int = row["producer_epoch"] if "producer_epoch" in row else row["stored_producer_epoch"]
    return epoch


def _evidence(row: Row) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in {"producer_id", "recent", "recent_count"}}


def _opened(row: Row, side: str) -> str:
    first = row[f"{side}_current_txn_first_offset"]
    return "no open transaction" if first < 0 else f"an open transaction from offset {first} on"
