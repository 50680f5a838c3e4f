"""Findings of one cause are one incident: on samples, merged in any order, and in bounded memory."""

from __future__ import annotations

import json
import pickle
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import kforensics
from kforensics.analyses.audit import AuditRequest, audit_results
from kforensics.analyses.partitions import investigate
from kforensics.forensics.audit.incident_kinds import KINDS, KINDS_BY_CODE, kind_of
from kforensics.forensics.audit.incident_parts import MAX_EXAMPLES
from kforensics.forensics.audit.incident_text import CONSEQUENCES, since_when
from kforensics.forensics.audit.incidents import IncidentSummary
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_time
from kforensics.parsers.log.log_rows import Place
from tests.command import SAMPLES, run
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import forge

AS_OF_MS = 1_795_392_000_000
CODES = {name: code for check in ALL_CHECKS for name, code in check.codes.items()}
Expected = tuple[str, str, int, str]


@cache
def _incidents(sample: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kforensics.audit(SAMPLES / sample, as_of=AS_OF_MS).incidents.to_pylist()
    return rows


# What each scenario did, by its row in sample_logs/README.md, and so what its incidents are: kind, severity, findings
# and partitions. Harmless traces and unusual use are of severity info.
SCENARIOS: dict[str, list[Expected]] = {
    # One record, committed.
    "classic-transaction": [],
    # Two topics lost acknowledged records when broker 3 was elected uncleanly, once, and the group that had read them
    # is beyond the end of one. The topic clean lost nothing; what lossless lost, which is nothing, no file shows.
    "unclean-election": [
        ("unclean-election", "critical", 4, "__consumer_offsets-0, lossless-0, lossy-0, lossy-unread-0")
    ],
    # Broker 2 has not come back since an unclean election: its replica differs, and so the other one is shorter.
    "replication": [("unclean-election", "critical", 3, "unclean-0")],
    # Markers that no coordinator sent split two transactions; a late write hangs, and a transaction was left open.
    "forged-markers-v1": [
        ("stuck-transaction", "critical", 5, "late-0"),
        ("stuck-transaction", "critical", 4, "patient-0"),
        ("split-transaction", "critical", 2, "aborted-0"),
        ("split-transaction", "critical", 1, "committed-0"),
    ],
    # late-app wrote output and offsets after the end, and pending-app was open: each id is one incident, wherever it
    # is, on three brokers.
    "consume-transform-produce": [
        ("stuck-transaction", "critical", 11, "__consumer_offsets-1, output-0 to output-1"),
        ("stuck-transaction", "critical", 23, "__consumer_offsets-0, output-2"),
    ],
    # open-first and open-second are in the same partition, but independent.
    "transactions-v2": [
        ("stuck-transaction", "critical", 5, "hanging-0"),
        ("stuck-transaction", "critical", 4, "open-0"),
        ("stuck-transaction", "error", 3, "open-0"),
    ],
    # Killed in mid-write: the torn batch is one, the open transaction in two partitions another.
    "crash-before-recovery": [
        ("stuck-transaction", "critical", 7, "open-0, preallocated-0"),
        ("torn-log-end", "warning", 1, "torn-0"),
    ],
    # Without its snapshots the broker took a retry, a gap and a fenced producer's write, which hangs: one for each
    # producer; the snapshots themselves are one. Only its coordinator knows the open transaction.
    "state-lost-after-stop": [
        ("producer-state", "critical", ANY, ANY),  # with file times also the producers that are missing in snapshots
        ("stuck-transaction", "critical", 6, "zombie-0"),
        ("stuck-transaction", "error", 1, "__transaction_state-0"),
        ("producer-duplicates", "critical", 1, "retried-0"),
        ("sequence-gap", "error", 1, "gap-0"),
    ],
    # Three brokers restarted one after the other.
    "rolling-restart": [],
}


def _by_kind(expected: Expected) -> tuple[str, str, str]:
    """Return what to sort by: kinds of which there is one may have any number of findings."""
    return *expected[:2], "" if expected[0] == "producer-state" else repr(expected[2:])


@pytest.mark.parametrize("sample", SCENARIOS)
def test_what_a_scenario_did_is_what_its_incidents_are(sample: str) -> None:
    found = [
        (row["kind"], row["severity"], row["findings"], row["partitions"])
        for row in _incidents(sample)
        if row["severity"] != "info"
    ]
    assert sorted(found, key=_by_kind) == sorted(SCENARIOS[sample], key=_by_kind)


# Message format 0 has no timestamps, and a partition without a log has no batches.
WITHOUT_TIMES = {"legacy", "missing-log"}


@pytest.mark.parametrize("sample", ["damaged", "every-record", "state-lost-after-stop", "unclean-election"])
def test_incidents_that_need_action_state_when(sample: str) -> None:
    rows = [row for row in _incidents(sample) if row["severity"] != "info"]
    undated = [row for row in rows if row["since"] is None and row["first_timestamp"] is None]
    reasons = {"legacy" if str(row["log_dir"]).endswith("legacy") else row["kind"] for row in undated}
    assert rows
    assert reasons <= WITHOUT_TIMES, undated


def test_an_incident_that_needs_action_says_what_it_does() -> None:
    worst = {code: CODES[code].severity for kind in KINDS for code in kind.codes}
    informational = {kind.name for kind in KINDS if kind.at_most is Severity.INFO}
    counted = {"retry-duplicates"}
    silent = {
        kind.name
        for kind in KINDS
        if kind.name not in CONSEQUENCES and max(worst[code] for code in kind.codes) > Severity.INFO
    }
    assert silent <= informational | counted
    for sample in ("damaged", "forged-markers-v2", "state-lost-after-stop"):
        rows = [row for row in _incidents(sample) if row["severity"] != "info"]
        assert rows
        assert all(row["impact"] for row in rows), sample


def test_contradicting_markers_alone_do_not_show_what_was_decided(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 A 4 @2")
    (row,) = (row for row in kforensics.audit(tmp_path).incidents.to_pylist() if row["severity"] != "info")
    assert (row["kind"], row["severity"], row["codes"]) == ("split-transaction", "warning", '{"marker-conflict": 1}')
    assert row["impact"] == "Consumers with read_committed may not receive what the coordinator decided."


def test_the_time_of_a_stuck_decision_is_that_of_its_last_record() -> None:
    (stuck,) = (row for row in _incidents("every-record") if "txnlog-prepare-stuck" in json.loads(row["codes"]))
    assert f"since {format_time(stuck['since'])}" in json.loads(stuck["evidence"])[0]["message"]


def test_harmless_traces_of_a_rolling_restart_are_one_incident() -> None:
    (row,) = _incidents("rolling-restart")
    assert (row["kind"], row["severity"], row["remedy"]) == ("harmless-traces", "info", None)
    assert row["findings"] == 24


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("txnindex-lso-mismatch", "index-damage"),
        ("snapshot-extra-producer", "producer-state"),
        ("control-shell", "faulty-markers"),
        ("folder-in-partition", "next-start"),
    ],
)
def test_no_alarm_is_called_a_harmless_trace(code: str, kind: str) -> None:
    """These codes are information in most logs, and more where their files show it."""
    finding = _finding(code, 1, 0)
    assert kind_of(replace(finding, severity=Severity.INFO)).name == "harmless-traces"
    for severity in (Severity.WARNING, Severity.ERROR, Severity.CRITICAL):
        assert kind_of(replace(finding, severity=severity)).name == kind


