"""Reads the incidents of a store with their first findings, and finds out which incident a finding is of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.errors import InputError
from kforensics.forensics.audit.incident_parts import IDENTITY, MAX_NAMED
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.core.commands import for_brokers
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import encodable
from kforensics.report_html.store_reader import SortKey, StoreReader

# Incidents that a report has; the store has the others.
MAX_INCIDENTS = 100
PLACE_COLUMN_NAMES = Place._fields
FINDING_COLUMNS = (
    *PLACE_COLUMN_NAMES,
    *("code", "severity", "first_offset", "last_offset", "producer_id", "producer_epoch", "path", "position"),
    *("message", "evidence", "exactness", "benign", "cause", "remedy"),
)
SEVERITY_RANKING = tuple(str(severity) for severity in sorted(Severity, reverse=True))
BY_SEVERITY = SortKey("severity", ranking=SEVERITY_RANKING)
WORST_FIRST = (
    BY_SEVERITY,
    *(SortKey(name) for name in ("code", "topic", "partition", "broker_id", "log_dir", "first_offset", "position")),
)
PARTITION_AND_PRODUCER = ("log_dir", "topic", "partition", "producer_id")
LISTS = ("brokers", "transactional_ids", "producer_ids", "groups", "evidence")
TOPIC_PARTITION = re.compile(r"([A-Za-z0-9._-]+)-([0-9]+)")


@dataclass(frozen=True, slots=True)
class StoredIncident:
    """An incident of a store.

    Attributes:
        row: its row of the table ``incidents``, with the JSON columns parsed.
        findings: its first findings, as rows of the table ``findings`` with ``evidence`` parsed.
        ranges: topic, first and last partition; None if the store names only some of them.
    """

    row: Mapping[str, Any]
    findings: tuple[Mapping[str, Any], ...]
    ranges: tuple[tuple[str, int, int], ...] | None

    @property
    def name(self) -> str:
        """The id of the incident."""
        return str(self.row["incident"])

    @property
    def topics(self) -> list[str] | None:
        """The topics, sorted; None if the store names only some of them."""
        if self.ranges is None:
            return None
        shown = {str(row["topic"]) for row in self.findings if row["topic"] is not None}
        return sorted({topic for topic, _, _ in self.ranges} | shown)

    def may_have(self, finding: Mapping[str, Any]) -> bool:
        """Return whether a finding can be of this incident, by all that the incident states of its findings."""
        row = self.row
        if finding["code"] not in row["codes"] or SEVERITY_RANKING.index(finding["severity"]) < _rank(row):
            return False
        producers = row["producer_ids"]
        if (
            finding["producer_id"] is not None
            and len(producers) < MAX_NAMED  # otherwise the audit may have named only some of them
            and finding["producer_id"] not in producers
        ):
            return False
        # The coordinator's log is not among the partitions of an incident that also has others.
        if self.ranges is None or finding["topic"] in {None, TRANSACTION_STATE}:
            return True
        return any(
            topic == finding["topic"] and first <= finding["partition"] <= last for topic, first, last in self.ranges
        )


def _rank(row: Mapping[str, Any]) -> int:
    return SEVERITY_RANKING.index(row["severity"])


def _ranges(text: str) -> tuple[tuple[str, int, int], ...] | None:
    """Return the partitions that an incident lists as ``a-0 to a-3, b-0``; None if it does not list all of them.

    >>> _ranges("a-0 to a-3, b-0"), _ranges("a-0 and 2 more ranges")
    ((('a', 0, 3), ('b', 0, 0)), None)
    """
    ranges = []
    for part in text.split(", "):
        ends = [TOPIC_PARTITION.fullmatch(name) for name in part.split(" to ")]
        if not (ends[0] and ends[-1]):
            return None
        ranges.append((ends[0][1], int(ends[0][2]), int(ends[-1][2])))
    return tuple(ranges)


def stored_incidents(store: StoreReader, bootstrap_server: str | None = None) -> list[StoredIncident] | None:
    """Return the first incidents of a store, which has the worst first; None for a store of a version that had none.

    Args:
        store: the store.
        bootstrap_server: addresses of brokers for the commands in remedies, None if they are unknown.

    Raises:
        InputError: a table cannot be read.
    """
    if "incidents" not in store.manifest["rows"]:
        return None
    names = RESULTS["incidents"].names
    stored = chain.from_iterable(batch.to_pylist() for batch in store.batches("incidents", names))
    rows = [_parsed(store, row) for row in islice(stored, MAX_INCIDENTS)]
    findings = _findings(store, rows)
    incidents = []
    for row in rows:
        own = tuple(
            findings.get(_identity(named), {**dict.fromkeys(FINDING_COLUMNS), "evidence": {}, **named})
            for named in row["evidence"]
        )
        shown = tuple({**finding, "remedy": for_brokers(finding["remedy"] or "", bootstrap_server)} for finding in own)
        remedy = for_brokers(row["remedy"] or "", bootstrap_server)
        incidents.append(StoredIncident({**row, "remedy": remedy}, shown, _ranges(row["partitions"] or "")))
    return incidents


def _parsed(store: StoreReader, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the table ``incidents`` with its JSON columns parsed.

    Raises:
        InputError: one of them is not what an audit writes, or the severity is none.
    """
    parsed = dict(row)
    for name in (*LISTS, "codes"):
        expected = dict if name == "codes" else list
        parsed[name] = _json(row[name] or ("{}" if expected is dict else "[]"))
        valid = isinstance(parsed[name], expected)
        if name == "evidence":
            valid = valid and all(isinstance(named, dict) and {*IDENTITY} <= named.keys() for named in parsed[name])
        if not valid:
            raise InputError(f"{store.root}/incidents", f"the column {name!r} is damaged; run the audit again")
    if parsed["severity"] not in SEVERITY_RANKING:
        raise InputError(f"{store.root}/incidents", "the column 'severity' is damaged; run the audit again")
    return parsed


