"""Groups: their states and lags as the live brokers described them, and the history of each as its clients had it."""

from __future__ import annotations

import json
import lzma
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.forensics.coordinators.consumer_groups.group_events import GroupEventKind
from kforensics.forensics.coordinators.consumer_groups.reset_causes import ResetCause
from kforensics.parsers.messages.group import CONSUMER_GROUP_METADATA_KEY, CONSUMER_GROUP_METADATA_VALUE
from lab.golden.formatters import GOLDEN
from tests.command import ROOT, SAMPLES, run
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.cluster.test_group_resets import CAUSES, CAUSES_BEFORE_4, LABS, RELEASES
from tests.forensics.coordinators.clusters import at, commit_record, forge_offsets, group_record
from tests.forensics.forge import Content, forge
from tests.parsers.messages.encoder import encode

AS_OF = "2026-11-24"
METADATA = "__cluster_metadata-0"
TRUTHS = {
    path.parent.name: truth
    for path in sorted(SAMPLES.glob("*/truth.json"))
    if (truth := json.loads(path.read_bytes())).get("groups")
}


# What brokers said of the groups of samples when they were started once more, as python -m lab.described_groups does.
DESCRIBED: dict[str, Any] = json.loads((ROOT / "tests" / "data" / "described-groups.json").read_bytes())


# With ZooKeeper; what they say of a group's members is in the last record, as the formatter of 2.8 prints it.
WITH_ZOOKEEPER = {"classic-lab-2.7": 1, "legacy-2.7": 3, "legacy-magic-0": 1, "legacy-magic-1": 1}
FORMATTED = re.compile(
    r"(?P<group>.+)::GroupMetadata\(groupId=.+, generation=(?P<generation>\d+), protocolType=.+, "
    r"currentState=(?P<state>\w+), members=\w+\((?P<members>.*)\)\)"
)


def groups_of(folder: Path, **options: Any) -> dict[str, dict[str, Any]]:
    """Return the rows of the groups that exist, by name."""
    rows = kforensics.groups(folder, as_of=AS_OF, **options).to_pylist()
    return {row["group"]: row for row in rows if row["state"] != "Dead"}


def history(folder: Path, group: str, **options: Any) -> list[dict[str, Any]]:
    """Return the events of a group but for its lags at the end of the logs."""
    rows = kforensics.groups(folder, group=group, as_of=AS_OF, **options).to_pylist()
    return [row for row in rows if row["event"] != "lag"]


def test_enough_groups_were_listed_by_live_brokers() -> None:
    assert (len(TRUTHS), sum(len(truth["groups"]) for truth in TRUTHS.values())) >= (15, 40)


@pytest.mark.parametrize("sample", TRUTHS)
def test_each_group_is_as_the_live_broker_listed_it(sample: str) -> None:
    """Types, numbers of partitions with an offset, and lags; of pending offsets brokers show the older ones."""
    truth, found = TRUTHS[sample], groups_of(SAMPLES / sample)
    listed = truth["groups"]
    assert {name for name, row in found.items() if row["partitions"] or row["type"] != "classic"} >= {
        name for name, group in listed.items() if group["offsets"]
    }
    for name, group in listed.items():
        if group["type"] != "Unknown":
            assert found[name]["type"] == group["type"].lower(), name
        offsets = {place: offset["offset"] for place, offset in (group["offsets"] or {}).items() if offset}
        assert found[name]["partitions"] == len(offsets), name
        assert found[name]["lag"] == _lag(truth, offsets), name


def _lag(truth: dict[str, Any], offsets: dict[str, int]) -> int | None:
    lags = []
    for place, offset in offsets.items():
        topic, _, number = place.rpartition("-")
        lags.append(max(truth["topics"][topic][number]["latest"] - offset, 0))
    return sum(lags) if lags else None


@pytest.mark.parametrize("release", RELEASES)
def test_each_group_is_as_the_live_broker_described_it(release: str) -> None:
    """State, type, assignor and clients; a group that was removed is Dead, and no broker describes it."""
    truth = json.loads((LABS / release / "truth.json").read_bytes())
    found = groups_of(LABS / release)
    assert found.keys() == truth["described"].keys()
    for name, described in truth["described"].items():
        row = found[name]
        assert (row["state"], row["members"]) == (described["state"], len(described["members"])), name
        clients = ",".join(sorted(member["client_id"] for member in described["members"].values()))
        assert (row["clients"] or "") == clients, name
        if row["type"] == "classic":
            assert (row["protocol"] or "") == described["assignor"], name
        assert row["partitions"] == len(truth["groups"][name]["offsets"]), name