@pytest.mark.parametrize("sample", SCENARIOS)
def test_every_finding_is_of_one_incident(sample: str) -> None:
    audit = kforensics.audit(SAMPLES / sample, as_of=AS_OF_MS)
    assert sum(row["findings"] for row in audit.incidents.to_pylist()) == audit.findings.num_rows
    assert len({row["incident"] for row in audit.incidents.to_pylist()}) == audit.incidents.num_rows


def test_every_code_belongs_to_a_kind() -> None:
    assert KINDS_BY_CODE.keys() == CODES.keys()
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_an_incident_says_who_where_since_and_what_to_do() -> None:
    row = next(row for row in _incidents("consume-transform-produce") if "late-app" in row["what"])
    assert row["transactional_ids"] == '["late-app"]'
    assert (row["producer_ids"], row["producer_epochs"]) == ("[2]", "[[1, 1]]")
    assert (row["brokers"], row["groups"]) == ("[1, 2, 3]", '["late"]')
    assert row["hidden_records"] == 16
    assert row["since"] == 1_795_305_715_581
    check, do = row["remedy"].index("find-hanging"), row["remedy"].index(" abort ")
    assert check < do


def test_the_check_of_records_written_twice_shows_both_copies() -> None:
    rows = kforensics.audit(SAMPLES / "duplicates", as_of=AS_OF_MS, records=True).incidents.to_pylist()
    row = next(row for row in rows if row["kind"] == "retry-duplicates" and "retried-0" in row["partitions"])
    assert "first at offsets 2 to 3, again at offsets 4 to 5" in row["what"]
    check = re.search(r"`kforensics ([^`]*)`", row["remedy"])
    assert check is not None
    lines = run(*check[1].split()).lines
    assert [line.split()[1:2] for line in lines if "order 1-0" in line] == [["2"], ["4"]]


def _results(sample: str) -> list[PartitionResult]:
    investigation = investigate([str(SAMPLES / sample)], AS_OF_MS, lambda _: None, lambda _: None)
    return list(audit_results(investigation, AuditRequest(copies=True, processes=1), lambda _: None))


