"""Internal topics with more partitions than before: what real coordinators still end, and what they do not."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import kforensics
from tests.command import ROOT, run

LAB = ROOT / "tests" / "data" / "coordinator-growth"
TRUTH: dict[str, Any] = json.loads((LAB / "truth.json").read_bytes())
FIND = 'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" find-hanging --topic open --partition 3'
ABORT = 'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" abort --topic open --partition 3 --start-offset 0'


@cache
def _audit(copy: str) -> Any:
    return kforensics.audit(LAB / copy, as_of=TRUTH[copy]["at_ms"], processes=1)


def _findings(copy: str, code: str) -> list[dict[str, Any]]:
    return [row for row in _audit(copy).findings.to_pylist() if row["code"] == code]


def test_the_broker_ended_nothing_after_its_restart() -> None:
    assert set(TRUTH["grown"]["ids"].values()) == {"Ongoing"}
    assert set(TRUTH["restarted"]["ids"].values()) == {None}
    assert set(TRUTH["restarted"]["last_stable_offsets"].values()) == {0}
    assert TRUTH["aborted"]["last_stable_offsets"]["open-5"] == 3


def test_transactions_hang_that_the_broker_lists_as_hanging() -> None:
    found = {(row["topic"], row["partition"], row["producer_id"]) for row in _findings("restarted", "txn-hanging")}
    assert found == {(row["topic"], row["partition"], row["producer_id"]) for row in TRUTH["restarted"]["hanging"]}
    assert len(found) == 6
    assert not _findings("restarted", "txn-write-after-marker")
    for row in _findings("restarted", "txn-hanging"):
        assert (row["severity"], row["exactness"]) == ("critical", "exact")
        assert "With 5 partitions it belongs to another one, so no coordinator ends it." in row["message"]


def test_within_their_timeout_nothing_hangs() -> None:
    """Coordinators that were not restarted end them."""
    assert not _findings("grown", "txn-hanging")
    assert not _findings("grown", "txnlog-ongoing-overdue")


def test_the_remedies_do_not_name_the_id_which_would_begin_anew() -> None:
    (row,) = (row for row in _findings("restarted", "txn-hanging") if row["partition"] == 3)
    assert row["remedy"].startswith(f"Confirm with `{FIND}`. If it is listed, end it with `{ABORT}`")
    for row in _findings("restarted", "txnlog-ongoing-overdue"):
        assert "forceTerminateTransaction" not in row["remedy"]
        assert "--start-offset" in row["remedy"]


@pytest.mark.parametrize("copy", ["grown", "restarted"])
def test_names_in_the_wrong_partition_are_one_incident_of_each_topic(copy: str) -> None:
    audit = _audit(copy)
    incidents = [row for row in audit.incidents.to_pylist() if row["kind"] == "internal-partitions"]
    assert [(row["severity"], row["partition_count"]) for row in incidents] == [("critical", 3)] * 2
    lost = {name for name, offsets in TRUTH["restarted"]["groups"].items() if not offsets}
    misplaced = {json.loads(row["evidence"])["group"] for row in _findings(copy, "group-wrong-partition")}
    assert misplaced == lost
    assert 0 < len(lost) < 6
    for row in _findings(copy, "group-wrong-partition"):
        assert "(metadata log, partitions of __consumer_offsets: 3 until 2026-" in row["message"]


@pytest.mark.parametrize("copy", ["grown", "restarted"])
def test_lso_gives_the_same_verdict_as_the_audit(copy: str) -> None:
    said = run("lso", "--as-of", TRUTH[copy]["at_ms"], "--topic", "open", LAB / copy).text
    assert said.count("critical txn-hanging") == len(_findings(copy, "txn-hanging"))
    rows = kforensics.lso(LAB / copy, topic="open", as_of=TRUTH[copy]["at_ms"]).to_pylist()
    found = {f"{row['topic']}-{row['partition']}": row["last_stable_offset"] for row in rows}
    assert found == TRUTH[copy]["last_stable_offsets"]


def test_a_wrong_number_of_partitions_makes_nothing_hang() -> None:
    """The number may come from server.properties, which holds when the topic is created."""
    number = ("transaction.state.log.num.partitions", "2")
    audit = kforensics.audit(
        LAB / "grown", as_of=TRUTH["restarted"]["at_ms"] + 600_000, processes=1, settings=dict([number])
    )
    assert "txn-hanging" not in audit.findings["code"].to_pylist()