def test_the_groups_of_every_sample_with_a_quorum_were_described() -> None:
    """Those with ZooKeeper cannot be started once more."""
    of_quorums = {name for name in TRUTHS if any((SAMPLES / name).glob("broker-*/__cluster_metadata-0"))}
    assert DESCRIBED.keys() == {name for name in of_quorums if "described" not in TRUTHS[name]}
    assert sum(map(len, DESCRIBED.values())) == 42


@pytest.mark.parametrize("sample", DESCRIBED)
def test_each_group_is_as_its_broker_described_it_after_another_start(sample: str) -> None:
    """State, members and, of classic groups, the assignor: what a coordinator loads from its log."""
    found = groups_of(SAMPLES / sample)
    assert found.keys() >= DESCRIBED[sample].keys()
    for name, described in DESCRIBED[sample].items():
        row, clients = found[name], sorted(member["client_id"] for member in described["members"].values())
        assert (row["type"], row["state"]) == (described["type"].lower(), described["state"]), name
        assert (row["members"], row["clients"] or "") == (len(clients), ",".join(clients)), name
        if row["type"] == "classic":
            assert (row["protocol"] or "") == described["assignor"], name


@pytest.mark.parametrize("sample", WITH_ZOOKEEPER)
def test_each_group_of_brokers_with_zookeeper_is_as_the_formatter_of_2_8_printed_it(sample: str) -> None:
    """A group with offsets alone is Empty. Rule: ``GroupMetadataManager.doLoadGroupsAndOffsets``."""
    with lzma.open(GOLDEN / "2.8.2.json.xz") as file:
        of_logs: dict[str, list[tuple[int, str, str]]] = json.load(file)["group-metadata"]
    texts = [text for log, records in of_logs.items() if log.startswith(f"{sample}/") for _, text, _ in records]
    formatted = {match["group"]: match for match in map(FORMATTED.match, texts) if match}
    found = groups_of(SAMPLES / sample)
    assert len(found) == WITH_ZOOKEEPER[sample]
    for name, row in found.items():
        last = formatted.get(name)
        state, members = ("Empty", 0) if last is None else (last["state"], last["members"].count("clientId="))
        assert (row["state"], row["members"]) == (state, members), name
        assert row["generation"] == (None if last is None else int(last["generation"])), name


@pytest.mark.parametrize("group", [name for name, one in DESCRIBED["share-groups"].items() if one["start_offsets"]])
def test_share_groups_start_where_the_broker_lists_it(group: str) -> None:
    rows = [row for row in history(SAMPLES / "share-groups", group) if row["event"] == "delivery"]
    starts = {f"{row['committed_topic']}-{row['committed_partition']}": row["first_committed"] for row in rows}
    assert starts == DESCRIBED["share-groups"][group]["start_offsets"]


@pytest.mark.parametrize("release", RELEASES)
def test_the_history_names_each_cause(release: str) -> None:
    causes = CAUSES if release == "4.4.0" else CAUSES_BEFORE_4
    for name, (cause, _) in {**causes, "transaction": ("transaction", "")}.items():
        events = history(LABS / release, name, settings={"offsets.retention.minutes": 1})
        assert [event["cause"] for event in events if event["event"] == "reset"] == [cause], name


def test_commits_are_runs_that_a_reset_ends() -> None:
    events = history(LABS / "4.4.0", "expired", settings={"offsets.retention.minutes": 1})
    shown = [
        (event["event"], event["state"] or event["first_committed"], event["members"] or event["last_committed"])
        for event in events
    ]
    assert shown == [
        *(("state", "Empty", None), ("state", "Stable", 1), ("commits", 10, 10), ("state", "Empty", None)),
        *(("removed", None, None), ("state", "Dead", None), ("state", "Empty", None), ("state", "Stable", 1)),
        *(("commits", 3, 9), ("reset", 10, 3), ("state", "Empty", None)),
    ]