@pytest.mark.parametrize(
    ("sample", "kind", "topic", "offsets"),
    [
        ("duplicates", "producer-duplicates", "import", range(6, 9)),  # a client that sets old timestamps
        ("duplicates", "producer-duplicates", "expired", range(12, 15)),
    ],
)
def test_an_incident_has_the_time_of_its_records(sample: str, kind: str, topic: str, offsets: range) -> None:
    """The time is that of the batch, its largest timestamp; the live consumer received the records."""
    truth = json.loads((SAMPLES / sample / "truth.json").read_bytes())["topics"][topic]["0"]
    times = [record["timestamp"] for record in truth["read_uncommitted"] if record["offset"] in offsets]
    incidents = [row for row in _incidents(sample) if row["kind"] == kind and row["partitions"] == f"{topic}-0"]
    assert [row["first_timestamp"] for row in incidents] == [max(times)]
    assert since_when(incidents[0]) == f", records of {format_time(max(times))}"


@pytest.mark.parametrize("sample", ["unclean-election", "consume-transform-produce", "state-lost-after-stop"])
def test_merging_parts_in_any_order_changes_nothing(sample: str) -> None:
    results, dice = _results(sample), random.Random(7)  # noqa: S311  # a random order
    whole = IncidentSummary({}, AS_OF_MS)
    for result in results:
        whole.add(result)
    for _ in range(4):
        parts = [IncidentSummary({}, AS_OF_MS) for _ in range(5)]
        for result in dice.sample(results, len(results)):
            dice.choice(parts).add(result)
        first, second, third, *rest = dice.sample(parts, 5)
        second.merge(third)
        for part in (second, *rest):
            first.merge(part)
        assert list(first.rows()) == list(whole.rows())
    assert len(whole.rows()) > 1


def _finding(code: str, producer_id: int | None, offset: int) -> Finding:
    severity = Severity.CRITICAL
    return Finding(CODES[code], f"message {offset}", severity, offset, offset, producer_id, 0)


def test_a_hundred_thousand_findings_of_ten_causes_are_ten_incidents() -> None:
    """Ten producers hang in a thousand partitions, with ten findings for each in every partition."""
    found = next(iter(_results("classic-transaction")))
    place = Place(1, "/logs", "orders", 0)
    summary = IncidentSummary({}, AS_OF_MS)
    for number in range(1_000):
        findings = tuple(_finding("txn-hanging", producer, number) for producer in range(10) for _ in range(10))
        summary.add(replace(found, place=replace_partition(place, number), findings=findings))
    rows = summary.rows()
    assert len(rows) == 10
    values = [dict(zip(rows.table.names, row, strict=True)) for row in rows]
    assert {(row["findings"], row["partition_count"]) for row in values} == {(10_000, 1_000)}
    assert {row["partitions"] for row in values} == {"orders-0 to orders-999"}
    assert all(len(incident.examples) == MAX_EXAMPLES for incident in summary.incidents.values())
    assert len(pickle.dumps(summary)) < 1 << 20


def replace_partition(place: Place, number: int) -> Place:
    """Return the place of another partition of the topic."""
    return place._replace(partition=number)


def test_independent_transactions_of_one_partition_stay_apart() -> None:
    found = next(iter(_results("classic-transaction")))
    first = replace(_finding("txn-hanging", 1, 5), evidence={"transactional_id": "a"})
    second = replace(_finding("txn-hanging", 2, 5), evidence={"transactional_id": "b"})
    again = replace(_finding("txn-hanging", 3, 9), evidence={"transactional_id": "a"})
    summary = IncidentSummary({}, AS_OF_MS)
    summary.add(replace(found, findings=(first, second, again)))
    ids = [
        dict(zip(rows.table.names, row, strict=True))["transactional_ids"] for rows in [summary.rows()] for row in rows
    ]
    assert sorted(ids) == ['["a"]', '["b"]']


def test_markers_that_one_outage_took_are_one_incident() -> None:
    """Four producers lost markers while partitions had no leader, three of them in one outage."""
    found = next(iter(_results("classic-transaction")))
    summary = IncidentSummary({}, AS_OF_MS)
    began = {0: 1_000_000, 1: 1_000_000, 2: 1_012_000, 3: 1_042_001}
    for number, lost in began.items():
        evidence = {"transactional_id": f"id {number}", "leaderless_from": lost}
        finding = replace(_finding("atomicity-marker-missing", 10 + number, 5), evidence=evidence)
        summary.add(replace(found, place=Place(1, "/logs", "orders", number), findings=(finding,)))
    rows = summary.rows()
    values = [dict(zip(rows.table.names, row, strict=True)) for row in rows]
    assert [(row["partitions"], row["producer_ids"], row["since"]) for row in values] == [
        ("orders-0 to orders-2", "[10, 11, 12]", 1_000_000),
        ("orders-3", "[13]", 1_042_001),
    ]


