"""``python -m lab.forecast.elections``: real unclean elections, and what each of them left.

Three brokers, the last one a controller that has no replica. A replica falls behind in partition after partition, the
leader is killed, and the replica that lags is elected. The log directories from before the election are kept.
"""

import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from lab.broker import Cluster, make_cluster, running
from lab.driver import Driver, driving, records
from lab.errors import DriverError
from lab.forecast.bases import CONFIG, DATA
from lab.forecast.offsets import LATEST, list_offsets
from lab.progress import say
from lab.scenario import workspace, write_json
from lab.scenarios import replication
from lab.scenarios.steps import open_producer, small_segments, transaction

RELEASE = "4.4.0"
PARTITIONS = 16
TOPIC = "lossy"
_DATE = (2026, 11, 23, 0, 0, 0)
_WAIT_SECONDS = 60
_LONG = {"transaction_timeout_ms": "2147483647"}


def main() -> int:
    """Hold the elections; returns the exit code."""
    folder = workspace("forecast-elections")
    cluster = make_cluster(folder, RELEASE, 3, CONFIG | replication.CONFIG)
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        _fall_behind(driver, cluster)
        before = {number: _ends(cluster, 2, number) for number in range(PARTITIONS)}
        cluster.node(2).kill()
        time.sleep(1)
        _keep(cluster)
        result = {"log_ends_of_leader": before, "left": _elected(driver, cluster)}
    write_json(DATA / "elections-4.4.0.json", result)
    say(f"{PARTITIONS} elections")
    return 0


def _fall_behind(driver: Driver, cluster: Cluster) -> None:
    """Write to both replicas, then to broker 2 alone, and more with each partition."""
    assignment = [[2, 3]] * PARTITIONS
    driver.call("create_topic", name=TOPIC, assignment=assignment, configs=small_segments(RELEASE, 900))
    open_producer(driver, "p", enable_idempotence="false", acks="all")
    open_producer(driver, "t", "tx", **_LONG)
    for number in range(PARTITIONS):
        driver.send("p", TOPIC, records(f"both {number}", 1 + number % 4), number)
        if number % 3 == 0:
            transaction(driver, "t", TOPIC, "commit", 2, partition=number)
    cluster.node(3).kill()
    for number in range(PARTITIONS):
        replication.wait_for(driver, TOPIC, number, leader=2, isr=1)
    for number in range(PARTITIONS):
        for step in range(number % 5):
            driver.send("p", TOPIC, records(f"alone {number} {step}", 2), number)
        for outcome in ("commit", "abort", "commit")[: number % 4]:
            transaction(driver, "t", TOPIC, outcome, 2, partition=number)
    for group, numbers in (("readers", range(0, PARTITIONS, 2)), ("slow-readers", range(0, PARTITIONS, 3))):
        driver.call("consumer", name=group, config={"group.id": group})
        for number in numbers:
            end = _ends(cluster, 2, number)
            offset = end if group == "readers" else min(end, 1)
            driver.call("assign", name=group, topic=TOPIC, partition=number)
            driver.call("commit_offset", name=group, topic=TOPIC, partition=number, offset=offset, metadata="")
        driver.call("close_consumer", name=group)
    time.sleep(2)


def _elected(driver: Driver, cluster: Cluster) -> dict[str, Any]:
    """Elect the replica that lags, let the old leader follow it, and return the log ends of both."""
    cluster.node(3).start()
    for number in range(PARTITIONS):
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                driver.call("elect_leader", topic=TOPIC, partition=number, type="UNCLEAN")
                break
            except DriverError:
                time.sleep(0.5)
        replication.wait_for(driver, TOPIC, number, leader=3)
    elected = {number: _ends(cluster, 3, number) for number in range(PARTITIONS)}
    cluster.node(2).start()
    for number in range(PARTITIONS):
        replication.wait_for(driver, TOPIC, number, isr=2)
    log = cluster.node(2).log.read_text(errors="replace")
    truncated = [line.rpartition("] ")[2] for line in log.splitlines() if "Truncating" in line and TOPIC in line]
    return {str(number): {"log_end": end} for number, end in elected.items()} | {"truncating": truncated[-64:]}


def _ends(cluster: Cluster, broker: int, number: int) -> int:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        error, offset = list_offsets(cluster.node(broker).port, [(TOPIC, number)], LATEST, committed=False)[
            TOPIC, number
        ]
        if not error or time.monotonic() > deadline:
            return offset
        time.sleep(0.2)


def _keep(cluster: Cluster) -> None:
    with zipfile.ZipFile(DATA / "elections-4.4.0.zip", "w", zipfile.ZIP_LZMA) as archive:
        for node in cluster.nodes:
            for path in sorted(node.data.rglob("*")):
                name = path.relative_to(node.data.parent).as_posix() + ("/" if path.is_dir() else "")
                content = b"" if path.is_dir() else _read(path)
                archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_LZMA)


def _read(path: Path) -> bytes:
    return path.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