def test_a_reset_in_a_transaction_is_where_its_marker_is(tmp_path: Path) -> None:
    """After the commit that made it, and after what happened until the transaction ended."""
    log = f"plain @0-0 {at(0)}; D 1 0 0-0 @1-1 T {at(1)}; plain @2-2 {at(2)}; M 1 0 C 0 @3 {at(3)}; plain @4-4 {at(4)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 9), 1: ("g", "in-0", 5), 2: ("g", "in-1", 1), 4: ("g", "in-2", 1)})
    events = history(tmp_path, "g")
    assert [(event["event"], event["committed_partition"], event["last_committed"]) for event in events] == [
        *(("commits", 0, 9), ("commits", 0, 5), ("commits", 1, 1), ("reset", 0, 5), ("commits", 2, 1)),
    ]
    times = [event["first_timestamp"] for event in events]
    assert times == sorted(times)


def test_members_of_the_consumer_protocol_join_and_leave() -> None:
    """The records of a batch are one event, and the last state is that of the list."""
    events = [event for event in history(SAMPLES / "groups", "modern") if event["event"] == "state"]
    assert [event["members"] for event in events] == [1, 2, 3, 3, 2, 1, 1, 2, 2]
    assert (events[-1]["state"], events[-1]["generation"], events[-1]["clients"]) == (
        "Stable",
        7,
        "modern-1,static again",
    )


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_group_that_changes_its_protocol_is_not_dead(is_compacted: bool, tmp_path: Path) -> None:
    """The records of the old protocol are removed in the batch with the new one, which compaction may take."""
    key = b"\x00\x03" + encode(CONSUMER_GROUP_METADATA_KEY, 0, {"groupId": "g"})
    epoch = b"\x00\x00" + encode(CONSUMER_GROUP_METADATA_VALUE, 0, {"epoch": 3, "metadataHash": 0})
    records: dict[int, list[Content]] = {0: [(key, epoch)], 1: [(key, None)], 3: [group_record("g", 1, generation=4)]}
    log = "plain @0-0; plain @1-1; plain @3-3"
    if not is_compacted:
        records = {0: [(key, epoch)], 1: [(key, None), group_record("g", 1, generation=4)]}
        log = "plain @0-0; plain @1-2"
    forge(tmp_path, log, topic="__consumer_offsets", records=records)
    shown = [(event["state"], event["generation"], event["why"]) for event in history(tmp_path, "g")]
    assert shown == [("Empty", 3, None), ("Stable", 4, "became classic")]


def test_a_group_that_was_removed_before_another_began_is_dead(tmp_path: Path) -> None:
    key = b"\x00\x03" + encode(CONSUMER_GROUP_METADATA_KEY, 0, {"groupId": "g"})
    forge(
        tmp_path,
        "plain @1-1; plain @3-3",
        topic="__consumer_offsets",
        records={1: [(key, None)], 3: [group_record("g", 1)]},
    )
    assert [(event["state"], event["why"]) for event in history(tmp_path, "g")] == [("Dead", None), ("Stable", None)]


COMMIT, REMOVAL, DELETION = commit_record("g", "in-0", 5), commit_record("g", "in-0", None), group_record("g", None)


@pytest.mark.parametrize(
    ("log", "records", "described"),
    [
        ("plain @0-0; plain @1-2; plain @3-3", {3: [COMMIT]}, ("Empty", 1, 0)),
        (f"plain @0-0; plain @1-2; D 1 0 0-0 @3-3 T {at(1)}; M 1 0 C 0 @4", {3: [COMMIT]}, ("Empty", 1, 0)),
        (f"plain @0-0; plain @1-2; D 1 0 0-0 @3-3 T {at(1)}", {3: [COMMIT]}, ("Empty", 0, 1)),
        (f"plain @0-0; plain @1-2; D 1 0 0-0 @3-3 T {at(1)}; M 1 0 A 0 @4", {3: [COMMIT]}, ("Dead", 0, 0)),
        ("plain @0-0; plain @1-2; plain @3-3; plain @4-4", {3: [COMMIT], 4: [REMOVAL]}, ("Dead", 0, 0)),
    ],
    ids=["committed", "in a transaction", "pending", "aborted", "removed again"],
)
def test_a_removed_group_with_a_later_offset_is_another_one(
    log: str, records: dict[int, list[Content]], described: tuple[str, int, int], tmp_path: Path
) -> None:
    """As a broker of 4.4.0 described groups that were deleted, or had expired, and got an offset."""
    records = {0: [group_record("g", 0, generation=7)], 1: [REMOVAL, DELETION], **records}
    forge(tmp_path, log, topic="__consumer_offsets", records=records)
    (row,) = kforensics.groups(tmp_path, as_of=AS_OF).to_pylist()
    assert (row["state"], row["partitions"], row["pending"]) == described
    assert (row["type"], row["generation"]) == ("classic", 7 if row["state"] == "Dead" else None)
    explained = "Dead" if row["state"] == "Dead" else "without members, Empty"
    assert f"group g: classic, {explained}" in run("explain", "--group", "g", tmp_path).lines


