"""Internal topics that an administrator gives more partitions, before and after the broker is restarted."""

import shutil
import time
from typing import Any

from lab.broker import make_cluster, running
from lab.driver import Driver, driving, records
from lab.errors import DriverError
from lab.places import SAMPLES
from lab.scenario import Scenario, copy_data, workspace, write_json
from lab.scenarios.hanging_tool import abort_hanging, find_hanging
from lab.scenarios.steps import open_producer

CONFIG = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1500",
    "log.index.size.max.bytes": "1024",
}
_NUMBERS = range(6)
_TIMEOUT_MS, _AFTER_TIMEOUT_SECONDS = 45_000, 66


def build(scenario: Scenario) -> None:
    """Leave transactions open, add partitions, restart, and wait until a coordinator would have ended them."""
    target = SAMPLES.parent / "tests" / "data" / "coordinator-growth"
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, config=scenario.config)
    cluster.format()
    shutil.rmtree(target, ignore_errors=True)
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        _open(driver)
        for topic in ("__transaction_state", "__consumer_offsets"):
            driver.call("add_partitions", name=topic, partitions=5)
        time.sleep(2)
        truth = {"grown": _state(driver)}
        copy_data(cluster, target / "grown")
        cluster.nodes[0].stop()
        cluster.nodes[0].start()
        time.sleep(_AFTER_TIMEOUT_SECONDS)
        truth["restarted"] = _state(driver) | {"hanging": find_hanging(cluster)}
        copy_data(cluster, target / "restarted")
        abort_hanging(cluster, "open", 5, 0)
        truth["aborted"] = _state(driver)
    write_json(target / "truth.json", truth | {"commands": driver.journal})


def _open(driver: Driver) -> None:
    driver.call("create_topic", name="done")
    driver.call("create_topic", name="open", partitions=len(_NUMBERS))
    for number in _NUMBERS:
        name = f"done-{number}"
        open_producer(driver, name, name)
        driver.call("begin", name=name)
        driver.send(name, "done", records(name, 2))
        driver.call("commit", name=name)
        group = f"group-{number}"
        driver.call("consumer", name=group, config={"group.id": group})
        driver.call("subscribe", name=group, topics=["done"])
        driver.call("poll", names=[group], milliseconds=1500)
        driver.call("commit_offset", name=group)
        driver.call("close_consumer", name=group)
    for number in _NUMBERS:
        name = f"open-{number}"
        open_producer(driver, name, name, **{"transaction.timeout.ms": str(_TIMEOUT_MS)})
        driver.call("begin", name=name)
        driver.send(name, "open", records(name, 2), partition=number)


def _state(driver: Driver) -> dict[str, Any]:
    """What the broker says of the open transactions, of their ids and of the groups."""
    ends = {}
    for number in _NUMBERS:
        place = {"topic": "open", "partition": number}
        ends[f"open-{number}"] = driver.ask("list_offset", **place, isolation="read_committed", spec="latest")
    return {
        "at_ms": int(time.time() * 1000),
        "last_stable_offsets": ends,
        "ids": {name: _known(driver, name) for name in ends},
        "groups": {f"group-{number}": driver.ask("group_offsets", group=f"group-{number}") for number in _NUMBERS},
    }


def _known(driver: Driver, name: str) -> str | None:
    """The state of an id; None if its coordinator does not know it."""
    try:
        state: str = driver.ask("describe_transaction", id=name)["state"]
    except DriverError:
        return None
    return state


SCENARIOS = [
    Scenario(
        name="coordinator-growth",
        kafka="4.4.0",
        shows="Internal topics with more partitions than before; transactions that no coordinator ends any more.",
        config=CONFIG,
        build=build,
    )
]
