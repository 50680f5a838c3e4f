"""Topics that are switched to older message formats and back, which 2.8 still allows."""

from lab.driver import Driver, record
from lab.legacy import build_legacy
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer

_TIME = 1_600_000_000_000
_SEGMENT = {"segment.bytes": "3500", "segment.index.bytes": "1024", "index.interval.bytes": "128"}


def play(stage: Stage) -> None:
    """2.8, 0.10, 0.9, 2.8 with and without an election in between, and a topic that stays behind."""
    driver = stage.driver
    open_producer(driver, "p", enable_idempotence="false", acks="1")
    for topic in ("switched", "switched-and-elected", "left-behind", "never-switched"):
        driver.call("create_topic", name=topic, configs=_SEGMENT)
        _write(driver, topic, "as created")
    for version in ("0.10.0", "0.9.0", "2.8"):
        _switch(driver, "switched", version)
    for version in ("0.10.0", "0.9.0"):
        _switch(driver, "switched-and-elected", version)
    _switch(driver, "left-behind", "0.10.0")
    stage.restart()
    for topic in ("switched", "never-switched"):
        _write(driver, topic, "after the restart")
    _switch(driver, "switched-and-elected", "2.8")


def _switch(driver: Driver, topic: str, version: str) -> None:
    driver.call("alter_config", type="TOPIC", name=topic, configs={"message.format.version": version})
    driver.call("pause", milliseconds=1000)  # the broker learns of it from ZooKeeper
    _write(driver, topic, version)


def _write(driver: Driver, topic: str, text: str) -> None:
    for number in range(3):
        driver.send("p", topic, [record(f"k{key}", f"{text} {number} {key}", _TIME + key) for key in range(2)])


SCENARIOS = [
    Scenario(
        name="format-downgrade",
        kafka="2.8.2",
        shows=(
            "Topics switched from message format 2 to 0.10, to 0.9 and back, so that the broker forgets the leader"
            " epochs before: `leader-epoch-checkpoint` begins after the last old batch, or is gone."
        ),
        play=play,
        build=build_legacy,
    )
]