# Who wrote a log: the metadata log of a sample whose broker registered with that release, or a broker with ZooKeeper.
WRITERS = {"4.0": "groups-4.0", "3.9": "compaction-3.9"}
ZOOKEEPER = {"meta.properties": b"broker.id=1\nversion=0\ncluster.id=of-zookeeper\n"}
CREATED = {
    "removed": ("plain @0-0; plain @1-1", {0: [COMMIT], 1: [REMOVAL]}),
    "aborted": (f"D 1 0 0-0 @0-0 T {at(1)}; M 1 0 A 0 @1", {0: [COMMIT]}),
    "compaction took the commit": ("plain @0-0", {0: [REMOVAL]}),
    "removed with its group": ("plain @0-0; plain @1-2", {0: [COMMIT], 1: [REMOVAL, DELETION]}),
}


def forge_written_by(
    folder: Path, writer: str | None, log: str, records: dict[int, list[Content]], **more: Any
) -> None:
    """Write a partition of ``__consumer_offsets``, and what shows which release its broker has."""
    forge(folder, log, topic="__consumer_offsets", records=records, **more)
    if writer == "ZooKeeper":
        (folder / "meta.properties").write_bytes(ZOOKEEPER["meta.properties"])
    elif writer is not None:
        shutil.copytree(SAMPLES / WRITERS[writer] / "broker-1" / METADATA, folder / METADATA)


def state_of(folder: Path, as_of: str | int = AS_OF) -> tuple[str, int, int]:
    """Return the state of the only group, and its numbers of partitions and pending ones; both views agree."""
    (row,) = kforensics.groups(folder, as_of=as_of).to_pylist()
    header = run("groups", "--quiet", "--group", "g", "--as-of", str(as_of), folder).lines[0]
    assert header.endswith(f", {row['state']}")
    return row["state"], row["partitions"], row["pending"]


@pytest.mark.parametrize("made", CREATED)
@pytest.mark.parametrize("writer", ["4.0", "3.9", "ZooKeeper", None])
@pytest.mark.parametrize("is_later", [False, True])
def test_a_group_that_a_commit_created_stays_without_offsets(
    made: str, writer: str | None, is_later: bool, tmp_path: Path
) -> None:
    """From 4.0 on until its own tombstone, as brokers of 4.3.1 and 4.1.1 described them, also after a restart.

    One of 3.3.2 listed none whose offsets had been removed or had expired. Where the release is unknown, ten minutes
    are the most that one of 4.0 leaves it.
    """
    forge_written_by(tmp_path, writer, *CREATED[made], clean_shutdown=False)
    never, always = made in ("compaction took the commit", "removed with its group"), writer == "4.0"
    # The broker of 3.9 registered after the times in the log: it has loaded the log since.
    is_gone = writer == "3.9" or (made == "removed" and writer == "ZooKeeper")
    is_there = not never and (always or not (is_later or is_gone))
    as_of = AS_OF if is_later else NOW + 300_000
    assert state_of(tmp_path, as_of) == ("Empty" if is_there else "Dead", 0, 0)


