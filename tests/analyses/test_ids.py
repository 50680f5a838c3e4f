"""Transactional ids: their states as the live brokers described them, their lives as the clients had them."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.forensics.coordinators.partition_of import java_hashes
from kforensics.forensics.core.broker_settings import DEFAULT
from lab.golden.formatters import GOLDEN
from scripts import documented
from tests.command import ROOT, SAMPLES, run, sentence
from tests.forensics.coordinators.clusters import at, forge_coordinator, forge_offsets
from tests.forensics.forge import forge

AS_OF = "2026-11-22"
DESCRIBED = {
    path.parent.name: described
    for path in sorted(SAMPLES.glob("*/truth.json"))
    if (described := json.loads(path.read_bytes()).get("transactions"))
}
# A broker before 4.0 keeps the start of the last transaction in memory when the id is initialized again; the record of
# that has none, and neither has the broker after its next start.
IN_MEMORY = {("transactions-v0", "epochs")}
# Ids of samples whose brokers cannot describe them (before 3.0).
EARLY = {"classic-lab-2.7": 1, "legacy-2.7": 7, "rolling-restart": 3}
FORMATTED = re.compile(
    r"(?P<id>.+)::TransactionMetadata\(transactionalId=.+, producerId=(?P<producer_id>\d+), "
    r"producerEpoch=(?P<producer_epoch>\d+), txnTimeoutMs=(?P<transaction_timeout_ms>\d+), state=(?P<state>\w+), "
    r"pendingState=None, topicPartitions=\w+\((?P<partitions>.*)\), txnStartTimestamp"
)
# Their logs are compacted, or a client initialized an id again to recover from an error of its own.
OTHER_INITS = {"coordinators-cleaned": set[str](), "legacy-2.7": {"legacy-gamma"}}
# In the other one, Kafka's components and Flink initialized ids without a command of the lab.
LAB_CLIENTS = [sample for sample in DESCRIBED if sample != "exactly-once-clients"]


@cache
def _lives(folder: Path, name: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = kforensics.ids(folder, transactional_id=name, as_of=AS_OF).to_pylist()
    return events


def _ids(sample: str) -> dict[str, dict[str, Any]]:
    rows = kforensics.ids(SAMPLES / sample, as_of=AS_OF).to_pylist()
    return {row["transactional_id"]: row for row in rows}


def test_enough_ids_were_described_by_live_brokers() -> None:
    assert (len(DESCRIBED), sum(map(len, DESCRIBED.values()))) >= (27, 137)


@pytest.mark.parametrize("sample", DESCRIBED)
def test_each_id_is_as_the_live_broker_described_it(sample: str) -> None:
    found = _ids(sample)
    assert {name for name, row in found.items() if not row["removed"]} == DESCRIBED[sample].keys()
    for name, described in DESCRIBED[sample].items():
        row = found[name]
        assert sorted(filter(None, (row["partitions"] or "").split(","))) == sorted(described["topic_partitions"])
        if (sample, name) not in IN_MEMORY:
            assert row["start_timestamp"] == described["transaction_start_time_ms"], name
        columns = ("state", "producer_id", "producer_epoch", "transaction_timeout_ms")
        assert [row[column] for column in columns] == [described[column] for column in columns], name


@cache
def _formatted() -> dict[str, dict[str, dict[str, str]]]:
    """By sample and id: the last text of the formatter of 2.8.2, where brokers before 3.0 could not be asked."""
    with lzma.open(GOLDEN / "2.8.2.json.xz") as file:
        of_logs: dict[str, list[tuple[int, str, str]]] = json.load(file)["transaction-log"]
    last: dict[str, dict[str, dict[str, str]]] = {}
    for log, records in of_logs.items():
        sample, _, topic = log.split("/")[:3]
        if sample in EARLY and topic.startswith("__transaction_state-"):
            found = (FORMATTED.match(text) for _, text, _ in records)
            last.setdefault(sample, {}).update({match["id"]: match.groupdict() for match in found if match})
    return last


def test_each_id_of_early_brokers_is_as_the_formatter_of_2_8_printed_its_last_record() -> None:
    """These brokers cannot describe transactions."""
    assert {sample: len(ids) for sample, ids in _formatted().items()} == EARLY
    for sample, formatted in _formatted().items():
        found = _ids(sample)
        assert found.keys() == formatted.keys()
        for name, said in formatted.items():
            row = found[name]
            columns = ("producer_id", "producer_epoch", "transaction_timeout_ms", "state")
            assert [str(row[column]) for column in columns] == [said[column] for column in columns], name
            assert sorted(filter(None, (row["partitions"] or "").split(","))) == sorted(
                filter(None, said["partitions"].split(", "))
            )


@pytest.mark.parametrize("sample", DESCRIBED)
def test_the_life_of_each_id_has_the_transactions_of_the_list(sample: str) -> None:
    for name, row in _ids(sample).items():
        events = _lives(SAMPLES / sample, name)
        for outcome in ("committed", "aborted"):
            assert sum(event[outcome] for event in events) == row[outcome], name
        assert (events[-1]["event"] == "expired") == row["removed"]
        assert (events[-1]["event"] in ("open", "deciding")) == (row["state"] in ("Ongoing", "PrepareCommit"))


def _initialized(sample: str) -> Counter[str]:
    """Return how often clients and administrators initialized each id, by the commands that they were given."""
    ids: dict[str, str] = {}
    count: Counter[str] = Counter()
    for command in json.loads((SAMPLES / sample / "pedigree.json").read_bytes())["commands"]:
        if opened := re.match(r"producer name=(.*?) config=(\{.*\})", command):
            ids[opened[1]] = json.loads(opened[2]).get("transactional.id")
        elif begun := re.match(r"init_transactions name=((?:(?!  ->).)*)$", command):
            count[ids[begun[1]]] += 1
        elif fenced := re.match(r"fence_producers ids=(\[.*\])", command):
            count.update(json.loads(fenced[1]))
        elif timed := re.match(r"timed_transactions .*config=(\{.*\})", command):
            count[json.loads(timed[1])["transactional.id"]] += 1
    return count


@pytest.mark.parametrize("sample", [*LAB_CLIENTS, "legacy-2.7", "rolling-restart"])
def test_the_life_of_each_id_has_the_initializations_of_its_clients(sample: str) -> None:
    wanted = _initialized(sample)
    for name in _ids(sample):
        events = _lives(SAMPLES / sample, name)
        times = sum(event["times"] for event in events if event["event"] == "initialized")
        if sample not in OTHER_INITS:
            assert times == wanted[name], name
        elif name in OTHER_INITS[sample]:
            assert times == wanted[name] + 2, name


def test_fencings_and_timeouts_are_those_that_the_lab_provoked() -> None:
    found = {
        (sample, name, event["event"])
        for sample in DESCRIBED
        for name in _ids(sample)
        for event in _lives(SAMPLES / sample, name)
        if event["event"] in ("fenced", "timed-out", "rotated")
    }
    both, old = ("transactions", "consume-transform-produce"), ("-v0", "-v1")
    apps = ("consume-transform-produce-3.9", "consume-transform-produce-v1")
    assert found == {
        *((f"transactions{version}", name, "fenced") for version in old for name in ("fenced", "epochs")),
        *((f"{both[0]}{version}", "slow", "timed-out") for version in (*old, "-v2")),
        *((sample, "fenced-app", "fenced") for sample in apps),
        *((sample, "slow-app", "timed-out") for sample in (*apps, both[1])),
    }


def test_a_timeout_is_never_certain_and_a_fencing_before_the_timeout_is() -> None:
    slow, epochs = (_lives(SAMPLES / "transactions-v1", name) for name in ("slow", "epochs"))
    (timed_out,) = [event for event in slow if event["event"] == "timed-out"]
    assert not timed_out["exact"]
    by = "by the coordinator, unless another producer initialized the id after the timeout"
    assert timed_out["why"] == f"aborted 1.26 s after its start, its timeout is 1 s: {by}"
    (of_version_2,) = [event for event in _lives(SAMPLES / "transactions-v2", "slow") if event["event"] == "timed-out"]
    assert "unless its client aborted it or another producer" in of_version_2["why"]
    (fenced,) = [event for event in epochs if event["event"] == "fenced"]
    assert (fenced["exact"], fenced["first_epoch"], fenced["last_epoch"]) == (True, 2, 3)


def test_version_2_does_not_show_who_aborted() -> None:
    aborted = [event for event in _lives(SAMPLES / "transactions-v2", "fenced") if event["aborted"]]
    assert [(event["event"], event["why"][:24]) for event in aborted] == [("transactions", "the log does not show wh")]


def test_text_states_how_often_an_id_was_fenced() -> None:
    """One that was initialized once was not."""
    words = ("ids", "--quiet", "--transactional-id")
    fenced = run(*words, "fenced", SAMPLES / "transactions-v2").text
    assert "  fenced 1 time, last at 2026-11-21 12:05:20.851 UTC: the id was initialized again, after a rest" in fenced
    assert "  next: without a restart or error, find both in" in fenced
    assert "  fenced " not in run(*words, "hanging", SAMPLES / "transactions-v2").text


def _events(folder: Path, log: str, **options: Any) -> list[tuple[Any, ...]]:
    forge_coordinator(folder, log, **options)
    _lives.cache_clear()
    columns = ("event", "producer_id", "first_epoch", "last_epoch", "previous_producer_id", "times")
    return [tuple(event[column] for column in columns) for event in _lives(folder, "a")]


def test_a_new_producer_id_is_a_rotation(tmp_path: Path) -> None:
    ends = "a Ongoing 1 32765 tv 2 {p-0} t 1; a PrepareCommit 1 32766 tv 2 next 2 {p-0} t 2"
    log = f"a Empty 1 32765 t 0; {ends}; a CompleteCommit 2 0 tv 2 prev 1 t 3; a Empty 2 32766 t 4"
    log += "; a Empty 3 0 prev 2 t 5"
    assert _events(tmp_path, log) == [
        ("initialized", 1, 32765, 32765, None, 1),
        ("transactions", 1, 32765, 32766, None, 1),
        ("rotated", 2, 0, 0, 1, 1),
        ("initialized", 2, 32766, 32766, None, 1),
        ("initialized", 3, 0, 0, 2, 1),
    ]
    reasons = [event["why"] for event in _lives(tmp_path, "a")]
    assert reasons[2::2] == ["the epochs of producer 1 are used up", "the epochs of producer 2 are used up"]


def test_equal_events_in_a_row_are_one(tmp_path: Path) -> None:
    inits = "; ".join(f"a Empty 1 {epoch} t {epoch}" for epoch in range(5))
    done = "a Ongoing 1 4 {p-0} t 9; a PrepareCommit 1 4 {p-0} t 9; a CompleteCommit 1 4 t 9"
    assert _events(tmp_path, f"{inits}; {done}; {done}; a gone t 90000; a Empty 7 0 t 90001") == [
        ("initialized", 1, 0, 4, None, 5),
        ("transactions", 1, 4, 4, None, 2),
        ("expired", 1, 4, 4, None, 1),
        ("initialized", 7, 0, 0, None, 1),
    ]
    assert [event["why"] for event in _lives(tmp_path, "a")][2:] == [
        "no record for 1 min 29 s",
        "new again after it had expired",
    ]


def test_up_to_4_0_0_an_epoch_two_higher_shows_the_coordinator(tmp_path: Path) -> None:
    log = (
        "a Empty 1 0 t 0; a Ongoing 1 0 tv 2 {p-0} t 1; a PrepareAbort 1 2 tv 2 {p-0} t 9; a CompleteAbort 1 2 tv 2 t 9"
    )
    assert _events(tmp_path, log)[1:] == [("fenced", 1, 0, 2, None, 1)]


def test_a_client_that_aborts_after_its_timeout_is_no_timeout(tmp_path: Path) -> None:
    """With versions 0 and 1 the epoch shows that the client decided."""
    log = "a Empty 1 0 t 0; a Ongoing 1 0 {p-0} t 1; a PrepareAbort 1 0 {p-0} t 70000; a CompleteAbort 1 0 t 70001"
    assert _events(tmp_path, log)[1:] == [("transactions", 1, 0, 0, None, 1)]


def test_a_transaction_without_its_markers_is_being_decided(tmp_path: Path) -> None:
    assert _events(tmp_path, "a Empty 1 0 t 0; a Ongoing 1 0 {p-0} t 1; a PrepareCommit 1 0 {p-0} t 2")[1:] == [
        ("deciding", 1, 0, 0, None, 1)
    ]


def test_what_compaction_took_makes_the_rest_inexact() -> None:
    events = [_lives(SAMPLES / "coordinators-cleaned", name) for name in ("open", "short-lived-2-3")]
    assert [[(event["event"], event["exact"]) for event in life] for life in events] == [
        [("open", False)],
        [("transactions", False), ("expired", True)],
    ]


@pytest.mark.parametrize("sample", DESCRIBED)
def test_every_id_is_in_the_partition_where_it_belongs(sample: str) -> None:
    """The coordinators of real brokers put it there; whether the metadata log or the ids show the count."""
    for name, row in _ids(sample).items():
        found = kforensics.ids(SAMPLES / sample, where=name, as_of=AS_OF).to_pylist()
        of_id = [place for place in found if place["kind"] == "transactional id"]
        assert [(place["topic"], place["partition"]) for place in of_id] == [("__transaction_state", row["partition"])]
        assert of_id[0]["available"]


def test_every_group_is_in_the_partition_where_it_belongs() -> None:
    commits = kforensics.audit(SAMPLES / "consume-transform-produce", as_of=AS_OF).tables["group_offsets"].to_pylist()
    partitions = {(row["group"], row["partition"]) for row in commits}
    assert {partition for _, partition in partitions} == {0, 1}
    for group, partition in partitions:
        found = kforensics.ids(SAMPLES / "consume-transform-produce", where=group, as_of=AS_OF).to_pylist()
        assert [place["partition"] for place in found if place["kind"] == "group"] == [partition]


def test_the_count_of_partitions_says_where_it_comes_from(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "".join(f"id-{number} Empty {number} 0 t 0; " for number in range(5)))
    forge_offsets(tmp_path, f"plain @0 {at(1)}", {0: ("g", "p-0", 1)})

    def sources(*words: object) -> list[tuple[int, str]]:
        rows = run("ids", "--as-of", AS_OF, "--format", "ndjson", "--where", "id-a", *words).objects
        return [(row["partition_count"], row["count_source"]) for row in rows]

    estimated = "estimated: 5 of 5 names in the logs are where it puts them, 1 where the default of 50 does"
    assert sources(tmp_path)[0] == (1, estimated)
    assert sources("--set", "transaction.state.log.num.partitions=7", tmp_path)[0] == (7, "--set")
    assert sources(SAMPLES / "transactions-v2")[0] == (1, "metadata log, partitions of __transaction_state")
    nothing = SAMPLES / "damaged" / "states" / "index-ragged-0"
    assert sources("--alone", nothing) == [(50, "Kafka's default")] * 2
    text = run("ids", "--as-of", AS_OF, "--where", "id-a", "--alone", nothing).lines
    assert text[:3] == [
        "transactional id id-a: __transaction_state-47",
        "  hash 3225647 modulo 50 partitions (Kafka's default)",
        "  not among the files",
    ]


def test_names_that_fit_the_default_are_no_evidence_of_fewer_partitions(tmp_path: Path) -> None:
    """Every name fits a single partition, so one folder of a cluster with 50 does not show that there is only one."""
    names = [name for name in map(str, range(500)) if java_hashes([name])[0] % 50 == 0]
    assert len(names) > 3
    forge_coordinator(tmp_path, "; ".join(f"{name} Empty {number} 0 t 0" for number, name in enumerate(names)))
    (of_id, _) = kforensics.ids(tmp_path, where="id-a", as_of=AS_OF).to_pylist()
    assert (of_id["partition"], of_id["partition_count"], of_id["count_source"]) == (47, 50, DEFAULT)


def test_an_odd_first_record_is_named(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 7 t 0; a CompleteAbort 1 7 start 0 t 1")
    events = _lives(tmp_path, "a")
    assert [(event["exact"], event["why"]) for event in events] == [
        (False, "no coordinator writes this as the first record of an id"),
        (False, "no coordinator goes from the state before to this one"),
    ]


def test_a_long_list_is_cut_and_shows_open_transactions_first(tmp_path: Path) -> None:
    log = "; ".join(f"id-{number} Empty {number} 0 t {number}" for number in range(30))
    forge_coordinator(tmp_path, f"open Ongoing 99 0 {{p-0}} t -5; {log}")
    lines = run("ids", "--as-of", AS_OF, "--quiet", tmp_path).lines
    assert lines[0] == "31 transactional ids in 1 partition of __transaction_state: 30 Empty, 1 Ongoing"
    assert [line.split()[0] for line in lines[3:6]] == ["open", "id-29", "id-28"]
    assert lines[-2:] == ["  … and 11 more ids", f"  $ kforensics ids --all --as-of {AS_OF} --quiet {tmp_path}"]
    assert len(run("ids", "--as-of", AS_OF, "--quiet", "--all", tmp_path).lines) == 3 + 31


def test_ids_of_components_are_recognized_and_say_what_happens_next(tmp_path: Path) -> None:
    """The workers of a Connect cluster may be in another partition than its task."""
    sink = "clicks-3-17 Empty 17 4 t 0; clicks-3-17 Ongoing 17 4 timeout 900000 {p-0} t 1"
    forge_coordinator(tmp_path, f"{sink}; shop-0_1 Empty 18 0 t 2; plain-1 Ongoing 19 0 {{p-1}} t 3")
    task = "etl-jdbc-2 Ongoing 20 0 {p-0} t 5; etl-jdbc-2 PrepareAbort 20 0 {p-0} t 6"
    forge_coordinator(tmp_path, f"connect-cluster-etl Empty 21 0 t 4; {task}", partition=1)
    rows = {row["transactional_id"]: row for row in kforensics.ids(tmp_path, as_of=AS_OF).to_pylist()}
    assert {name: (row["component"], (row["component_next"] or "")[:31]) for name, row in rows.items()} == {
        "clicks-3-17": ("Flink", "a restored job commits it with "),
        "shop-0_1": ("Kafka Streams", ""),
        "plain-1": (None, ""),
        "etl-jdbc-2": ("Kafka Connect", ""),
        "connect-cluster-etl": ("Kafka Connect", ""),
    }
    words = ("ids", "--as-of", AS_OF, "--quiet")
    assert "looks like" in run(*words, "--wide", tmp_path).lines[2]
    lives = {name: run(*words, "--transactional-id", name, tmp_path).text for name in rows}
    assert "looks like Flink: subtask 3 of the sink with the prefix clicks, number 17\n" in lives["clicks-3-17"]
    whose, late = "with the open transaction of producer 17, epoch 4: a restored job", "after its timeout of 15 min"
    shown = " ".join(lives["clicks-3-17"].split())
    assert (whose in shown, late in shown) == (True, True)
    assert "looks like Kafka Connect: task 2 of connector jdbc, worker group etl\n" in lives["etl-jdbc-2"]
    assert not any("next, with" in lives[name] for name in rows if name != "clicks-3-17")
    assert "looks like" not in lives["plain-1"]


def test_a_long_life_is_cut(tmp_path: Path) -> None:
    one = "a Ongoing 1 {0} {{p-0}} t 9; a PrepareCommit 1 {0} {{p-0}} t 9; a CompleteCommit 1 {0} t 9"
    log = "; ".join(f"a Empty 1 {epoch} t 0; {one.format(epoch)}" for epoch in range(12))
    forge_coordinator(tmp_path, log)
    lines = run("ids", "--as-of", AS_OF, "--quiet", "--transactional-id", "a", tmp_path).lines
    assert lines[2].startswith("  fenced 11 times, last at ")
    assert lines[4] == "  4 earlier events …"
    assert len(lines) == 6 + 20
    assert lines[-1].endswith("transactions: producer 1, epoch 11; 1 committed")


def test_what_does_not_go_together_or_is_not_there_is_refused() -> None:
    broker = SAMPLES / "transactions-v2"
    assert "give one" in sentence(run("ids", "--transactional-id", "a", "--where", "a", broker))
    assert "did you mean slow?" in sentence(run("ids", "--quiet", "--transactional-id", "slwo", broker))
    alone = ("--alone", broker / "broker-1" / "open-0")
    assert "no partition of __transaction_state is under the paths" in sentence(run("ids", "--quiet", *alone))
    with pytest.raises(UsageError, match="leave out topic and partition"):
        kforensics.ids(broker, topic="open")


def test_the_manual_has_the_tables() -> None:
    assert documented.id_tables() in (ROOT / "docs" / "ids.md").read_text(encoding="utf-8"), "run make docs"


def test_the_id_of_a_source_task_shows_where_its_connector_goes_on(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "connect-cluster-etl Empty 21 0 t 4; etl-files-0 Ongoing 22 0 {p-0} t 5")
    key = b'["files",{"file":"a.txt"}]'
    offsets = {0: [(key, b'{"position":7}')], 1: [(b'["other",{}]', b'{"position":9}')]}
    forge(tmp_path, f"plain @0 {at(0)}; plain @1 {at(1)}", topic="etl-offsets", records=offsets)
    configs = {0: [(b"commit-files", b'{"tasks":1}')], 1: [(b"tasks-fencing-files", b'{"task-count":1}')]}
    forge(tmp_path, "plain @0; plain @1", topic="etl-configs", records=configs)
    text = run("ids", "--transactional-id", "etl-files-0", tmp_path).text
    assert '  source offset of {"file": "a.txt"} in etl-offsets: {"position": 7}, committed 20' in text
    assert "  connector files: 1 task\n  fencing: the newest task count record, of 1 task, follows" in text
    assert "position" not in run("ids", "--transactional-id", "connect-cluster-etl", tmp_path).text
