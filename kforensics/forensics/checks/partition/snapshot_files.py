"""Whether the snapshots of producers are there, whole, and where they belong.

Rule: ``ProducerStateManager`` takes one when a segment is rolled, at an orderly stop and after it has loaded a log, and
removes those that belong to no segment when it loads one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.record_types import PRODUCER, Records
from kforensics.forensics.core.reporting import Row, each
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.producer_snapshot import read_producer_snapshot

__all__ = ["CODES", "findings"]

CODES = codes("""
snapshot-corrupt warning
A broker refuses a snapshot of the producers, deletes it and takes an older one.
Nothing, as long as another one is left.
why: Length, version or checksum are wrong, for example after a crash in the middle of writing. The broker deletes it \
and takes an older one, so that it reads more of the log.
innocent: A copy of a running broker, if it is the newest.

snapshot-beyond-offset error
A snapshot speaks of offsets that are not below its own.
While the broker is stopped, move this snapshot away; leave an older good one.
why: A snapshot holds the state behind all batches below its offset. What lies above it cannot have been known then; a \
broker that starts from it takes batches for repetitions that are none.
innocent: Written by a broker of before 2.0 (KAFKA-6683).

snapshot-absent warning
The log has producers and no snapshot of them: a broker that was stopped in order begins with none of them.
Before the broker is started delete .kafka_cleanshutdown from its log directory: without that file it replays the log.
why: After an orderly stop a broker replays nothing and relies on its snapshots. With none it begins without any \
producer: open transactions are forgotten and their data shown, and retries are not recognised.
innocent: The log is younger than one segment, and the broker was running. They were left out of the copy.

snapshot-stray info
A snapshot belongs neither to a segment nor to the end of the log.
why: Snapshots stand at the beginning of segments and at the end of the log. The segment of this one is gone.
innocent: Segments were deleted or merged; the next start of the broker removes it.
""")


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the snapshots of a partition by themselves."""
    sound: dict[int, Records] = {}
    for offset, file in sorted(case.partition.snapshots.items()):
        stored = snapshot_records(file.path)
        if stored is None:
            yield _corrupt(case, offset, file)
        else:
            sound[offset] = _beyond(stored, offset)
    offsets = np.repeat([*sound], [len(rows) for rows in sound.values()]) if sound else np.empty(0, "i8")
    rows = np.concatenate([np.empty(0, PRODUCER), *sound.values()])
    yield from each(rows, partial(_reaches_beyond, case), snapshot=offsets)
    if not sound:
        yield from _absent(case)
    yield from _strays(case)


def _beyond(stored: Records, offset: int) -> Records:
    """Return the producers with an offset that is not below the snapshot's."""
    found: Records = stored[(stored["last_offset"] >= offset) | (stored["current_txn_first_offset"] >= offset)]
    return found


def _reaches_beyond(case: Case, row: Row) -> Finding:
    offset, last, first = row["snapshot"], row["last_offset"], row["current_txn_first_offset"]
    opened = "no transaction is open" if first < 0 else f"a transaction from offset {first} on is open"
    found = case.finding(
        CODES["snapshot-beyond-offset"],
        f"The snapshot at offset {offset} says that the last offset of producer {row['producer_id']} is {last}, and "
        f"that {opened}: it can only know what is below {offset}.",
        offsets=(offset, max(last, first)),
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={"last_offset": last, "current_txn_first_offset": first},
        benign=("written before 2.0 (KAFKA-6683): possible, releases are not in the files",),
    )
    return replace(found, path=case.partition.snapshots[offset].path)


def _corrupt(case: Case, offset: int, file: FoundFile) -> Finding:
    why, unread = _fault(file.path)
    newest = offset == max(case.partition.snapshots) and not case.partition.log_dir.clean_shutdown
    found = case.finding(
        CODES["snapshot-corrupt"],
        f"The snapshot at offset {offset} cannot be read: {why}."
        if unread
        else f"A broker refuses the snapshot at offset {offset}: {why}.",
        offsets=(offset, offset),
        exactness=Exactness.UNVERIFIABLE if unread else Exactness.EXACT,
        benign=(f"copied while the broker wrote it: {'possible, it is the newest' if newest else 'no'}",),
    )
    return replace(found, path=file.path)


def _fault(path: str) -> tuple[str, bool]:
    """Return what is wrong with a snapshot, and whether it could not be read at all."""
    try:
        with open_source(path) as source:
            faults = [row.detail for row in read_producer_snapshot(source) if isinstance(row, Damage)]
    except InputError as error:
        return error.why, True
    return (faults[0], False) if faults else ("its length is not that of its entries", False)


def _absent(case: Case) -> Iterator[Finding]:
    partition = case.partition
    clean = partition.log_dir.clean_shutdown
    young = len(partition.segments) == 1 and not partition.first_offset and not clean
    only_logs = not (partition.indexes or partition.time_indexes or partition.snapshots)
    producers, opened = len(_loaded(case)), len(case.open_transactions)
    if only_logs or not producers or (young and not partition.snapshots):
        return
    then = "a broker that starts from these files replays the log"
    if clean:
        then = "the broker was stopped in order, and will start with no state of them"
    yield case.finding(
        CODES["snapshot-absent"],
        f"The log has {producers} producers and {opened} open transactions, and no snapshot that a broker would take; "
        f"{then}.",
        severity=Severity.CRITICAL if clean and opened else None,
        evidence={"producers": producers, "open_transactions": opened, "clean_shutdown": clean},
        benign=(
            f"log younger than a segment, of a running broker: {'yes' if young else 'no'}",
            f"left out of the copy: {'no' if partition.snapshots else 'possible'}",
        ),
        cause="snapshot-corrupt" if partition.snapshots else None,
    )


def _loaded(case: Case) -> Records:
    """Return the producers that a broker gets to know if it loads the log from its start offset on."""
    start = case.log_start_offset
    if start <= case.partition.first_offset:
        return case.producers
    found: Records = case.producers[case.producers["last_offset"] >= start]
    return found


def _strays(case: Case) -> Iterator[Finding]:
    partition = case.partition
    bases = {segment.base_offset for segment in partition.segments}
    for offset, file in sorted(partition.snapshots.items())[:-1]:
        if offset not in bases:
            found = case.finding(
                CODES["snapshot-stray"],
                f"The snapshot at offset {offset} is not at the beginning of a segment, and not the newest.",
                offsets=(offset, offset),
                benign=(
                    "segments merged or deleted, or the broker stopped and started: likely, the next start removes it",
                ),
            )
            yield replace(found, path=file.path)