def _json(text: str) -> Any:
    """Return the value of JSON, with text as Arrow has it in the other columns; None if it is damaged."""
    try:
        return _encodable(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(name): _encodable(item) for name, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value


def _identity(row: Mapping[str, Any]) -> str:
    return json.dumps([row[name] for name in IDENTITY])


def _findings(store: StoreReader, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the findings that incidents name, by their identity."""
    wanted = {_identity(named) for row in rows for named in row["evidence"]}
    messages = pa.array(sorted({str(named["message"]) for row in rows for named in row["evidence"]}), "string")
    findings = {}
    for batch in store.batches("findings", FINDING_COLUMNS):
        for row in batch.filter(pc.is_in(batch["message"], messages)).to_pylist():
            if (identity := _identity(row)) in wanted:
                evidence = _json(row["evidence"] or "{}")
                findings[identity] = {
                    **row,
                    "evidence": evidence if isinstance(evidence, dict) else {"evidence": evidence},
                }
    return findings


@dataclass(frozen=True, slots=True)
class IncidentsByFinding:
    """Which incident a finding is of; None where the store leaves several possible.

    Attributes:
        named: incident by the identity of the findings that incidents name.
        by_code: the incidents that have findings of a code.
        is_complete: whether these are all incidents of the store.
    """

    named: Mapping[str, str]
    by_code: Mapping[str, list[StoredIncident]]
    is_complete: bool

    @classmethod
    def of(cls, incidents: list[StoredIncident], total: int) -> IncidentsByFinding:
        """Return it for the first incidents of a store, of so many in all."""
        by_code: dict[str, list[StoredIncident]] = {}
        for incident in incidents:
            for code in incident.row["codes"]:
                by_code.setdefault(code, []).append(incident)
        named = {_identity(row): incident.name for incident in incidents for row in incident.row["evidence"]}
        return cls(named, by_code, len(incidents) == total)

    def incident_of(self, finding: Mapping[str, Any]) -> str | None:
        """Return the id of the incident of a finding, a row of the table ``findings``."""
        if known := self.named.get(_identity(finding)):
            return known
        possible = [each.name for each in self.by_code.get(finding["code"], ()) if each.may_have(finding)]
        return possible[0] if self.is_complete and len(possible) == 1 else None


@dataclass(frozen=True, slots=True)
class BlockingTransactions:
    """Transactional ids and coordinator states of transactions that block the last stable offset.

    Attributes:
        named: transactional id by log directory, topic, partition and producer id, as a finding of the audit states it.
        states: last state by transactional id, by producer id; None if the store has several.
    """

    named: Mapping[tuple[Any, ...], str]
    states: Mapping[int, Mapping[str, str | None]]

    @classmethod
    def of(cls, store: StoreReader) -> BlockingTransactions:
        """Return those of a store.

        Raises:
            InputError: a table cannot be read.
        """
        named = {}
        for batch in store.batches("findings", (*PARTITION_AND_PRODUCER, "code", "evidence")):
            for row in batch.filter(pc.equal(batch["code"], "lso-stuck")).to_pylist():
                evidence = _json(row["evidence"] or "{}")
                if isinstance(evidence, dict) and isinstance(name := evidence.get("transactional_id"), str):
                    named[tuple(row[column] for column in PARTITION_AND_PRODUCER)] = name
        blocking = set[int]()
        for batch in store.batches("lso", ["producer_id"]):
            blocking.update(pc.unique(batch["producer_id"].drop_null()).to_pylist())
        wanted = pa.array(sorted(blocking), "int64")
        states: dict[int, dict[str, str | None]] = {}
        for batch in store.batches("transactional_ids", ("producer_id", "transactional_id", "state")):
            for row in batch.filter(pc.is_in(batch["producer_id"], wanted)).to_pylist():
                known = states.setdefault(row["producer_id"], {})
                state = known.setdefault(row["transactional_id"], row["state"])
                known[row["transactional_id"]] = state if state == row["state"] else None
        return cls(named, states)

    def transactional_id(self, row: Mapping[str, Any]) -> str | None:
        """Return the transactional id of a row of the table ``lso``, None if the store does not show it.

        Clusters count producer ids from 0, so in a store of several clusters one may have several transactional ids.
        """
        if name := self.named.get(tuple(row[column] for column in PARTITION_AND_PRODUCER)):
            return name
        names = self.states.get(row["producer_id"], {})
        return next(iter(names)) if len(names) == 1 else None

    def state(self, row: Mapping[str, Any]) -> str | None:
        """Return the last state of that transactional id in the log of its coordinator, None if it is not known."""
        return self.states.get(row["producer_id"], {}).get(self.transactional_id(row) or "")
