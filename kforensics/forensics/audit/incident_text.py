"""States an incident in sentences: what happened, its impact, and one remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kforensics.forensics.audit.incident_kinds import IncidentKind, by_cluster
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.core.commands import filled_in, shell_word
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.parsers.files.log_names import CONSUMER_OFFSETS

__all__ = ["CONSEQUENCES", "epochs_of", "incident_text", "is_check", "listed", "partition_list", "since_when"]

# Ranges of partitions that an incident lists.
MAX_RANGES = 20
# Partitions beside the first one for which an incident has commands that save records, and such a command.
MAX_SAVED = 3
SAVES = re.compile(r"`kforensics dump [^`]* --output [^`]*`")

# Parts of commands that only look, so that they come first.
CHECKS = (
    *("find-hanging", "kforensics explain", "kforensics groups", "kforensics verify", "kforensics cluster"),
    *(" describe ", " list ", "kforensics dump --format table"),
)
EXPLAIN = "Look at it: `kforensics explain --topic {topic} --partition {partition} --offset {first_offset} {log_dirs}`."
OF_GROUP = "Look at it: `kforensics groups --group {group} {log_dirs}`."
PLACEHOLDERS = ("topic", "partition", "first_offset", "folder", "copies")
# From the first copy of a record to the second.
OF_COPIES = "Look at them: `kforensics dump --format table --records --offset {copies} {folder}`."
# What is at these offsets now was written since; the election is in the metadata log, which every broker has.
OF_ELECTION = "Look at it: `kforensics cluster --history {topic}-{partition} {log_dirs}`."
VERIFY = "Look at it: `kforensics verify {folder}`."

# What an incident of a kind does to consumers, producers or brokers, if the number of its records is not known. The
# kinds that are left out are informational, or their findings count the records.
CONSEQUENCES = {
    "unclean-election": "Records that were acknowledged, and that consumers may have read, are lost.",
    "replica-divergence": "Consumers may receive other records when another replica leads.",
    "under-replication": "If its leader fails, this replica cannot take over without losing records.",
    "missing-log": "The records are lost, unless another replica has them.",
    "corrupt-bytes": "Consumers cannot read past the damaged bytes.",
    "torn-log-end": "The torn batch is lost, unless another replica has it.",
    "missing-offsets": "Records are missing, or cannot be fetched by their offset.",
    "stuck-transaction": "While it is open, read_committed consumers receive no record from its first one on.",
    "split-transaction": "Consumers with read_committed do not receive what the coordinator decided.",
    "late-writes": "Consumers may receive records of a fenced producer, or of no transaction, as committed ones.",
    "fencing-loop": "The producers abort the transactions of each other and make no progress.",
    "wrong-visibility": "Consumers with read_committed may receive aborted records, or miss committed ones.",
    "producer-state": "A broker that loads the snapshot may reject the next batch of a producer, or store it twice.",
    "producer-duplicates": "Consumers may receive records twice, or other records under the same sequences.",
    "sequence-gap": "Records that the producer sent may be lost.",
    "coordinator-log": "The coordinator may end a transaction wrongly, or not at all.",
    "internal-partitions": "Coordinators look elsewhere: what these partitions know of the names has no effect.",
    "shared-producer-id": "Sequences, epochs and markers of the two mix in every partition that both write to.",
    "offset-beyond-log": "The group restarts where auto.offset.reset says: it skips records or reads some twice.",
    "group-offsets": "The group may skip records or read some twice.",
    "group-reset": (
        "The group restarts where auto.offset.reset says, or at an old offset: it skips records or reads some twice."
    ),
    "faulty-markers": "A transaction may have ended otherwise than its coordinator decided.",
    "forgotten-log-start": "Consumers that start at the beginning of the log receive nothing, not even new records.",
    "next-start": "The broker does not start, or does not serve the same records as before.",
    "stray-folders": "Consumers do not receive these records, unless another replica has them.",
    "index-damage": "A fetch by offset or time may start at a wrong position, until the index is rebuilt.",
    "checkpoint-damage": "The next start of the broker may begin with wrong offsets or leader epochs.",
    "malformed-records": "Consumers may fail at these records, or misread them.",
    "keyless-records": "The next cleaning removes these records.",
    "misplaced-keys": "Consumers may receive the records of a key out of order, or values that were replaced.",
    "producer-epochs": "At its last epoch the producer needs a new producer id. Without one, it cannot go on.",
    "slow-transactions": "Consumers with read_committed wait as long for the records after its first one.",
    "aborted-transactions": "The work of the producers is repeated.",
    "operator-abort": "The application did not abort it, and may count on its records.",
    "broker-clocks": "Times that different brokers set cannot be compared.",
    "timestamps": "Retention and searches by time may be too early or too late.",
    "repeated-content": "Consumers may process the same content twice.",
}
# The same for codes that do something else than most of their kind; the first that an incident has decides.
CONSEQUENCES_OF_CODES = {
    "start-refused": "The broker does not start.",
    "partition-in-two-log-dirs": "The broker does not start.",
    "start-torn-tail": "The next start of the broker appends after a torn batch, and consumers cannot read past it.",
    "metadata-snapshot-damaged": "The node does not start from this snapshot.",
    "metadata-snapshot-missing": "The node does not start without this snapshot.",
    "metadata-snapshot-differs": "A node that starts from the snapshot has other metadata than the log says.",
    "snapshot-open-txn-mismatch": (
        "A broker that has this snapshot may deliver uncommitted records, or hide records until it is repaired."
    ),
    "txnindex-lso-mismatch": "Consumers with read_committed may receive aborted records.",
    "folder-in-partition": "The broker takes the log directory offline when it opens or creates the file of that name.",
}
# The same for codes that say less than others of their kind, if an incident has no others.
CONSEQUENCES_OF_LESSER_CODES = {
    "marker-conflict": "Consumers with read_committed may not receive what the coordinator decided.",
    "seq-missing": "The broker cannot notice that a retry of these records was stored twice.",
    "producer-expired-by-timestamp": "A broker that has forgotten the producer does not notice a retry.",
    "epoch-bump-nonzero-seq": "Records that the producer sent may be lost.",
    "txnlog-ongoing-overdue": "Where it is open, read_committed consumers receive no record from its first one on.",
    "ts-max-mismatch": "Retention and searches by time may be too early or too late.",
}


def is_check(command: str) -> bool:
    """Return whether a command of a remedy only looks, so that it comes before one that changes something."""
    return any(check in f"{command} " for check in CHECKS)


def incident_text(kind: IncidentKind, row: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns ``what``, ``impact`` and ``remedy`` of an incident.

    Args:
        kind: its kind.
        row: its other columns, and how many partitions lost records as ``losing_partitions``.
        examples: its worst findings; the first one is reported.
    """
    # Further findings of the incident may show what its own only suspect.
    least = min(Severity[row["severity"].upper()], Severity.WARNING)
    of_kind = (example for example in examples if example["code"] in kind.codes)
    own = [example for example in of_kind if Severity[str(example["severity"]).upper()] >= least] or examples
    if kind.name == "stuck-transaction":
        lead = next((example for example in own if example["topic"] != TRANSACTION_STATE), own[0])
        what = _stuck(row, lead, own)
    elif kind.key is by_cluster and row["severity"] == str(Severity.INFO):
        what = _counts(row)
    else:
        # Of many transactions that were aborted, the coordinator's log names the ids.
        is_named = kind.name == "aborted-transactions"
        what = _what(row, next((one for one in own if is_named and one["topic"] == TRANSACTION_STATE), own[0]))
    return {"what": what, "impact": " ".join(_impact(kind, row)) or None, "remedy": _remedy(row, own, examples)}


