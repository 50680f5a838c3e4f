"""Two unclean elections after which all replicas agree again, as if nothing had been lost."""

from lab.driver import Driver, records
from lab.scenario import Scenario, Stage
from lab.scenarios import replication
from lab.scenarios.steps import open_producer, small_segments

_LOSSY = ("lossy", "lossy-unread")
_TOPICS = (*_LOSSY, "lossless")
_ALLOWED = {"unclean.leader.election.enable": "true"}


def play(stage: Stage) -> None:
    """A replica that lags becomes leader; the old leader returns and truncates what it alone had."""
    driver = stage.driver
    _topics(stage)
    for topic in (*_TOPICS, "clean"):
        driver.send("p", topic, records(f"{topic} all", 3))
    replication.end(stage, 3, "kill")
    for topic in _TOPICS:
        replication.wait_for(driver, topic, leader=2)
    for topic in _LOSSY:
        for number in range(4):
            driver.send("p", topic, records(f"{topic} lost {number}", 2))
    _read(driver)
    replication.end(stage, 2, "kill")
    replication.start(stage, 3)
    for topic in _TOPICS:
        replication.wait_for(driver, topic, leader=3)
    open_producer(driver, "after")
    for topic in (*_TOPICS, "clean"):
        driver.send("after", topic, records(f"{topic} after the election", 3))
    replication.start(stage, 2)
    for topic in (*_TOPICS, "clean"):
        replication.wait_for(driver, topic, isr=3 if topic == "clean" else 2)
    for topic in (*_TOPICS, "clean"):
        driver.send("after", topic, records(f"{topic} all again", 2))


def _topics(stage: Stage) -> None:
    small = small_segments(stage.scenario.kafka, 600)
    for topic, assignment, configs in (
        ("lossy", [[2, 3]], {**_ALLOWED, **small}),
        ("lossy-unread", [[2, 3]], {**_ALLOWED, **small}),
        ("lossless", [[2, 3]], _ALLOWED),
        ("clean", [[2, 3, 1]], {}),
    ):
        stage.driver.call("create_topic", name=topic, assignment=assignment, configs=configs)
    open_producer(stage.driver, "p")


def _read(driver: Driver) -> None:
    """A group reads everything, and commits; another one reads the part that stays."""
    for name, group, offset in (("ahead", "readers", 9), ("behind", "slow-readers", 3)):
        driver.call("consumer", name=name, config={"group.id": group})
        driver.call("assign", name=name, topic="lossy", partition=0)
        driver.call("poll", names=[name], milliseconds=2000)
        driver.call("commit_offset", name=name, topic="lossy", partition=0, offset=offset, metadata="")
        driver.call("close_consumer", name=name)


SCENARIOS = [
    Scenario(
        name="unclean-election",
        kafka="4.4.0",
        shows=(
            "Three brokers after unclean elections: `lossy-0` and `lossy-unread-0` lost acknowledged records, and all"
            " replicas agree again. Left of them: an offset that a group committed, and truncated segments"
            " (`.deleted`). `lossless-0` had nothing to lose, `clean-0` elected cleanly."
        ),
        play=play,
        config=replication.CONFIG,
        nodes=3,
    )
]
