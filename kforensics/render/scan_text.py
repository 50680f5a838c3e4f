"""Formats a summary of every partition, or the findings of every partition: the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from operator import attrgetter
from typing import Any

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_share, format_size
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.partition_names import partition_label
from kforensics.render.partition_text import finding_lines
from kforensics.render.ranked_text import Rank, RankedText
from kforensics.render.screen import Line, Screen

# Where the name of a partition begins, after the verdict.
INDENT = 10
# Of many partitions, the worst ones whose findings are shown in full, and findings of a partition that are shown.
IN_FULL, MAX_FINDINGS = 5, 10
# What a partition that could not be read is sorted by: before every severity.
UNREAD = -len(Severity) - 1
AGREES = "indexes, snapshots and checkpoints agree with the log"


def partition_summaries(results: Sequence[PartitionResult], screen: Screen) -> Iterator[bytes]:
    """Yield a few lines for each partition, worst first; those without findings are counted.

    Args:
        results: the results.
        screen: where they are shown.
    """
    with closing(RankedText(screen, "no findings")) as text:
        for result in results:
            if result.why is None and result.worst is None and result.shared_worst is None:
                text.add_quiet(_summary(result))
            else:
                text.add_partition((_summary_rank(result),), _summary(result), result.place, result.folder)
        yield from text.parts()


def _summary_rank(result: PartitionResult) -> int:
    if result.why is not None:
        return UNREAD
    return 0 if result.worst is None else -result.worst - 1


def _summary(result: PartitionResult) -> Iterator[str]:
    name = partition_label(result.place, result.folder)
    if result.why is not None:
        yield Line(f"UNREAD    {name}: {printable(result.why)}", Severity.CRITICAL, INDENT)
        return
    (values,) = result.rows["partitions"]
    row = dict(zip(result.rows["partitions"].table.names, values, strict=True))
    yield Line(f"{row['verdict'].upper():<8}  {name}", "" if result.worst is None else result.worst, INDENT)
    yield Line(f"          {_log_summary(row)}", hang=INDENT)
    if row["producers"]:
        yield Line(f"          {_transaction_summary(row)}", hang=INDENT)
    if result.findings:
        yield Line(f"          {_codes(result)}", hang=INDENT)
    if result.shared_worst is not None:
        yield f"          {result.shared_worst} in the comparison with other replicas: see kforensics audit"


def _codes(result: PartitionResult) -> str:
    """Return the codes of the findings of a partition, with their numbers."""
    codes = Counter[str]()
    for finding in result.findings:
        codes[finding.code.name] += finding.occurrences
    return ", ".join(f"{code} {count}" if count > 1 else code for code, count in codes.items())


def partition_findings(
    results: Sequence[PartitionResult], screen: Screen, *, bootstrap_server: str | None
) -> Iterator[bytes]:
    """Yield the findings of partitions, worst first, in full of the worst ones; those without any are counted.

    Args:
        results: the results.
        screen: where they are shown.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
    """
    with closing(RankedText(screen, AGREES)) as text:
        faulty = sorted((result for result in results if result.why or result.findings), key=_severity_rank)
        is_whole = screen.shows_all or len(faulty) <= IN_FULL
        in_full: set[Rank] = set()
        for number, result in enumerate(faulty):
            rank, what = (_severity_rank(result),), _brief(result)
            if is_whole:
                lines = _findings(result, text, bootstrap_server, has_info=len(faulty) <= IN_FULL)
                text.add((*rank, number), lines)
            elif (*rank, what) not in in_full and len(in_full) < IN_FULL:
                in_full.add((*rank, what))
                text.add(rank, _findings(result, text, bootstrap_server, has_info=False))
            else:
                text.is_cut = True
                text.add_alike(rank, what, result.place, result.folder, _no_details)
        for result in results:
            if not (result.why or result.findings):
                text.add_quiet([f"{partition_label(result.place, result.folder)}: {AGREES}"])
        yield from text.parts()


def _severity_rank(result: PartitionResult) -> int:
    return UNREAD if result.why is not None else -(result.worst or 0)


def _brief(result: PartitionResult) -> str:
    """Return in a few words what is wrong with a partition."""
    return f"not read: {printable(result.why)}" if result.why is not None else f"{result.worst} {_codes(result)}"


def _no_details(_: str) -> Iterator[str]:
    yield from ()


def _findings(
    result: PartitionResult, text: RankedText, bootstrap_server: str | None, *, has_info: bool
) -> Iterator[str]:
    """Yield the findings of a partition: without those that are no problem, if many partitions have worse ones."""
    if result.why is not None:
        yield Line(f"{partition_label(result.place, result.folder)}: {_brief(result)}")
        return
    worse = [finding for finding in result.findings if finding.severity > Severity.INFO]
    findings = list(result.findings) if has_info or text.screen.shows_all else worse or list(result.findings)
    shown = sorted(findings, key=attrgetter("severity"), reverse=True)[: text.screen.shown(MAX_FINDINGS)]
    yield from finding_lines(result.place, result.folder, shown, bootstrap_server)
    if left_out := len(result.findings) - len(shown):
        text.is_cut = True
        yield f"  … and {format_count(left_out, 'more finding')}"


def _log_summary(row: dict[str, Any]) -> str:
    if row["log_end_offset"] is None:
        return "LSO unknown, the log is missing"
    batches = format_count(row["batches"], "batch", "batches")
    # A compressed message of formats 0 and 1 counts as one record; then their average is not known.
    at_least = "at least " if row["records"] and row["records_per_batch"] is None else ""
    return (
        f"{format_size(row['bytes'])} in {format_count(row['segments'], 'segment')},"
        f" {at_least}{format_count(row['records'], 'record')} in {batches},"
        f" offsets {row['first_offset'] if row['first_offset'] is not None else '-'} to {row['log_end_offset']},"
        f" LSO {row['last_stable_offset']}"
    )


def _transaction_summary(row: dict[str, Any]) -> str:
    parts = [format_count(row["producers"], "producer")]
    parts += [f"{row[outcome]:,} {outcome}" for outcome in ("committed", "aborted") if row[outcome]]
    parts += [f"{row['open_transactions']:,} open"] if row["open_transactions"] else []
    if row["control_batches"]:
        shares = [(row["control_records_share"], "records"), (row["control_bytes_share"], "bytes")]
        known = [f"{format_share(share)} of {what}" for share, what in shares if share is not None]
        parts.append(f"markers are {' and '.join(known)}")
    return ", ".join(parts)