def test_groups_of_other_kinds_show_the_new_coordinator(tmp_path: Path) -> None:
    """The settings of brokers of 3.7 to 3.9 may enable it."""
    forge_written_by(tmp_path, "3.9", *CREATED["removed"])
    assert state_of(tmp_path) == ("Dead", 0, 0)
    key = b"\x00\x03" + encode(CONSUMER_GROUP_METADATA_KEY, 0, {"groupId": "modern"})
    log, records = CREATED["removed"]
    forge(tmp_path, f"{log}; plain @2-2", topic="__consumer_offsets", records={**records, 2: [(key, None)]})
    states = {row["group"]: row["state"] for row in kforensics.groups(tmp_path, as_of=AS_OF).to_pylist()}
    assert states == {"g": "Empty", "modern": "Dead"}


LATE = f"plain @0-0; D 1 0 0-0 @1-1 T {at(1)}; plain @2-2; plain @3-4 {at(5)}; M 1 0 C 0 @5 {at(9)}"
LATE_RECORDS = {0: [group_record("g", 0)], 1: [commit_record("g", "in-0", 7)], 2: [COMMIT], 3: [REMOVAL, DELETION]}
AGAIN = "coordinators before 4.0 have it again once they load the log"


@pytest.mark.parametrize("is_ended", [True, False])
@pytest.mark.parametrize(
    ("writer", "more", "is_again"),
    [
        ("3.9", {"clean_shutdown": True}, True),
        ("ZooKeeper", {"clean_shutdown": True}, True),
        ("ZooKeeper", {"leader_epochs": {0: 0, 6: 1}}, True),
        ("3.9", {}, True),
        ("ZooKeeper", {}, False),
        ("4.0", {"clean_shutdown": True}, False),
        (None, {"clean_shutdown": True}, False),
    ],
    ids=["stopped", "of ZooKeeper", "elected again", "started again", "running since", "new coordinator", "unknown"],
)
def test_an_offset_that_was_removed_before_its_commit(
    writer: str | None, more: dict[str, Any], is_again: bool, is_ended: bool, tmp_path: Path
) -> None:
    """A broker of 3.3.2 had it again after a restart, and none before; one of 4.1.1 never had it again."""
    log = LATE if is_ended else LATE.rpartition(";")[0]
    if not is_ended and "leader_epochs" in more:
        more = {"leader_epochs": {0: 0, 5: 1}}
    forge_written_by(tmp_path, writer, log, LATE_RECORDS, **{"clean_shutdown": False, **more})
    assert state_of(tmp_path) == (("Empty", is_ended, not is_ended) if is_again else ("Dead", 0, 0))
    events = [event for event in history(tmp_path, "g") if event["event"] in ("commits", "removed")]
    shown = [(event["event"], event["last_committed"], event["why"]) for event in events]
    others = [("commits", 5, None), ("removed", None, None)]
    if not is_ended:
        assert shown == others
    elif is_again:
        assert shown == [*others, ("commits", 7, f"the offset was removed before the COMMIT; {AGAIN}")]
    else:
        later = "" if writer == "4.0" else f"; {AGAIN}"
        assert shown == [("commits", 7, f"no effect, the offset was removed before the COMMIT{later}"), *others]
    assert not [event for event in history(tmp_path, "g") if event["event"] == "reset"]


def test_an_offset_that_was_pending_before_its_group_was_removed_leaves_it_dead(tmp_path: Path) -> None:
    """A broker of 4.4.0 described it as dead until the end of the transaction; nothing has removed the offset."""
    records: dict[int, list[Content]] = {0: [group_record("g", 0)], 1: [COMMIT], 2: [DELETION]}
    forge(tmp_path, f"plain @0-0; D 1 0 0-0 @1-1 T {at(1)}; plain @2-2", topic="__consumer_offsets", records=records)
    (row,) = kforensics.groups(tmp_path, as_of=AS_OF).to_pylist()
    assert (row["state"], row["pending"]) == ("Dead", 1)


@pytest.mark.parametrize("kind", [3, 11, 17])
def test_a_removed_group_of_another_kind_is_classic_after_a_commit(kind: int, tmp_path: Path) -> None:
    key = kind.to_bytes(2, "big") + encode(CONSUMER_GROUP_METADATA_KEY, 0, {"groupId": "g"})
    records: dict[int, list[Content]] = {0: [(key, None)], 1: [COMMIT]}
    forge(tmp_path, "plain @0-0; plain @1-1", topic="__consumer_offsets", records=records)
    (row,) = groups_of(tmp_path).values()
    assert (row["type"], row["state"], row["generation"]) == ("classic", "Empty", None)


