"""Connect, Kafka Streams, MirrorMaker 2 and Flink on a real broker: what they were, and what they did next."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import cache
from typing import Any

import pytest

import kforensics
from kforensics.forensics.core.formatting import format_time
from tests.command import SAMPLES, run

SAMPLE = SAMPLES / "exactly-once-clients"
DAY, SKEW = 86_400_000, 5000
TRUTH: dict[str, Any] = json.loads((SAMPLE / "truth.json").read_bytes())
TAKEN = int(datetime.fromisoformat(TRUTH["taken"]).timestamp() * 1000)
# What the broker showed of the open transactions after all components had started again, by component, and the words
# for it: a store of Kafka Streams is on disk or in memory, a checkpoint of Flink contains a transaction or does not.
WORDS = {
    ("Flink", "committed"): "commits it with this producer id and epoch if the checkpoint contains them",
    ("Flink", "aborted"): "otherwise aborts it by initializing the id",
    ("Kafka Connect", "aborted"): "initializes the id, which aborts it",
    ("Kafka Streams", "aborted"): "initializes the id",
    ("Kafka Streams", "open"): "otherwise each start takes a new id, and only the timeout of this one ends it",
    ("MirrorMaker 2", "aborted"): "initializes the id, which aborts it",
}
COMPONENTS = {
    "alerts": ("Kafka Streams", "application alerts", "records"),
    "billing": ("Kafka Streams", "application billing", "records"),
    "connect-archive": ("Kafka Connect", "sink connector archive", "records"),
    "etl": ("Kafka Connect", "workers of group etl", "records"),
    "shop-mm2": ("MirrorMaker 2", "workers of group shop-mm2", "name"),
    "stock": ("Kafka Streams", "application stock", "records"),
}


@cache
def _ids() -> dict[str, dict[str, Any]]:
    rows = kforensics.ids(SAMPLE, as_of=TAKEN).to_pylist()
    return {row["transactional_id"]: row for row in rows}


def test_every_id_is_recognized() -> None:
    """Streams of either guarantee, the leaders and tasks of Connect and MirrorMaker, and Flink's subtasks."""
    prefixes = {"alerts": 6, "billing": 2, "clicks": 16, "connect": 2, "etl": 1, "shop": 1, "stock": 2}
    named = {prefix: [name for name in _ids() if name.startswith(f"{prefix}-")] for prefix in prefixes}
    assert {prefix: len(names) for prefix, names in named.items()} == prefixes
    assert sum(prefixes.values()) == len(_ids())
    assert {(name.split("-")[0], row["component"]) for name, row in _ids().items()} == {
        *((name, "Kafka Streams") for name in ("alerts", "billing", "stock")),
        *((name, "Kafka Connect") for name in ("connect", "etl")),
        *((name, "MirrorMaker 2") for name in ("connect", "shop")),
        ("clicks", "Flink"),
    }


def test_what_a_component_does_next_is_what_it_did() -> None:
    """By what consumers of committed records saw after the broker and all components were started again."""
    opened = {name for name, row in _ids().items() if row["state"] == "Ongoing"}
    assert opened == TRUTH["next"].keys()
    seen = set()
    for name, places in TRUTH["next"].items():
        row = _ids()[name]
        assert set(places) == set(row["partitions"].split(",")), name
        (outcome,) = set(places.values())
        assert WORDS[row["component"], outcome] in row["component_next"], name
        seen.add((row["component"], outcome))
    assert seen == WORDS.keys()


def test_a_restored_job_commits_what_its_checkpoint_contains_and_aborts_the_rest() -> None:
    """The number counts checkpoints: the last one was complete, and no transaction after it was part of it."""
    outcomes: dict[int, set[str]] = {}
    for name, places in TRUTH["next"].items():
        if name.startswith("clicks-"):
            outcomes.setdefault(int(name.split("-")[2]), set()).update(places.values())
    last = max(outcomes)
    assert outcomes == {last - 1: {"committed"}, last: {"aborted"}}


@pytest.mark.parametrize("group", COMPONENTS)
def test_each_group_is_as_the_live_broker_described_it(group: str) -> None:
    """Groups of other types than consumer, too: of Connect's workers, and of the streams protocol."""
    rows = {row["group"]: row for row in kforensics.groups(SAMPLE, as_of=TAKEN).to_pylist()}
    assert rows.keys() == TRUTH["described"].keys() == COMPONENTS.keys()
    row, described = rows[group], TRUTH["described"][group]
    assert (row["state"], row["type"]) == (described["state"], described["type"].lower())
    assert row["members"] == len(described["members"])
    assert row["clients"] == ",".join(sorted(member["client_id"] for member in described["members"].values()))
    assert (row["protocol"] or None) == described["assignor"]
    component, _, source = COMPONENTS[group]
    assert (row["component"], row["component_source"]) == (component, source)


