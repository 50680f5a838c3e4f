"""Markers that no coordinator sent, and transactions that only their coordinator can judge."""

from lab.driver import Driver, record, records
from lab.errors import LabError
from lab.scenario import Scenario, Stage
from lab.scenarios.hanging_tool import find_hanging
from lab.scenarios.steps import open_producer, set_broker, transaction
from lab.scenarios.transactions import producer_of
from lab.truth import wait_for_markers

_CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.max.timeout.ms": "7200000",
}
# Of client clocks that were never set: 1 January 2020.
_LONG_AGO = 1_577_836_800_000
_SHOWS = (
    "markers that no coordinator sent: an ABORT in one of two partitions before the coordinator commits (`aborted`),"
    " and a COMMIT before it aborts (`committed`); a late write that an administrator ended at once (`repaired`), and"
    " one that hangs when the broker is stopped (`late`); a transaction with records of 2020 (`backdated`), and an open"
    " one with a timeout of an hour (`patient`). `truth.json` also says what `kafka-transactions.sh find-hanging`"
    " listed (`hanging`)"
)


def play(stage: Stage) -> None:
    """One topic per situation, on one broker."""
    driver = stage.driver
    for topic, partitions in (
        ("aborted", 2), ("committed", 2), ("repaired", 1), ("backdated", 1), ("patient", 1), ("late", 1)
    ):  # fmt: skip
        driver.call("create_topic", name=topic, partitions=partitions)
    for topic, forged, decided in (("aborted", "abort", "commit"), ("committed", "commit", "abort")):
        open_producer(driver, topic, f"{topic}-app")
        for outcome in ("commit", "abort"):
            _split(driver, topic, None, outcome)
        _split(driver, topic, forged, decided)
        _split(driver, topic, None, "commit")
    _backdated(driver)
    _patient(driver)
    _late_writes(stage)
    wait_for_markers(driver)
    stage.extra_truth = {"hanging": find_hanging(stage.cluster)}


def _split(driver: Driver, topic: str, forged: str | None, decided: str) -> None:
    """A transaction over two partitions, with a marker in the first before its coordinator decides."""
    driver.call("begin", name=topic)
    for partition in (0, 1):
        driver.send(topic, topic, records(f"{forged} {decided}", 2), partition)
    if forged is not None:
        _forge(driver, topic, forged)
    driver.call(decided, name=topic)
    wait_for_markers(driver)


def _forge(driver: Driver, topic: str, outcome: str) -> None:
    (producer,) = driver.ask("describe_producers", topic=topic)
    names = ("producer_id", "producer_epoch", "coordinator_epoch")
    errors = driver.call("raw_marker", topic=topic, outcome=outcome, **{name: producer[name] for name in names})
    driver.journal[-1] += f"  -> {errors}"
    if errors != ["NONE"]:
        raise LabError(f"The marker was refused: {errors}")


def _backdated(driver: Driver) -> None:
    open_producer(driver, "backdated", "backdated-app")
    for timestamp in (_LONG_AGO, None):
        driver.call("begin", name="backdated")
        driver.send("backdated", "backdated", [record("key", "value", timestamp)])
        driver.call("commit", name="backdated")


def _patient(driver: Driver) -> None:
    """As long as Flink keeps transactions open: from one checkpoint to the next."""
    open_producer(driver, "patient", "patient-app", transaction_timeout_ms="3600000")
    transaction(driver, "patient", "patient", "commit", 1)
    driver.call("begin", name="patient")
    driver.send("patient", "patient", records("open", 2))
    open_producer(driver, "plain")
    driver.send("plain", "patient", records("behind it", 2))


def _late_writes(stage: Stage) -> None:
    """Verification is a setting of the broker; nothing follows the last late write before the broker is stopped."""
    driver = stage.driver
    for topic in ("repaired", "late"):
        open_producer(driver, topic, f"{topic}-app")
        transaction(driver, topic, topic, "commit", 2)
    wait_for_markers(driver)
    set_broker(stage, transaction_partition_verification_enable="false")
    for topic in ("repaired", "late"):
        _write_late(stage, topic)
        if topic == "repaired":
            _abort(driver, topic)
            # The sequences of the old one do not count the late write.
            open_producer(driver, "repaired again", "repaired-app")
            transaction(driver, "repaired again", topic, "commit", 1)
    set_broker(stage, transaction_partition_verification_enable="true")


def _write_late(stage: Stage, topic: str) -> None:
    producer = producer_of(stage.driver, f"{topic}-app")
    names = ("producer_id", "producer_epoch")
    errors = stage.driver.call(
        "raw_produce",
        topic=topic,
        transactional_id=f"{topic}-app",
        **{name: producer[name] for name in names},
        # Where every transaction has an epoch of its own (transaction.version 2) sequences start again at 0.
        sequence=0 if stage.scenario.name.endswith("v2") else 2,
        records=records("late", 2),
    )
    stage.note(f"  -> {errors}")


def _abort(driver: Driver, topic: str) -> None:
    """What ``kafka-transactions.sh abort`` does."""
    (stuck,) = driver.ask("describe_producers", topic=topic)
    names = ("producer_id", "producer_epoch", "coordinator_epoch")
    driver.call("abort_hanging", topic=topic, **{name: stuck[name] for name in names})


SCENARIOS = [
    Scenario(
        name=f"forged-markers-v{version}",
        kafka=kafka,
        shows=f"transaction.version {version}: {_SHOWS}.",
        play=play,
        config=_CONFIG,
        format_options=("--feature", f"transaction.version={version}") if version else (),
    )
    for version, kafka in ((2, "4.4.0"), (1, "4.4.0"), (0, "3.9.1"))
]
