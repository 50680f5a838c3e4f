"""Checks for indexes without a log, logs without indexes, and folders in the folder of a partition.

Rule: ``LogLoader.loadSegmentFiles`` deletes an index that has no log, rebuilds all indexes of a log that has no offset
index, creates a missing time index empty, and reads no folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.reporting import first_findings
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, parse_file_name
from kforensics.parsers.files.source import file_name

CODES = by_name(
    Code(
        "index-orphaned",
        Severity.INFO,
        meaning="An index has no log with the same base offset.",
        why=(
            "A broker deletes such an index when it starts. It is of no use without its log, but it shows that there "
            "was a segment: if none of the other findings explains where the segment went, it is missing."
        ),
        benign="Retention deleted the segment while the files of a running broker were copied.",
    ),
    Code(
        "index-absent",
        Severity.INFO,
        meaning="A segment has no offset index or no time index.",
        why=(
            "A broker without an offset index reads the segment and rebuilds all its indexes when it starts, which "
            "takes time and nothing else. A time index that alone is missing is created empty: searches by time then "
            "begin at the start of the segment."
        ),
        benign=(
            "Only the logs were copied. A running broker creates the indexes of a new segment a moment after its log."
        ),
    ),
    Code(
        "folder-in-partition",
        Severity.INFO,
        meaning="The folder of a partition contains another folder.",
        why=(
            "Brokers neither create nor read folders there, and delete them together with the partition. What is in "
            "such a folder is not part of the log, and is analyzed as a log of its own."
        ),
        benign="A backup, or what another program left, such as lost+found.",
    ),
)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield the indexes without a log, the logs without an index, and the folders."""
    orphaned = list(_orphaned(state))
    yield from first_findings((_orphan(state, file) for file in orphaned), len(orphaned))
    yield from _absent(state)
    if state.partition.nested:
        yield _folders(state)


def _orphaned(state: PartitionState) -> Iterator[FoundFile]:
    partition = state.partition
    bases = {segment.base_offset for segment in partition.segments}
    orphans = [
        file
        for by_offset in (partition.indexes, partition.time_indexes, partition.transaction_indexes)
        for base, file in by_offset.items()
        if base not in bases
    ]
    if orphans:
        beside = _names_in(partition.folder)
        yield from (file for file in orphans if beside is not None and _renamed(file.path, "log") not in beside)


def _orphan(state: PartitionState, file: FoundFile) -> Finding:
    base = file.base_offset or 0
    finding = state.finding(
        CODES["index-orphaned"],
        f"{file_name(file.path)} has no log: the broker deletes it at its next start.",
        offsets=(base, base),
        evidence={"size": file.size},
    )
    return replace(finding, path=file.path)


def _absent(state: PartitionState) -> Iterator[Finding]:
    """Yield one finding for all segments without an offset index, and one for those that lack only a time index."""
    partition = state.partition
    # Copies of a metadata log often leave out its preallocated indexes, 20 MB of zeros.
    segments = partition.segments[:-1] if partition.place.topic == METADATA_TOPIC else partition.segments
    unindexed = [file for file in segments if file.base_offset not in partition.indexes]
    # Brokers before 0.10.1 have no time indexes.
    untimed = [file for file in segments if file.base_offset not in partition.time_indexes]
    untimed = [file for file in untimed if partition.time_indexes and file not in unindexed]
    beside = _names_in(partition.folder) if unindexed or untimed else set()
    if beside is None:
        return
    for files, suffix, consequence in (
        (unindexed, "index", "rebuilds all indexes of such a segment from its log at its next start"),
        (untimed, "timeindex", "creates an empty one at its next start"),
    ):
        missing = [file for file in files if _renamed(file.path, suffix) not in beside]
        if missing:
            yield _absent_finding(state, missing, suffix, consequence)


def _absent_finding(state: PartitionState, files: list[FoundFile], suffix: str, consequence: str) -> Finding:
    name, bases = file_name(files[0].path), [file.base_offset or 0 for file in files]
    more = "" if len(files) == 1 else f" and {format_count(len(files) - 1, 'other segment')} have"
    finding = state.finding(
        CODES["index-absent"],
        f"{name}{more or ' has'} no .{suffix}: the broker {consequence}.",
        offsets=(bases[0], bases[-1]),
        evidence={"base_offsets": bases},
        benign=("only the logs were copied: not ruled out",),
    )
    return replace(finding, path=files[0].path)


def _folders(state: PartitionState) -> Finding:
    partition = state.partition
    blocking = [name for name in partition.nested if parse_file_name(name) is not None]
    message = f"The folder of the partition contains {_named('folder', partition.nested)}, which no broker reads."
    if blocking:
        message += f" {_named('The name', blocking)} should be that of a file, which a broker can then not write."
    finding = state.finding(
        CODES["folder-in-partition"],
        message,
        severity=Severity.WARNING if blocking else None,
        evidence={"folders": list(partition.nested)},
    )
    remedy = "Move {path} out of the folder of the partition."
    return replace(finding, path=f"{partition.folder}/{(blocking or partition.nested)[0]}", remedy=remedy)


def _named(noun: str, names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return f"{noun if len(quoted) == 1 else f'{noun}s'} {', '.join(quoted)}"


def _names_in(folder: str) -> set[str] | None:
    """Return all names in a folder, even if the user named only some of its files; None if it cannot be listed."""
    try:
        return {child.name for child in folders_of(folder).children(folder)}
    except InputError:
        return None


def _renamed(path: str, suffix: str) -> str:
    return f"{file_name(path).rpartition('.')[0]}.{suffix}"


CHECK = Check("stray_files", CODES, findings)
