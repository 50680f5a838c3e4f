"""Two clusters, and MirrorMaker 2 that copies topics with transactions from one to the other."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.broker import Cluster, JavaProcess, make_cluster, running, write_properties
from lab.components import mirror_jars
from lab.driver import Driver, driving, records
from lab.errors import DriverError, LabError
from lab.scenario import Scenario, keep, workspace
from lab.scenarios.steps import open_producer, transaction
from lab.truth import take_truth

_FOLDER = "../tests/data/mirror"
_ALIASES = ("source", "target")
_COPY_SECONDS = 90
# Topics of a single replica and few partitions, and nothing beyond what the scenario is about.
_SETTINGS = {
    **dict.fromkeys(
        (f"{name}.replication.factor" for name in ("offset.storage", "status.storage", "config.storage")), 1
    ),
    **dict.fromkeys((f"{name}.topic.replication.factor" for name in ("checkpoints", "heartbeats", "offset-syncs")), 1),
    "replication.factor": 1,
    "offset.storage.partitions": 1,
    "status.storage.partitions": 1,
    "emit.heartbeats.interval.seconds": 5,
    "emit.checkpoints.interval.seconds": 1,
    "refresh.topics.interval.seconds": 2,
    "refresh.groups.interval.seconds": 2,
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": 1,
    "sync.topic.acls.enabled": "false",
    "target->source.enabled": "false",
    "source->target.enabled": "true",
}


def build(scenario: Scenario) -> None:
    """Write the log directories of both clusters, each with what its consumers received."""
    with _started(scenario, "source") as source, _started(scenario, "target") as target:
        _copy(scenario, source, target)


@contextmanager
def _started(scenario: Scenario, alias: str) -> Iterator[Cluster]:
    """A running cluster; a second one is made when the ports of the first are in use."""
    cluster = make_cluster(workspace(f"{scenario.name}-{alias}"), scenario.kafka)
    cluster.format()
    with running(cluster):
        yield cluster


def _copy(scenario: Scenario, source: Cluster, target: Cluster) -> None:
    with _drivers(source, target) as (driver, reader):
        _play(driver, reader, lambda topics, flush_ms: _mirroring(source, target, topics, flush_ms))
        truths = [take_truth(each, scenario.kafka) for each in (driver, reader)]
        source.stop()
        target.stop()
    for alias, cluster, each, truth in zip(_ALIASES, (source, target), (driver, reader), truths, strict=True):
        keep(scenario, f"{_FOLDER}/{alias}", cluster, each.journal, truth)


@contextmanager
def _drivers(source: Cluster, target: Cluster) -> Iterator[tuple[Driver, Driver]]:
    folders = [cluster.nodes[0].folder / "driver.out" for cluster in (source, target)]
    with driving(source.bootstrap, folders[0]) as driver, driving(target.bootstrap, folders[1]) as reader:
        yield driver, reader


def _play(driver: Driver, reader: Driver, start: Callable[[str, int], JavaProcess]) -> None:
    for topic in ("twice", "orders"):
        driver.call("create_topic", name=topic)
    open_producer(driver, "plain")
    for name in ("tx", "open", "split"):
        open_producer(driver, name, f"{name}-id")
    driver.send("plain", "twice", records("twice", 5))
    # It is killed before it commits its offsets, so the next one copies everything again.
    maker = start("twice", 600_000)
    try:
        _wait(reader, "twice", 5)
    finally:
        maker.end(signal.SIGKILL)
    _write_orders(driver)
    _commit(driver, "reports", 3)
    maker = start("twice,orders", 1000)
    try:
        _wait(reader, "twice", 10)
        _wait(reader, "orders", 15)
        _wait(reader, "checkpoints.internal", 1)
        _commit(driver, "reports", 9)
        _commit(driver, "audit", 18)
        _wait(reader, "checkpoints.internal", 3)
        for name in ("open", "split"):
            driver.call("begin", name=name)
            driver.send(name, "orders", records(name, 2))
        transaction(driver, "tx", "orders", "commit", 2)
        _wait(reader, "orders", 21)
        time.sleep(3)  # its offsets are committed, and those of the groups synchronized
    finally:
        maker.end()
    _commit(driver, "reports", 20)
    driver.send("open", "orders", records("open late", 2))
    driver.send("split", "orders", records("split late", 2))
    driver.call("commit", name="split")
    driver.send("plain", "orders", records("after", 2))


def _commit(driver: Driver, group: str, offset: int) -> None:
    """Commit an offset of a group, as a consumer without members does."""
    driver.call("consumer", name=group, config={"group.id": group})
    driver.call("commit_offset", name=group, topic="orders", partition=0, offset=offset, metadata=f"up to {offset}")
    driver.call("close_consumer", name=group)


def _write_orders(driver: Driver) -> None:
    driver.send("plain", "orders", records("first", 4))
    transaction(driver, "tx", "orders", "commit", 3)
    transaction(driver, "tx", "orders", "abort", 2)
    driver.send("plain", "orders", records("middle", 3))
    transaction(driver, "tx", "orders", "abort", 1, 2)


def _mirroring(source: Cluster, target: Cluster, topics: str, flush_ms: int) -> JavaProcess:
    """Start MirrorMaker 2 of the newest release that is published."""
    folder = target.nodes[0].folder
    servers = {
        f"{alias}.bootstrap.servers": each.bootstrap for alias, each in zip(_ALIASES, (source, target), strict=True)
    }
    settings = {
        "clusters": ",".join(_ALIASES),
        **servers,
        **_SETTINGS,
        "source->target.topics": topics,
        "offset.flush.interval.ms": flush_ms,
    }
    properties = write_properties(folder / f"mirror-maker-{flush_ms}.properties", settings)
    maker = JavaProcess(mirror_jars(), folder / f"mirror-maker-{flush_ms}.out")
    maker.start("org.apache.kafka.connect.mirror.MirrorMaker", str(properties))
    return maker


def _wait(reader: Driver, topic: str, end: int) -> None:
    """Wait until the mirror of a topic, or the topic of checkpoints, ends at an offset."""
    deadline = time.monotonic() + _COPY_SECONDS
    while _end(reader, topic) != end:
        if time.monotonic() > deadline:
            raise LabError(f"The mirror of {topic} ends at {_end(reader, topic)}, not at {end}.")
        time.sleep(0.5)


def _end(reader: Driver, topic: str) -> int | None:
    try:
        end: int = reader.ask("list_offset", topic=f"source.{topic}", partition=0, spec="latest")
    except DriverError:
        return None
    return end


_SHOWS = (
    "a topic and its mirror by MirrorMaker 2: committed and aborted transactions as plain records, one that is open,"
    " one that was committed after the copy, records that are not copied yet; a topic that was copied twice;"
    " checkpoints of two groups, one of which committed once more after the copy; and heartbeats"
)
SCENARIOS = [Scenario(name="mirror", kafka="4.4.0", shows=_SHOWS, build=build)]
