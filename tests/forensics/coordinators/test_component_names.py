"""What transactional ids and groups look like, by the naming rules of the components."""

from __future__ import annotations

import pytest

from kforensics.forensics.coordinators.component_names import COMPONENTS, group_naming, id_naming, workers_among
from kforensics.forensics.coordinators.consumer_groups.group_states import GroupState

UUID = "5e3b1f7a-93c2-4d0e-8f11-0a1b2c3d4e5f"
WORKERS = workers_among(["connect-cluster-etl", "connect-cluster-etl-eu", "connect-cluster-us-mm2", "connect-cluster-"])


@pytest.mark.parametrize(
    ("name", "component", "part"),
    [
        (f"shop-{UUID}-1", "Kafka Streams", f"thread 1 of application shop, process {UUID}"),
        ("shop-counts-0_3", "Kafka Streams", "task 0_3 of application shop-counts"),
        ("connect-cluster-etl", "Kafka Connect", "workers of group etl"),
        ("etl-jdbc-orders-2", "Kafka Connect", "task 2 of connector jdbc-orders, worker group etl"),
        ("etl-eu-jdbc-3-2", "Kafka Connect", "task 2 of connector jdbc-3, worker group etl-eu"),
        ("connect-cluster-us-mm2", "MirrorMaker 2", "workers of group us-mm2"),
        ("us-mm2-heartbeats-0", "MirrorMaker 2", "task 0 of connector heartbeats, worker group us-mm2"),
        ("eu-mm2-MirrorSourceConnector-0", "MirrorMaker 2", "task 0 of MirrorSourceConnector, worker group eu-mm2"),
        ("clicks-3-17", "Flink", "subtask 3 of the sink with the prefix clicks, number 17"),
        ("a-b-0-1-0", "Flink", "subtask 1 of the sink with the prefix a-b-0, number 0"),
    ],
)  # fmt: skip
def test_a_name_looks_like_the_component_whose_rule_it_follows(name: str, component: str, part: str) -> None:
    found = id_naming(name, WORKERS)
    assert found is not None
    assert (COMPONENTS[found.naming.component], found.part) == (component, part)


@pytest.mark.parametrize(
    "name",
    [
        *("", "payments", "payments-1", "payments-web-1", "tx-hang-0", "connect-cluster-", "0_3", "-3-17", "3-17"),
        *("day-2026-01-02", "clicks-32768-1", "clicks-3-017", "clicks-3-17-", "shop-0_03", f"shop-{UUID.upper()}-1"),
        *(f"shop-{UUID}", "etlx-jdbc-2", "etl-2", "clicks-\u0663-\u0661\u0667"),
    ],
)
def test_other_names_look_like_no_component(name: str) -> None:
    assert id_naming(name, WORKERS) is None


def test_a_task_of_connect_is_known_by_its_workers_only() -> None:
    assert id_naming("etl-jdbc-orders-2", ()) is None


def _classic(protocol_type: str = "consumer", protocol: str | None = "range", **members: str) -> GroupState:
    return GroupState("classic", members, 1, protocol_type, protocol)


SINK_TASKS = {"a": "connector-consumer-s3-0", "b": "connector-consumer-s3-1"}


@pytest.mark.parametrize(
    ("group", "state", "topics", "component", "source"),
    [
        ("shop", GroupState("streams", {}), (), "Kafka Streams", "records"),
        ("shop", _classic(protocol="stream"), (), "Kafka Streams", "records"),
        ("shop", None, ("orders", "shop-by-user-repartition"), "Kafka Streams", "name"),
        ("etl", _classic("connect", "sessioned"), (), "Kafka Connect", "records"),
        ("us-mm2", _classic("connect", "sessioned"), (), "MirrorMaker 2", "name"),
        ("connect-s3", _classic(**SINK_TASKS), (), "Kafka Connect", "records"),
        ("connect-s3", GroupState("consumer", SINK_TASKS), (), "Kafka Connect", "records"),
        ("connect-s3", _classic(a="console"), (), "Kafka Connect", "name"),
        ("connect-s3", None, (), "Kafka Connect", "name"),
    ],
)
def test_a_group_belongs_to_a_component_by_its_records_or_looks_like_it(
    group: str, state: GroupState | None, topics: tuple[str, ...], component: str, source: str
) -> None:
    found = group_naming(group, state, topics)
    assert found is not None
    assert (COMPONENTS[found.component], found.source) == (component, source)


@pytest.mark.parametrize("group", ["shop", "connect", "connect-", "connect-cluster", "us-mm2", "-mm2", ""])
def test_other_groups_look_like_no_component(group: str) -> None:
    assert group_naming(group, None, ("orders", "shop-orders", "other-repartition")) is None


def test_a_removed_group_starts_without_offsets() -> None:
    state = GroupState("streams", {}, removed_in=(0, 0))
    found = group_naming("shop", state, ())
    assert found is not None
    assert found.next_step == "it starts without committed offsets, since the group was removed"