def test_transactions_show_which_commits_took_effect(tmp_path: Path) -> None:
    """One committed, one aborted, one open."""
    turns = [
        f"D 1 0 {number}-{number} @{2 * number}-{2 * number} T {at(number)}; M 1 0 {outcome} 0 @{2 * number + 1}"
        for number, outcome in enumerate("CA")
    ]
    committed = {0: ("g", "in-0", 5), 2: ("g", "in-0", 7), 4: ("g", "in-0", 9)}
    forge_offsets(tmp_path, f"{'; '.join(turns)}; D 1 0 2-2 @4-4 T {at(3)}", committed)
    shown = [(event["event"], event["last_committed"]) for event in history(tmp_path, "g")]
    assert shown == [("commits", 5), ("aborted", 7), ("pending", 9)]
    (row,) = groups_of(tmp_path).values()
    assert (row["partitions"], row["pending"], row["lag"], row["without_lag"]) == (1, 1, None, 1)


def test_an_offset_beyond_the_end_hides_no_lag_of_another_partition(tmp_path: Path) -> None:
    """Nor does one beyond the last stable offset hide a stable lag."""
    offsets = {0: ("g", "in-0", 500), 1: ("g", "in-1", 4), 2: ("g", "in-2", 8)}
    forge_offsets(tmp_path, "plain @0-0; plain @1-1; plain @2-2", offsets)
    for partition in range(3):
        forge(tmp_path, f"plain @0-4; D 9 0 0-4 @5-9 T {at(0)}", topic="in", partition=partition)
    (row,) = groups_of(tmp_path).values()
    assert (row["lag"], row["stable_lag"], row["high_watermark_lag"]) == (6 + 2, 1, 6 + 2)
    assert (row["partitions"], row["without_lag"], row["beyond_end"]) == (3, 0, 1)


def test_records_that_compaction_may_have_taken_are_no_exact_history(tmp_path: Path) -> None:
    records = {offset: [commit_record("g", "in-0", offset)] for offset in (4, 9)}
    forge(
        tmp_path, {0: "plain @4-4", 9: "plain @9-9"}, topic="__consumer_offsets", records=records, compacted=True,
        first_dirty=9, leader_epochs={0: 0},
    )  # fmt: skip
    (run_of_commits,) = history(tmp_path, "g")
    assert (run_of_commits["first_committed"], run_of_commits["last_committed"]) == (4, 9)
    assert not run_of_commits["exact"]
    assert "(earlier records may be missing)" in run("groups", "--group", "g", tmp_path).text


def test_topics_select_offsets_and_the_groups_that_have_any() -> None:
    everything, europe = groups_of(SAMPLES / "groups"), groups_of(SAMPLES / "groups", topic="orders-europe")
    assert set(europe) == {"classic-cooperative", "modern", "regex", "simple"} < set(everything)
    assert everything["simple"]["partitions"] == 3
    assert (europe["simple"]["partitions"], europe["simple"]["lag"]) == (1, 2)
    (alone,) = (SAMPLES / "groups").glob("*/__consumer_offsets-0")
    lags = {row["group"]: row["lag"] for row in groups_of(alone, topic="orders-europe", alone=True).values()}
    assert lags == dict.fromkeys(europe)  # the log of the topic is not among the files
    with pytest.raises(UsageError, match=r"no topic 'order'; did you mean orders\?"):
        groups_of(SAMPLES / "groups", topic="order")
    places = {event["committed_topic"] for event in history(SAMPLES / "groups", "simple", topic="orders-europe")}
    assert places == {"orders-europe"}


