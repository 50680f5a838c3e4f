"""States an incident in sentences: what happened, its impact, and one remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kforensics.forensics.audit.incident_kinds import IncidentKind, by_cluster
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.core.commands import filled_in, shell_word
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.parsers.files.log_names import CONSUMER_OFFSETS

__all__ = ["epochs_of", "incident_text", "is_check", "listed", "partition_list", "since_when"]

# Ranges of partitions that an incident lists.
MAX_RANGES = 20

# Parts of commands that only look, so that they come first.
CHECKS = ("find-hanging", "kforensics explain", "kforensics groups", "kforensics verify", " describe ", " list ")
EXPLAIN = "Look at it: `kforensics explain --topic {topic} --partition {partition} --offset {first_offset} {log_dirs}`."
OF_GROUP = "Look at it: `kforensics groups --group {group} {log_dirs}`."
PLACEHOLDERS = ("topic", "partition", "first_offset", "folder")
VERIFY = "Look at it: `kforensics verify {folder}`."


def is_check(command: str) -> bool:
    """Return whether a command of a remedy only looks, so that it comes before one that changes something."""
    return any(check in f"{command} " for check in CHECKS)


def incident_text(kind: IncidentKind, row: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns ``what``, ``impact`` and ``remedy`` of an incident.

    Args:
        kind: its kind.
        row: its other columns.
        examples: its worst findings; the first one is reported.
    """
    own = [example for example in examples if example["code"] in kind.codes] or examples
    if kind.name == "stuck-transaction":
        what = _stuck(row, next((example for example in own if example["topic"] != TRANSACTION_STATE), own[0]))
    else:
        what = _counts(row) if kind.key is by_cluster else _what(row, own[0])
    return {"what": what, "impact": " ".join(_impact(row)) or None, "remedy": _remedy(row, own, examples)}


def _what(row: Mapping[str, Any], lead: Mapping[str, Any]) -> str:
    """Return the message of the worst finding, with its partition, and how many partitions more there are."""
    more = row["partition_count"] - 1
    others = f" Also in {format_count(more, 'other partition')}." if more else ""
    begins = f"{_name(lead)} "
    subject = "" if lead["message"].startswith(begins) else f"{_name(lead)}: "
    return f"{subject}{lead['message']}{others}"


def _name(example: Mapping[str, Any]) -> str:
    if example["topic"] is None:
        return str(example["folder"])
    return f"{example['topic']}-{example['partition']}"


def _stuck(row: Mapping[str, Any], lead: Mapping[str, Any]) -> str:
    """Return which transaction does not end, where and since when."""
    ids = json.loads(row["transactional_ids"] or "[]")
    producers = ", ".join(_producers(row))
    whose = f"of {', '.join(map(repr, ids))} ({producers})" if ids else f"of {producers}"
    since = "" if row["since"] is None else f", open since {format_time(row['since'])},"
    codes = json.loads(row["codes"])
    state = "has not ended"
    if any(code.startswith("txn-hanging") for code in codes):
        state = "hangs: no coordinator will end it"
    elif "txnlog-prepare-stuck" in codes:
        state = "was decided, and lacks markers"
    where = f"{_name(lead)} from offset {lead['first_offset']}"
    if row["partition_count"] > 1:
        where = f"{format_count(row['partition_count'], 'partition')}, first {where}"
    return f"The transaction {whose}{since} {state} ({where})."


def _counts(row: Mapping[str, Any]) -> str:
    """Return how many findings of each code there are, for a kind that has no single cause."""
    counts = ", ".join(f"{count:,} {code}" for code, count in json.loads(row["codes"]).items())
    return f"{counts} in {format_count(row['partition_count'], 'partition')}."


def _producers(row: Mapping[str, Any]) -> Iterator[str]:
    ids, epochs = json.loads(row["producer_ids"] or "[]"), json.loads(row["producer_epochs"] or "[]")
    for producer_id, (low, high) in zip(ids, epochs, strict=True):
        span = "" if low is None else f", epoch {low}" if low == high else f", epochs {low} to {high}"
        yield f"producer {producer_id}{span}"


def _impact(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on what consumers do not receive, or receive twice."""
    groups = json.loads(row["groups"] or "[]")
    if hidden := row["hidden_records"]:
        yield f"{format_count(hidden, 'record')} hidden from read_committed consumers."
    if lost := row["lost_records"]:
        yield f"{format_count(lost, 'record')} lost or at risk."
    if repeated := row["repeated_records"]:
        yield f"{format_count(repeated, 'record')} written twice."
    if groups:
        yield f"{'Group' if len(groups) == 1 else 'Groups'} {', '.join(map(repr, groups))} affected."


def _remedy(
    row: Mapping[str, Any], own: Sequence[Mapping[str, Any]], examples: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return one remedy: first what to check, then what to do; None for an incident that needs none."""
    if row["severity"] == str(Severity.INFO):
        return None
    lead = next((example for example in (*own, *examples) if example["remedy"]), own[0])
    remedy = lead["remedy"] or ""
    if is_check(remedy):
        return str(remedy)
    known = None not in (lead["topic"], lead["first_offset"]) and lead["first_offset"] >= 0 and lead["log_dirs"]
    log_dirs = " ".join(shell_word(log_dir) for log_dir in lead["log_dirs"])
    groups = json.loads(row["groups"] or "[]")
    if lead["topic"] == CONSUMER_OFFSETS and len(groups) == 1 and lead["log_dirs"]:
        check = filled_in(OF_GROUP, {"group": groups[0]})
    else:
        check = filled_in(EXPLAIN if known else VERIFY, {name: lead[name] for name in PLACEHOLDERS})
    return f"{check.replace('{log_dirs}', log_dirs)} {remedy}".rstrip()


def partition_list(partitions: Mapping[str, Iterable[int]]) -> str:
    """Return partitions as text, neighboring numbers of a topic as ranges, up to a limit.

    >>> partition_list({"orders": [2, 0, 1], "a": [-1]})
    'a, orders-0 to orders-2'
    """
    ranges = [text for topic in sorted(partitions) for text in _ranges(topic, sorted(partitions[topic]))]
    more = len(ranges) - MAX_RANGES
    return ", ".join(ranges[:MAX_RANGES]) + (f" and {more} more ranges" if more > 0 else "")


def _ranges(topic: str, numbers: Sequence[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        names = [f"{topic}-{number}" if number >= 0 else topic for number in (members[0], members[-1])]
        yield " to ".join(dict.fromkeys(names))


def listed(values: Iterable[Any]) -> str | None:
    """Return sorted values as a JSON list, None if there are none."""
    ordered = sorted(values)
    return json.dumps(ordered, ensure_ascii=False) if ordered else None


def since_when(row: Mapping[str, Any]) -> str:
    """Return since when an incident lasts, or of when its records are, as the end of a headline."""
    if row["since"] is not None:
        return f", since {format_time(row['since'])}"
    first = row.get("first_timestamp")  # an older store does not have it
    return "" if first is None else f", records of {format_time(first)}"


def epochs_of(producers: Mapping[int, tuple[int | None, int | None]]) -> str | None:
    """Return the lowest and highest epoch of the first producers as a JSON list of pairs."""
    return json.dumps([list(producers[key]) for key in sorted(producers)]) if producers else None
