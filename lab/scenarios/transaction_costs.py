"""What transactions cost: one client, 1, 2, 4 and 8 partitions in turn, timed by the client itself."""

import os

from lab.preloads import PRELOAD, preload
from lab.scenario import Scenario, Stage, build_usual

_PARTITIONS = (1, 2, 4, 8)
_ROUNDS = 30
# Every append waits for the disk; the way through the loopback interface is short beside that.
_CONFIG = {"log.flush.interval.messages": "1"}


def build(scenario: Scenario) -> None:
    """Play it with a disk that takes 5 ms for each file it flushes, which the load of the machine hardly changes."""
    os.environ.update(preload("slow_disk"))
    try:
        build_usual(scenario)
    finally:
        del os.environ[PRELOAD]


def play(stage: Stage) -> None:
    """Warm up under another id and topic, then measure; the times go into ``truth.json`` in microseconds."""
    driver = stage.driver
    for topic, rounds in (("warm-up", 5), ("timed", _ROUNDS)):
        driver.call("create_topic", name=topic, partitions=8, configs={"message.timestamp.type": "LogAppendTime"})
        config = {"transactional.id": topic}
        measured = driver.call("timed_transactions", topic=topic, partitions=_PARTITIONS, rounds=rounds, config=config)
    stage.extra_truth = {"measured_us": measured}


SCENARIOS = [
    Scenario(
        name="transaction-costs",
        kafka="4.4.0",
        shows=(
            "What transactions cost: 120 of them, one after the other, over 1, 2, 4 and 8 partitions in turn, on a"
            " broker that flushes every append to a slow disk (5 ms for each file). `truth.json` has what the client"
            " measured itself (`measured_us`): its first write in each transaction, the second one, the commit, and"
            " until a read_committed consumer had every record."
        ),
        play=play,
        build=build,
        config=_CONFIG,
        records=False,
    )
]
