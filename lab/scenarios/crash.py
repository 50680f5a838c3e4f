"""A broker that dies in mid-write: its files as they lay there, and after the recovery of the next start."""

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from lab.broker import Cluster, Node, make_cluster, running
from lab.driver import Driver, driving, record, records
from lab.errors import DriverError, LabError
from lab.scenario import Scenario, keep, workspace
from lab.scenarios.compaction import wait_until_clean
from lab.scenarios.steps import open_producer, small_segments, transaction
from lab.truth import take_truth

_CLEANING_CONFIG = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "3600000"}
_SUFFIXES = {"crash-while-cleaning": ".log.cleaned", "crash-while-swapping": ".log.swap"}
_ROUNDS = 60
_WATCH_SECONDS = 60
_TORN_BYTES = 137
_IMPATIENT = {"delivery_timeout_ms": "1500", "request_timeout_ms": "1000", "linger_ms": "0"}
_BEFORE = "crash-before-recovery"
_AFTER = "crash-after-recovery"


def build(scenario: Scenario) -> None:
    """Two folders from one run: before and after the recovery."""
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, config=scenario.config)
    cluster.format()
    with running(cluster):
        with driving(cluster.bootstrap, folder / "driver.out") as driver:
            _write(scenario, driver)
            truth = take_truth(driver, scenario.kafka)
            _tear(cluster.node(1), driver)
            journal = driver.journal
        keep(replace(scenario, shows=_SHOWS_BEFORE), _BEFORE, cluster, journal, truth)
        _recover(scenario, cluster, journal)


def _write(scenario: Scenario, driver: Driver) -> None:
    small = small_segments(scenario.kafka, 40000)
    driver.call("create_topic", name="torn", configs=small)
    driver.call("create_topic", name="preallocated", configs={**small, "preallocate": "true"})
    driver.call("create_topic", name="rolled", configs=small_segments(scenario.kafka, 1000))
    driver.call("create_topic", name="open")
    open_producer(driver, "p")
    open_producer(driver, "t", "crash", transaction_timeout_ms="900000")
    for number in range(8):
        driver.send("p", "torn", records(f"torn {number}", 10, 100))
        driver.send("p", "preallocated", records(f"preallocated {number}", 3, 100))
        driver.send("p", "rolled", records(f"rolled {number}", 3, 100))
    transaction(driver, "t", "open", "commit", 2)
    transaction(driver, "t", "open", "abort", 2)
    driver.call("begin", name="t")
    for topic in ("open", "preallocated"):
        driver.send("t", topic, records("open", 2))


def _tear(node: Node, driver: Driver) -> None:
    """Let the kernel cut the next write short, as a full disk does, and kill the broker.

    A kill alone hardly ever tears a small write: the kernel finishes it. A limit on the size of files is met at an
    exact byte: the first part of the batch is on disk when the rest is refused.
    """
    process = node.java.process
    if process is None:
        raise LabError("The broker to be torn does not run.")
    size = (node.data / "torn-0" / f"{0:020}.log").stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + _TORN_BYTES, size + _TORN_BYTES))
    open_producer(driver, "last", **_IMPATIENT)
    driver.journal.append(f"limit the size of files to {_TORN_BYTES} bytes more than torn-0's log; send; SIGKILL")
    driver.refused("send", name="last", topic="torn", partition=0, records=records("torn at the end", 5, 100))
    node.kill()


def _recover(scenario: Scenario, cluster: Cluster, journal: list[str]) -> None:
    cluster.start()
    with driving(cluster.bootstrap, workspace(scenario.name) / "driver.out") as driver:
        truth = take_truth(driver, scenario.kafka)
        cluster.stop()
    journal = [*journal, "start; take the truth; stop (SIGTERM)"]
    keep(replace(scenario, shows=_SHOWS_AFTER), _AFTER, cluster, journal, truth)


def build_cleaning(scenario: Scenario) -> None:
    """Kill the broker at the moment the cleaner has files with the suffix the scenario is named for."""
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, config=scenario.config)
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        driver.call("create_topic", name="cleaning", configs=_compacted(scenario))
        open_producer(driver, "p", **_IMPATIENT)
        for number in range(2):
            _round(driver, number)
            wait_until_clean(cluster.node(1), "cleaning")
        truth = take_truth(driver, scenario.kafka)
        _catch(cluster.node(1), driver, _SUFFIXES[scenario.name])
    driver.journal.append(f"SIGKILL as soon as there is a file *{_SUFFIXES[scenario.name]}")
    keep(scenario, scenario.name, cluster, driver.journal, truth)


def _round(driver: Driver, number: int) -> None:
    for start in range(0, 90, 10):
        keys = range(start, start + 10, 1 + start % 20 // 10)
        driver.send("p", "cleaning", [record(f"k{key}", f"{number} ".ljust(40, ".")) for key in keys])


def _catch(node: Node, driver: Driver, suffix: str) -> None:
    """Give the cleaner work, round by round, until it has been caught."""
    with ThreadPoolExecutor(1) as watch:
        seen = watch.submit(_kill_at, node, suffix)
        for number in range(2, _ROUNDS):
            try:
                _round(driver, number)
            except DriverError:
                break
            if wait([seen], timeout=1).done:
                break
    if not seen.result():
        raise LabError("The log cleaner was never caught at work; run the scenario again.")


def _compacted(scenario: Scenario) -> dict[str, str]:
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"}
    return compact | small_segments(scenario.kafka, 4000)


def _kill_at(node: Node, suffix: str) -> bool:
    """Look for the files without a pause: the cleaner of so small a log is done within milliseconds."""
    folder = node.data / "cleaning-0"
    deadline = time.monotonic() + _WATCH_SECONDS
    while time.monotonic() < deadline:
        if any(entry.name.endswith(suffix) and entry.stat().st_size for entry in os.scandir(folder)):
            node.kill()
            return any(path.name.endswith(suffix) for path in folder.iterdir())
    return False


_SHOWS_BEFORE = (
    "A broker killed in mid-write (`truth.json` is from just before): a torn last batch, preallocated logs and"
    " indexes with zero tails, no snapshot at the end, stale checkpoints, an open transaction."
)
_SHOWS_AFTER = "The same after the next start has recovered the logs: what was torn is gone."
_SHOWS_CLEANING = (
    "A broker killed while the log cleaner wrote: `.cleaned` files."
    " `truth.json` is from before the last rounds of writing."
)
_SHOWS_SWAPPING = (
    "A broker killed while the log cleaner swapped its output in: `.swap` files beside the old generation."
)
SCENARIOS = [
    Scenario(name="crash", kafka="4.4.0", shows=_SHOWS_BEFORE, build=build),
    *(
        Scenario(name=name, kafka="4.4.0", shows=shows, config=_CLEANING_CONFIG, build=build_cleaning)
        for name, shows in (("crash-while-cleaning", _SHOWS_CLEANING), ("crash-while-swapping", _SHOWS_SWAPPING))
    ),
]
