"""What healthy producers write that looks like a fault, and many equal faults of one kind."""

import json
from typing import Any

from lab.driver import Driver, record
from lab.errors import LabError
from lab.places import SAMPLES
from lab.scenario import Scenario, Stage, build_usual, write_json
from lab.scenarios.steps import open_producer

_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
_WITHOUT_IDEMPOTENCE = {"enable_idempotence": "false", "acks": "1"}
# States of a counter, each written again so many records later.
_STATES = 5632
_STATES_OF_A_BATCH = 512
_NO_TIME = -1
_HEARTBEATS = 5
_SECONDS_BETWEEN = 15.5
# Five more than are reported one by one.
_PRODUCERS = 1005


def build(scenario: Scenario) -> None:
    """Play it as usual, and leave the many producers out of what the broker said."""
    build_usual(scenario)
    path = SAMPLES / scenario.name / "truth.json"
    truth = json.loads(path.read_text("utf-8"))
    truth["topics"]["unknown-producers"]["0"]["producers"] = None
    write_json(path, truth)


def play(stage: Stage) -> None:
    """One topic per look-alike."""
    driver = stage.driver
    for topic, configs in (("states", {}), ("unknown-producers", {}), ("heartbeats", _APPEND_TIME)):
        driver.call("create_topic", name=topic, configs=configs)
    _states(driver)
    _unknown_producers(driver)
    _heartbeats(driver)


def _states(driver: Driver) -> None:
    """Short values without key, producer id and timestamp, as programs of other languages may write them."""
    for _ in range(2):
        for first in range(0, _STATES, _STATES_OF_A_BATCH):
            batch = [record(None, f"{number}", _NO_TIME) for number in range(first, first + _STATES_OF_A_BATCH)]
            _raw(driver, "states", -1, -1, batch, compression="gzip")
    driver.journal.append(f"raw_produce topic=states: {_STATES} values without a timestamp, twice, in equal batches")


def _unknown_producers(driver: Driver) -> None:
    """Producers whose first batches a broker takes, although their sequence is not 0."""
    for producer_id in range(9000, 9000 + _PRODUCERS):
        _raw(driver, "unknown-producers", producer_id, 7, [record(None, f"{producer_id}")])
    driver.journal.append(f"raw_produce topic=unknown-producers sequence=7: a batch of each of {_PRODUCERS} producers")


def _raw(driver: Driver, topic: str, producer_id: int, sequence: int, batch: list[dict[str, Any]], **more: str) -> None:
    errors = driver.ask(
        "raw_produce", topic=topic, transactional=False, producer_id=producer_id, producer_epoch=min(producer_id, 0),
        sequence=sequence, records=batch, **more,
    )  # fmt: skip
    if errors != ["NONE"]:
        raise LabError(f"The batch was refused: {errors}")


def _heartbeats(driver: Driver) -> None:
    """The same two records again and again; as late as a client retries a batch whose answer was lost."""
    open_producer(driver, "heart", **_WITHOUT_IDEMPOTENCE)
    for _ in range(_HEARTBEATS):
        driver.send("heart", "heartbeats", [record("service", "alive")] * 2)
        driver.call("pause", milliseconds=int(_SECONDS_BETWEEN * 1000))


SCENARIOS = [
    Scenario(
        name="look-alikes",
        kafka="4.4.0",
        shows=(
            "Repetitions that are no retries: short values without a timestamp, 5,632 offsets apart (`states`), and"
            " two equal heartbeats every 15.5 s, in LogAppendTime (`heartbeats`); and 1,005 producers whose first"
            " sequence is not 0 (`unknown-producers`)."
        ),
        play=play,
        records=False,
        build=build,
    )
]