def _what(row: Mapping[str, Any], lead: Mapping[str, Any]) -> str:
    """Return the message of the worst finding, with its partition, and how many partitions more there are."""
    # Beside partitions with data, the coordinator's is not counted.
    is_counted = lead["topic"] != TRANSACTION_STATE or TRANSACTION_STATE in row["partitions"]
    more = row["partition_count"] - is_counted
    others = f" Also in {format_count(more, 'other partition')}." if more else ""
    begins = f"{_name(lead)} "
    subject = "" if lead["message"].startswith(begins) else f"{_name(lead)}: "
    return f"{subject}{lead['message']}{others}"


def _name(example: Mapping[str, Any]) -> str:
    if example["topic"] is None:
        return str(example["folder"])
    return f"{example['topic']}-{example['partition']}"


def _stuck(row: Mapping[str, Any], lead: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> str:
    """Return which transaction does not end, where and since when; that it hangs only if a finding is sure of it."""
    ids = json.loads(row["transactional_ids"] or "[]")
    producers = ", ".join(_producers(row))
    whose = f"of {', '.join(map(repr, ids))} ({producers})" if ids else f"of {producers}"
    since = "" if row["since"] is None else f", open since {format_time(row['since'])},"
    codes = json.loads(row["codes"])
    state = "has not ended"
    sure = (example["code"] for example in own if example["severity"] == str(Severity.CRITICAL))
    if any(code.startswith("txn-hanging") for code in sure):
        state = "hangs: no coordinator will end it"
    elif "txnlog-prepare-stuck" in codes:
        state = "was decided, and lacks markers"
    elif any(example["two_phase_commit"] for example in own):
        state = "is in a two-phase commit: nothing but its transaction manager ends it"
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


def _impact(kind: IncidentKind, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on what consumers do not receive, or receive twice; otherwise what such an incident does."""
    groups = json.loads(row["groups"] or "[]")
    if hidden := row["hidden_records"]:
        yield f"{format_count(hidden, 'record')} hidden from read_committed consumers."
    if lost := row["lost_records"]:
        where = f" in {row['losing_partitions']:,} partitions" if row["losing_partitions"] > 1 else ""
        yield f"{format_count(lost, 'record')} lost or at risk{where}."
    if repeated := row["repeated_records"]:
        yield f"{format_count(repeated, 'record')} written twice."
    if not (hidden or lost or repeated) and row["severity"] != str(Severity.INFO):
        yield from _consequence(kind, json.loads(row["codes"]))
    if groups:
        yield f"{'Group' if len(groups) == 1 else 'Groups'} {', '.join(map(repr, groups))} affected."


def _consequence(kind: IncidentKind, codes: Iterable[str]) -> Iterator[str]:
    """Yield what an incident does: by the code that says most, else by its kind."""
    own = [code for code in codes if code in kind.codes]
    if own and all(code in CONSEQUENCES_OF_LESSER_CODES for code in own):
        yield CONSEQUENCES_OF_LESSER_CODES[own[0]]
        return
    telling = (text for code, text in CONSEQUENCES_OF_CODES.items() if code in codes)
    sentence = next(telling, CONSEQUENCES.get(kind.name))
    yield from () if sentence is None else (sentence,)


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
        looks = {"unclean-election-loss": OF_ELECTION, "content-duplicate-retry": OF_COPIES}
        look = looks.get(lead["code"], EXPLAIN)
        check = filled_in(look if known else VERIFY, {name: lead[name] for name in PLACEHOLDERS})
    if lead["code"] == "unclean-election-loss":
        remedy += _saving_others(lead, own)
    return f"{check.replace('{log_dirs}', log_dirs)} {remedy}".rstrip()


def _saving_others(lead: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> str:
    """Return the commands that save what other partitions than that of the reported finding lost, as sentences."""
    commands: dict[str, list[str]] = {}
    for one in own:
        if _name(one) != _name(lead):
            commands.setdefault(_name(one), []).extend(SAVES.findall(one["remedy"] or ""))
    saving = [f" Save those of {name}: {'; '.join(saves)}." for name, saves in commands.items() if saves]
    more = " The findings of further partitions name further files." if len(saving) > MAX_SAVED else ""
    return "".join(saving[:MAX_SAVED]) + more


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
