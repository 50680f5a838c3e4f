"""``truth.json``: what the live broker reported just before it was stopped."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from lab.driver import Driver
from lab.errors import DriverError

ISOLATIONS = ("read_committed", "read_uncommitted")
_WAIT_SECONDS = 20
_UNRESOLVED = {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
# Internal topics, and topics whose records are too large to be worth repeating.
_WITHOUT_RECORDS = ("__", "blocks-")
_Answer = TypeVar("_Answer")


def take_truth(driver: Driver, kafka: str, *, records: bool = True, described: bool = False) -> dict[str, Any]:
    """Ask the broker for everything that a reader of its files has to find out again.

    Args:
        driver: clients connected to the broker.
        kafka: version of the broker.
        records: whether to read the records of topics that are not internal.
        described: whether to describe the groups, too: state, assignor and members.
    """
    wait_for_markers(driver)
    topics: dict[str, Any] = driver.ask("list_topics")
    truth: dict[str, Any] = {
        "kafka": kafka,
        "taken": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "topics": {name: _topic(driver, name, topic, records=records) for name, topic in topics.items()},
        "transactions": _transactions(driver),
        "groups": _groups(driver),
    }
    return truth | ({"described": _described(driver, truth["groups"])} if described else {})


def wait_for_markers(driver: Driver) -> None:
    """Wait for the markers of ended transactions, which are written after the client got its answer."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline and _UNRESOLVED & set(_states(driver).values()):
        time.sleep(0.2)


def _states(driver: Driver) -> dict[str, str]:
    return _known(partial(driver.ask, "list_transactions")) or {}


def _topic(driver: Driver, name: str, topic: dict[str, Any], *, records: bool) -> dict[str, Any]:
    wanted = records and not topic["internal"] and not name.startswith(_WITHOUT_RECORDS)
    return {
        str(partition["partition"]): _partition(driver, name, topic["topic_id"], partition, records=wanted)
        for partition in topic["partitions"]
    }


def _partition(driver: Driver, name: str, topic_id: str, partition: dict[str, Any], *, records: bool) -> dict[str, Any]:
    place = {"topic": name, "partition": partition["partition"]}
    truth: dict[str, Any] = {"topic_id": topic_id}
    truth |= {field: partition[field] for field in ("leader", "replicas", "isr")}
    if partition["leader"] < 0:
        return truth
    truth["earliest"] = driver.ask("list_offset", **place, spec="earliest")
    truth["latest"] = driver.ask("list_offset", **place, spec="latest")
    truth["latest_read_committed"] = driver.ask("list_offset", **place, spec="latest", isolation="read_committed")
    truth["producers"] = _known(partial(driver.ask, "describe_producers", **place))
    for isolation in ISOLATIONS if records else ():
        truth[isolation] = driver.ask("read", **place, isolation=isolation)
    return truth


def _transactions(driver: Driver) -> dict[str, Any]:
    return {each: driver.ask("describe_transaction", id=each) for each in _states(driver)}


def _groups(driver: Driver) -> dict[str, Any]:
    groups: dict[str, str] = _known(partial(driver.ask, "list_groups")) or {}
    return {
        group: {"type": kind, "offsets": _known(partial(driver.ask, "group_offsets", group=group))}
        for group, kind in groups.items()
    }


def _described(driver: Driver, groups: dict[str, Any]) -> dict[str, Any]:
    """State, type, assignor and members of each group that is no share group."""
    names = (name for name, group in groups.items() if group["type"] != "Share")
    return {name: driver.ask("describe_group", group=name) for name in names}


def _known(question: Callable[[], _Answer]) -> _Answer | None:
    """The answer, or null where the release cannot give one."""
    try:
        return question()
    except DriverError as error:
        if error.kind in {"UnsupportedVersionException", "GroupIdNotFoundException"}:
            return None
        raise