def test_a_share_group_shows_what_it_has_delivered() -> None:
    """As the lab's clients acknowledged: accept, release, reject, accept; then a second consumer accepted the rest."""
    sample = SAMPLES / "share-groups"
    states = "1 available (offsets 1; delivered once); 2 acknowledged (offsets 0, 3; delivered once); "
    states += "1 archived (offsets 2; delivered once)"
    shown = {
        (event["committed_topic"], event["committed_partition"]): (event["first_committed"], event["why"])
        for event in history(sample, "share")
        if event["event"] == "delivery"
    }
    assert shown == {
        ("orders", 0): (4, "6 acknowledged (offsets 4-9; delivered once)"),
        ("orders", 1): (0, states),
        ("orders", 2): (0, states),
    }
    deliveries = [event for event in history(sample, "share", partition="1") if event["event"] == "delivery"]
    assert [(event["committed_partition"], event["last_committed"], event["exact"]) for event in deliveries] == [
        (1, 3, True)
    ]
    assert "/__share_group_state-0/" in deliveries[0]["path"]
    text = " ".join(run("groups", "--quiet", "--group", "share", sample).text.split())
    assert "delivery state of orders-0: start offset 4, 6 acknowledged" in text
    altered = [event["why"] for event in history(sample, "share-altered") if event["event"] == "delivery"]
    assert altered == ["nothing delivered yet"]


def test_groups_of_components_are_recognized_and_say_what_happens_next(tmp_path: Path) -> None:
    row = groups_of(SAMPLES / "streams-group")["counting"]
    assert (row["component"], row["component_source"]) == ("Kafka Streams", "records")
    assert row["component_next"].startswith("its tasks read on at the committed offsets")
    words = ("groups", "--quiet", "--as-of", AS_OF)
    assert (
        "  belongs to Kafka Streams: application counting\n"
        in run(*words, "--group", "counting", SAMPLES / "streams-group").text
    )
    committed = {0: ("connect-s3", "in-0", 5), 1: ("shop", "shop-users-repartition-0", 7), 2: ("plain", "in-0", 1)}
    forge_offsets(tmp_path, "; ".join(f"plain @{offset} {at(offset)}" for offset in committed), committed)
    rows = groups_of(tmp_path)
    assert {name: (row["component"], row["component_source"]) for name, row in rows.items()} == {
        "connect-s3": ("Kafka Connect", "name"),
        "plain": (None, None),
        "shop": ("Kafka Streams", "name"),
    }
    assert run(*words, "--wide", tmp_path).text.count("looks like Kafka") == 2
    assert "looks like Kafka Streams: application shop\n" in run(*words, "--group", "shop", tmp_path).text
    sink = run(*words, "--group", "connect-s3", tmp_path).text
    assert "looks like Kafka Connect: sink connector s3\n  next: its tasks read on" in sink
    status = {0: [(b"commit-s3", b'{"tasks":2}')], 1: [(b"status-connector-s3", b'{"state":"PAUSED"}')]}
    forge(tmp_path, "plain @0; plain @1", topic="connect-status", records=status)
    sink = run(*words, "--group", "connect-s3", tmp_path).text
    assert "  connector s3: 2 tasks, last status PAUSED\n" in sink
    assert "next" not in run(*words, "--group", "plain", tmp_path).text


def test_a_group_that_is_not_there() -> None:
    with pytest.raises(
        UsageError, match=r"no record of the group 'modrn' in __consumer_offsets; did you mean modern\?"
    ):
        history(SAMPLES / "groups", "modrn")
    assert "add its log directory" in run("groups", SAMPLES / "groups" / "broker-1" / "orders-0", "--alone").err


def test_the_page_explains_every_event_and_cause() -> None:
    page = (ROOT / "docs" / "groups.md").read_text("utf-8")
    assert [name for name in (*GroupEventKind, *ResetCause) if f"| `{name}` |" not in page] == []


def test_a_group_on_the_mirror_has_the_checkpoints_of_mirror_maker() -> None:
    """Those that the formatter of MirrorMaker prints last."""
    target = ROOT / "tests" / "data" / "mirror" / "target"
    events = {
        group: [row for row in kforensics.groups(target, group=group).to_pylist() if row["event"] == "checkpoint"]
        for group in ("reports", "audit", "source-mm2")
    }
    ((reports,), (audit,), others) = events.values()
    names = ("committed_topic", "committed_partition", "first_committed", "last_committed")
    assert [reports[name] for name in names] == ["source.orders", 0, 9, 8]
    assert [audit[name] for name in names] == ["source.orders", 0, 18, 15]
    assert (others, Path(audit["path"]).parent.name, audit["offset"]) == ([], "source.checkpoints.internal-0", 3)
    text = run("groups", "--group", "audit", target).text
    assert "checkpoint of source.orders-0: 18 in cluster source is 15 here" in text
