"""A broker that forgets idle producers within seconds, and says so in its ``server.properties`` alone."""

import shutil
import time

from lab.driver import Driver, records
from lab.places import SAMPLES
from lab.scenario import Scenario, Stage, build_usual, workspace
from lab.scenarios.steps import open_producer, raw_batch, small_segments, transaction
from lab.truth import wait_for_markers

_CONFIG = {"producer.id.expiration.ms": "4000", "producer.id.expiration.check.interval.ms": "1000"}
_ROUNDS = 18
_EARLY = ("early one", "early two", "returns")
_TOPICS = ("idle", "busy")


def build(scenario: Scenario) -> None:
    """Play it as usual, and keep the settings of the broker beside its files."""
    build_usual(scenario)
    shutil.copyfile(workspace(scenario.name) / "broker-1.properties", SAMPLES / scenario.name / "server.properties")


def play(stage: Stage) -> None:
    """Producers that fall silent one after the other, beside one that writes every second and so rolls segments."""
    driver, start = stage.driver, int(time.time() * 1000)
    for topic in (*_TOPICS, "gap"):
        driver.call("create_topic", name=topic, configs=small_segments(stage.scenario.kafka, 500))
    open_producer(driver, "steady")
    open_producer(driver, "also steady")
    for name in _EARLY:
        open_producer(driver, name)
        for number in range(2):
            driver.send(name, "idle", records(f"{name} {number}", 2))
    _transactions(driver)
    for sequence in (0, 3):
        raw_batch(driver, "gap", 7300, sequence, start)
    for number in range(_ROUNDS):
        _round(driver, number)
    raw_batch(driver, "gap", 7300, 9, int(time.time() * 1000))
    driver.send("steady", "gap", records("afterwards", 2, 60))


def _transactions(driver: Driver) -> None:
    """One producer whose transactions have ended, and one whose transaction stays open: that one is never forgotten."""
    open_producer(driver, "ended", "ended")
    transaction(driver, "ended", "idle", "commit", 2)
    transaction(driver, "ended", "idle", "abort", 1)
    open_producer(driver, "open", "open", transaction_timeout_ms="900000")
    driver.call("begin", name="open")
    driver.send("open", "idle", records("open", 2))
    wait_for_markers(driver)


def _round(driver: Driver, number: int) -> None:
    for topic in _TOPICS:
        driver.send("steady", topic, records(f"steady {number}", 2, 60))
    driver.send("also steady", "busy", records(f"also steady {number}", 2, 60))
    if number == _ROUNDS // 2:
        driver.send("returns", "idle", records("returns", 2))
    driver.call("pause", milliseconds=1000)


SCENARIOS = [
    Scenario(
        name="producer-expiry",
        kafka="4.4.0",
        shows=(
            "Producers that were idle for seconds and forgotten, by a broker with `producer.id.expiration.ms` of 4 s:"
            " snapshots without them, one that returned with its next sequence, one with a gap. `server.properties`"
            " lies beside the files."
        ),
        play=play,
        config=_CONFIG,
        build=build,
    )
]