def test_records_with_the_timestamps_of_their_input_raise_no_alarm_and_date_no_transaction() -> None:
    """What Kafka Streams and MirrorMaker wrote has the timestamps of orders of the day before."""
    audit = kforensics.audit(SAMPLE, as_of=TAKEN)
    assert {row["severity"] for row in audit.findings.to_pylist()} == {"info"}
    late = [row for row in audit.findings.to_pylist() if row["code"] == "txn-late"]
    assert late
    assert all("its records have older timestamps" in row["message"] for row in late)
    _check_beginnings(TAKEN)


def test_a_day_later_each_transaction_is_overdue_since_its_coordinator_began_it() -> None:
    assert len(_check_beginnings(TAKEN + DAY)) == len(TRUTH["next"])


def _check_beginnings(as_of: int) -> list[str]:
    """Return the ids of the transactions that do not end, whose incidents begin when the live broker says.

    A client gives a record its timestamp shortly before the coordinator begins the transaction.
    """
    found = []
    for row in kforensics.audit(SAMPLE, as_of=as_of).incidents.to_pylist():
        if row["kind"] == "stuck-transaction":
            (name,) = json.loads(row["transactional_ids"])
            since = row["since"] if isinstance(row["since"], int) else int(row["since"].timestamp() * 1000)
            assert 0 <= TRUTH["transactions"][name]["transaction_start_time_ms"] - since <= SKEW, name
            found.append(name)
    return found


@pytest.mark.parametrize("later_ms", [0, DAY])
def test_a_blocking_transaction_is_dated_as_its_incident(later_ms: int) -> None:
    """By its records, a moment after its begin it had been idle for a day."""
    as_of = TAKEN + later_ms
    opened = {row["producer_id"]: row for row in _ids().values() if row["state"] == "Ongoing"}
    blocking = {row["producer_id"] for row in kforensics.lso(SAMPLE, as_of=as_of).to_pylist()} - {None}
    copying = [opened[one] for one in blocking if opened[one]["component"] in ("Kafka Streams", "MirrorMaker 2")]
    text = " ".join(run("lso", "--quiet", "--all", "--as-of", as_of, SAMPLE).text.split())
    begun = re.findall(r"begun (\S+ \S+ UTC) by its coordinator", text)
    assert sorted(begun) == sorted(format_time(row["start_timestamp"]) for row in copying)
    assert len(begun) >= 6


def test_nothing_is_critical_by_the_timestamps_of_copied_records_alone() -> None:
    """The broker had shown all of these as ongoing for seconds."""
    folders = [one for one in (SAMPLE / "broker-1").glob("*-[0-9]") if not one.name.startswith("__")]
    audit = kforensics.audit(folders, as_of=TAKEN, alone=True)
    found = {row["severity"] for row in audit.findings.to_pylist() if row["code"] in ("lso-stuck", "txn-late")}
    assert found == {"warning"}


def test_what_blocks_the_lso_is_dated_by_what_dates_it() -> None:
    def lines(*words: str) -> str:
        folders = [SAMPLE / "broker-1" / name for name in ("shop.orders-0", "billing-counts-0")]
        return run("lso", "--quiet", "--as-of", TAKEN, *words, *folders).text

    known, alone = lines(), lines("--alone")
    assert "begun 2026-11-27 06:30:23 UTC by its coordinator, idle for 29.2 s at most" in known
    assert "begun 2026-11-27 06:29:47 UTC by its coordinator" in known
    assert "last write 2026-11-26 06:29:40 UTC and idle for 1 d by timestamps that its client set" in alone
    assert "last write after the marker of 2026-11-27 06:29:37 UTC, idle for 1 min 15 s at most" in alone


def test_the_list_of_transactions_states_when_open_ones_began() -> None:
    """Its columns go by the timestamps of the records, which the table documents."""
    words = ("--quiet", "--as-of", TAKEN, SAMPLE / "broker-1" / "billing-counts-0")
    note = (
        "  begun by their coordinator, after the timestamps of their records: 2026-11-27 06:29:47 UTC (from offset 16),"
    )
    assert run("transactions", *words).text.count(f"{note} 2026-11-27 06:29:47 UTC (from offset 19)\n") == 1
    assert "begun by" not in run("transactions", "--alone", *words).text
    assert "begun by" not in run("transactions", "--state", "aborted", *words).text


def test_an_offset_of_an_open_transaction_names_its_begin() -> None:
    text = run("explain", "--quiet", "--as-of", TAKEN, "--offset", 0, SAMPLE / "broker-1" / "shop.orders-0").text
    assert "last write 2026-11-26 06:29:40 UTC, open; begun 2026-11-27 06:30:23 UTC by its coordinator" in text
