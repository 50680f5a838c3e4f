"""Transactions and producers whose data is gone: what a broker still knows of them, and what a restart forgets."""

import time
from collections.abc import Callable
from pathlib import Path

from lab.driver import Driver, records
from lab.errors import LabError
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer, small_segments, transaction

_CONFIG = {
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
}
_LONG = {"transaction_timeout_ms": "900000"}
_WAIT_SECONDS = 30
_DATA_END = 6
_HALFWAY, _ALL = 10, -1


def play(stage: Stage) -> None:
    """The same stories three times: before a kill, before an orderly restart, and after both."""
    driver = stage.driver
    open_producer(driver, "filler")
    _stories(stage, "killed", _open, _open_in_part, _open_in_nothing, _idempotent, _committed_late)
    stage.note("SIGKILL; start")
    stage.cluster.kill()
    stage.cluster.start()
    driver.call("commit", name="killed-committed-late")
    _stories(stage, "restarted", _open, _open_in_part, _open_in_nothing, _idempotent, _aborted)
    stage.restart()
    _stories(stage, "running", _open, _open_in_part, _open_in_nothing, _idempotent, _aborted, _ended, _committed_late)
    driver.call("commit", name="running-committed-late")


def play_running(stage: Stage) -> None:
    """Open transactions whose data is gone from a broker that was never stopped."""
    open_producer(stage.driver, "filler")
    _stories(stage, "running", _open, _open_in_part, _aborted)


def _stories(stage: Stage, when: str, *stories: Callable[[Driver, str], None]) -> None:
    """A topic for each: data up to offset 6, then other data, then DeleteRecords."""
    for story in stories:
        topic = f"{when}{story.__name__.replace('_', '-')}"
        stage.driver.call("create_topic", name=topic, configs=small_segments(stage.scenario.kafka, 400))
        story(stage.driver, topic)
    _wait_for_deletion(stage, when)


def _open(driver: Driver, topic: str, before: int = _HALFWAY) -> None:
    open_producer(driver, topic, topic, **_LONG)
    driver.call("begin", name=topic)
    _write(driver, topic)
    _delete(driver, topic, before)


def _open_in_part(driver: Driver, topic: str) -> None:
    _open(driver, topic, _DATA_END // 2)


def _open_in_nothing(driver: Driver, topic: str) -> None:
    _open(driver, topic, _ALL)


def _committed_late(driver: Driver, topic: str) -> None:
    _open(driver, topic)


def _aborted(driver: Driver, topic: str) -> None:
    """Of the transaction there is a marker, and an entry of the index that points below the log."""
    _open(driver, topic)
    driver.call("abort", name=topic)


def _ended(driver: Driver, topic: str) -> None:
    """Of an aborted transaction neither data nor marker is left, only its producer."""
    open_producer(driver, topic, topic)
    transaction(driver, topic, topic, "abort", 2, 2, 1)
    _delete(driver, topic, _HALFWAY)


def _idempotent(driver: Driver, topic: str) -> None:
    open_producer(driver, topic)
    _write(driver, topic)
    _delete(driver, topic, _HALFWAY)


def _write(driver: Driver, topic: str) -> None:
    for number in range(_DATA_END // 2):
        driver.send(topic, topic, records(f"own {number}", 2))


def _delete(driver: Driver, topic: str, before: int) -> None:
    for number in range(4):
        driver.send("filler", topic, records(f"other {number}", 3))
    driver.call("delete_records", topic=topic, partition=0, before=before)


def _wait_for_deletion(stage: Stage, when: str) -> None:
    """Until the segments below the log start are gone and the log starts stand in the checkpoint."""
    stage.note("wait until the segments below the log starts are gone")
    folders = list(stage.cluster.node(1).data.glob(f"{when}-*"))
    deadline = time.monotonic() + _WAIT_SECONDS
    while not all(_is_deleted(folder) for folder in folders):
        if time.monotonic() > deadline:
            raise LabError("The segments below the log starts were not deleted.")
        time.sleep(0.2)


def _is_deleted(folder: Path) -> bool:
    checkpoint = folder.parent / "log-start-offset-checkpoint"
    starts = dict(line.rsplit(" ", 1) for line in checkpoint.read_text().splitlines()[2:])
    start = int(starts.get(folder.name.replace("-0", " 0"), -1))
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    return start >= 0 and (len(bases) == 1 or bases[1] > start) and not list(folder.glob("*.deleted"))


SCENARIOS = [
    Scenario(
        name="ghosts",
        kafka="4.4.0",
        shows=(
            "DeleteRecords beyond open and ended transactions and idempotent producers: what is remembered of them"
            " while the broker runs (`running-…`), after an orderly restart (`restarted-…`) and after a kill"
            " (`killed-…`), which makes it forget producers and open transactions; markers whose transaction is gone."
        ),
        play=play,
        config=_CONFIG,
    ),
    Scenario(
        name="ghosts-3.9",
        kafka="3.9.1",
        shows=(
            "Three of the stories of `ghosts` by 3.9.1: where an open transaction begins below the log start offset,"
            " the last stable offset is that offset, and not the base offset of the batch it lies in, as since 4.0."
        ),
        play=play_running,
        config=_CONFIG,
    ),
]
