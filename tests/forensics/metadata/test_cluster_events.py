"""Events of clusters, compared with what Kafka's own tool prints of their metadata logs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kforensics
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import forge
from tests.kafka_dump.imitation import golden_runs

LOG = "broker-1/__cluster_metadata-0/00000000000000000000.log"
RECORD = re.compile(r"CreateTime: (\d+).* payload: (\{.*\})")
STARTS = {"REGISTER_BROKER_RECORD": ("broker-start", "brokerId")}
STARTS["UNREGISTER_BROKER_RECORD"] = ("broker-removed", "brokerId")
STARTS["REGISTER_CONTROLLER_RECORD"] = ("controller-start", "controllerId")
FENCING = {-1: "broker-active", 1: "broker-fenced"}
Seen = Counter[tuple[int, str, int | None]]


def _printed(sample: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield time, type and fields of the records that kafka-dump-log 4.3.1 prints of a metadata log."""
    runs = golden_runs(SAMPLES / "golden" / f"{sample}.json.xz")
    wanted = ("--files", LOG, "--cluster-metadata-decoder")
    (run,) = (run for run in runs if run.tool == "4.3.1" and run.arguments == wanted)
    for time, payload in RECORD.findall(run.stdout):
        record = json.loads(payload)
        yield int(time), record["type"], record["data"]


def _expected(sample: str) -> Seen:
    expected: Seen = Counter()
    for time, kind, data in _printed(sample):
        if kind in STARTS:
            name, field = STARTS[kind]
            expected[time, name, data[field]] += 1
        elif kind == "BROKER_REGISTRATION_CHANGE_RECORD":
            shutdown = "broker-shutdown" if data.get("inControlledShutdown") == 1 else None
            if change := FENCING.get(data.get("fenced", 0), shutdown):  # otherwise its log directories have changed
                expected[time, change, data["brokerId"]] += 1
        elif kind == "PARTITION_CHANGE_RECORD" and "leader" in data:
            is_unclean = data.get("leaderRecoveryState") == 1
            name = "no-leader" if data["leader"] < 0 else "unclean-election" if is_unclean else "election"
            expected[time, name, None if data["leader"] < 0 else data["leader"]] += 1
        elif kind == "FEATURE_LEVEL_RECORD":
            expected[time, f"feature {data['name']} {data['featureLevel']}", None] += 1
        elif kind == "PRODUCER_IDS_RECORD":
            expected[time, f"producer-ids {data['nextProducerId']}", data["brokerId"]] += 1
    return expected


@pytest.mark.parametrize("sample", ["unclean-election", "replication", "transactions-v2"])
def test_events_are_those_of_the_metadata_log(sample: str) -> None:
    """Elections are counted by partition."""
    seen: Seen = Counter()
    rows = kforensics.audit(SAMPLES / sample / LOG.partition("/")[0]).tables["cluster_events"].to_pylist()
    for row in rows:
        kind = row["kind"]
        if row["topic"] != "__cluster_metadata" or kind == "controller-election":
            continue
        if kind == "feature":
            kind = f"feature {row['name']} {row['value']}"
        elif kind == "producer-ids":
            kind = f"producer-ids {row['value']}"
        seen[row["timestamp"], kind, row["node_id"]] += row["partitions"] or 1
    assert seen == _expected(sample)
    assert len(seen) > 5


def test_a_change_of_a_feature_has_its_earlier_level_from_the_snapshot() -> None:
    """The sample's log begins at a snapshot; then transaction.version is lowered from 2 to 1."""
    rows = kforensics.audit(SAMPLES / "cluster-metadata").tables["cluster_events"].to_pylist()
    (feature,) = (row for row in rows if row["kind"] == "feature")
    assert (feature["name"], feature["value"], feature["previous"]) == ("transaction.version", 1, 2)
    assert all(row["timestamp"] is not None for row in rows)


def test_leader_epochs_of_a_log_are_events(tmp_path: Path) -> None:
    """Of its first batch in the log; the epoch with which the log begins is no event."""
    batches = "D 1 0 0-1 @0-1; D 1 0 2-3 @2-3; D 1 0 4-5 @4-5"
    forge(tmp_path, batches, leader_epochs={0: 3, 2: 5})
    (event,) = kforensics.audit(tmp_path).tables["cluster_events"].to_pylist()
    assert (event["kind"], event["value"], event["offset"]) == ("leader-epoch", 5, 2)
    assert (event["timestamp"], event["partitions"], event["topic"]) == (NOW + 2, 1, "t")


def test_damage_has_the_newest_time_of_its_segment(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-1 @0-1; D 1 0 2-3 @2-3; D 1 0 4-5 @4-5")
    log = folder / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-7])
    events = kforensics.audit(tmp_path).tables["cluster_events"].to_pylist()
    (damage,) = kforensics.open(tmp_path).damage.to_arrow().to_pylist()
    (event,) = events
    assert (event["kind"], event["name"], event["position"]) == ("damage", damage["reason"], damage["start"])
    assert (event["timestamp"], event["value"]) == (NOW + 2, damage["end"] - damage["start"])