def test_replicas_that_lost_the_end_of_a_log_are_one_incident() -> None:
    """Seen in the files of a stranger: no replica of a partition has what its high watermark says."""
    found = next(iter(_results("classic-transaction")))
    summary = IncidentSummary({}, AS_OF_MS)
    short = Finding(CODES["checkpoint-hw-beyond-end"], "short", Severity.WARNING)
    for broker in (1, 2, 3):
        place = Place(broker, f"/{broker}", "orders", 0)
        summary.add(replace(found, place=place, findings=(short,)))
    compared = Finding(CODES["replica-truncated"], "compared", Severity.WARNING)
    evidence = {"replica": "/3/orders-0", "others": ["/1/orders-0"]}
    nowhere = Place(None, None, "orders", 0)
    summary.add(replace(found, place=nowhere, findings=(replace(compared, evidence=evidence),)))
    # One that is only behind, as a follower may be, joins nothing.
    behind = replace(compared, severity=Severity.INFO, evidence={"replica": "/2/payments-0", "others": []})
    summary.add(replace(found, place=nowhere._replace(topic="payments"), findings=(behind,)))
    rows = summary.rows()
    values = [dict(zip(rows.table.names, row, strict=True)) for row in rows]
    assert [(row["kind"], row["partitions"], row["findings"]) for row in values] == [
        ("replica-divergence", "orders-0", 4),
        ("replica-divergence", "payments-0", 1),
    ]


def test_transactions_that_are_aborted_all_over_a_cluster_are_one_incident_that_names_the_ids() -> None:
    found = next(iter(_results("classic-transaction")))
    summary = IncidentSummary({}, AS_OF_MS)
    counted = Finding(CODES["txn-aborted-rate-high"], "86 of 259 transactions were aborted (33.2 %).", Severity.WARNING)
    for topic in ("Orders", "payments"):
        summary.add(replace(found, place=Place(1, "/logs", topic, 0), findings=(counted,)))
    of_id = replace(counted, message="97 of 289 transactions of 'load-1' were aborted (33.6 %).")
    named = replace(of_id, evidence={"transactional_id": "load-1"})
    summary.add(replace(found, place=Place(1, "/logs", "__transaction_state", 3), findings=(named,)))
    (row,) = (dict(zip(rows.table.names, row, strict=True)) for rows in [summary.rows()] for row in rows)
    assert row["what"] == f"__transaction_state-3: {named.message} Also in 2 other partitions."
    assert row["transactional_ids"] == '["load-1"]'


def test_producers_of_two_clusters_stay_apart() -> None:
    found = next(iter(_results("classic-transaction")))
    summary = IncidentSummary({"/one": "1", "/two": "2"}, AS_OF_MS)
    for log_dir in ("/one", "/two"):
        place = Place(1, log_dir, "orders", 0)
        summary.add(replace(found, place=place, findings=(_finding("txn-hanging", 1, 5),)))
    assert len(summary.rows()) == 2


def test_what_belongs_to_a_torn_tail_is_one_incident_with_it() -> None:
    found = next(iter(_results("classic-transaction")))
    torn = Finding(CODES["batch-truncated"], "torn", Severity.WARNING, path="/d/t-0/00.log", position=9)
    index = Finding(CODES["index-mismatch"], "index", Severity.ERROR, path="/d/t-0/00.index")
    snapshot = Finding(CODES["snapshot-beyond-offset"], "snapshot", Severity.ERROR, path="/d/t-0/05.snapshot")
    other = Finding(CODES["index-mismatch"], "index", Severity.ERROR, path="/d/t-0/77.index")
    summary = IncidentSummary({}, AS_OF_MS)
    summary.add(replace(found, findings=(index, snapshot, other, torn)))
    rows = summary.rows()
    kinds = {dict(zip(rows.table.names, row, strict=True))["kind"]: row for row in rows}
    assert kinds.keys() == {"torn-log-end", "index-damage"}
    assert dict(zip(rows.table.names, kinds["torn-log-end"], strict=True))["findings"] == 3


def test_what_a_young_transaction_hides_is_said_so_that_it_is_true_of_each(tmp_path: Path) -> None:
    """DeleteRecords had taken all of its records, and it hid 24 of others; in a late replica one hid none."""
    forge(tmp_path, "D 1 0 0-7 @0-7 T; plain @8-43", log_start=20)
    (incident,) = kforensics.audit(str(tmp_path), as_of=NOW + 60_000).incidents.to_pylist()
    assert (incident["kind"], incident["hidden_records"]) == ("stuck-transaction", None)
    assert incident["impact"] == "While it is open, read_committed consumers receive no record from its first one on."
