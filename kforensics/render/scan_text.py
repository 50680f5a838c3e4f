"""Formats a summary of every partition: the worst first, with its contents, its costs and the codes of its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_share, format_size
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.partition_text import partition_label
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import Line, Screen

# Where the name of a partition begins, after the verdict.
INDENT = 10


def partition_summaries(results: Sequence[PartitionResult], screen: Screen) -> Iterator[bytes]:
    """Yield a few lines for each partition, worst first; those without findings are counted.

    Args:
        results: the results.
        screen: where they are shown.
    """
    with closing(RankedText(screen, "no findings")) as text:
        for result in results:
            if result.why is None and result.worst is None and result.replica_worst is None:
                text.add_quiet(_summary(result))
            else:
                text.add((_summary_rank(result),), _summary(result))
        yield from text.parts()


def _summary_rank(result: PartitionResult) -> int:
    if result.why is not None:
        return -len(Severity) - 1
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
    codes = Counter[str]()
    for finding in result.findings:
        codes[finding.code.name] += finding.occurrences
    if codes:
        counts = ", ".join(f"{code} {count}" if count > 1 else code for code, count in codes.items())
        yield Line(f"          {counts}", hang=INDENT)
    if result.replica_worst is not None:
        yield f"          {result.replica_worst} in the comparison with other replicas: see kforensics audit"


def _log_summary(row: dict[str, Any]) -> str:
    if row["log_end_offset"] is None:
        return "LSO unknown, the log is missing"
    batches = format_count(row["batches"], "batch", "batches")
    return (
        f"{format_size(row['bytes'])} in {format_count(row['segments'], 'segment')},"
        f" {format_count(row['records'], 'record')} in {batches},"
        f" offsets {row['first_offset'] if row['first_offset'] is not None else '-'} to {row['log_end_offset']},"
        f" LSO {row['last_stable_offset']}"
    )


def _transaction_summary(row: dict[str, Any]) -> str:
    parts = [format_count(row["producers"], "producer")]
    parts += [f"{row[outcome]:,} {outcome}" for outcome in ("committed", "aborted") if row[outcome]]
    parts += [f"{row['open_transactions']:,} open"] if row["open_transactions"] else []
    if row["control_batches"]:
        of_records, of_bytes = format_share(row["control_records_share"]), format_share(row["control_bytes_share"])
        parts.append(f"markers are {of_records} of records and {of_bytes} of bytes")
    return ", ".join(parts)
