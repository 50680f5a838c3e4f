"""Records written twice: by retries whose first answer was lost, by applications that send again, by lost state."""

import time
from typing import Any

from lab.driver import Driver, record, records
from lab.lossy_proxy import LossyProxy, add_listener, losing_answers
from lab.scenario import Scenario, Stage
from lab.scenarios.record_contents import NEW_YEAR
from lab.scenarios.steps import open_producer, raw_batch, set_broker, transaction

_CONFIG = {"producer.id.expiration.check.interval.ms": "500"}
_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
_WITHOUT_IDEMPOTENCE = {"enable_idempotence": "false", "acks": "1"}
# Longer than the broker takes to forget a producer whose timestamps are of another year.
_PATIENT = {"retry_backoff_ms": "2000", "retry_backoff_max_ms": "2000"}


def play(stage: Stage) -> None:
    """One topic per way to write duplicates, and per way to prevent them."""
    driver = stage.driver
    _expired(stage)
    with losing_answers(stage.cluster.node(1)) as proxy:
        for topic, configs in (("retried", {}), ("retried-append-time", _APPEND_TIME)):
            driver.call("create_topic", name=topic, configs=configs)
            _retried(driver, proxy, topic, **_WITHOUT_IDEMPOTENCE)
            driver.call("create_topic", name=f"{topic}-idempotent", configs=configs)
            _retried(driver, proxy, f"{topic}-idempotent")
        _expired_by_timestamp(driver, proxy)
    _sent_again(driver)
    _sent_again_in_other_batches(driver)
    _sent_again_after_abort(driver)
    _transactions_in_append_time(driver)


def _expired(stage: Stage) -> None:
    """A broker that has forgotten a producer takes its batch a second time, and a later one with a gap before it."""
    driver = stage.driver
    driver.call("create_topic", name="expired")
    now = _now()
    for producer_id in (7100, 7200):
        for sequence in (0, 3):
            raw_batch(driver, "expired", producer_id, sequence, now)
    raw_batch(driver, "expired", 7100, 3, now)
    set_broker(stage, producer_id_expiration_ms="100")
    driver.call("pause", milliseconds=1500)
    set_broker(stage, producer_id_expiration_ms=None)
    raw_batch(driver, "expired", 7100, 3, now)
    raw_batch(driver, "expired", 7200, 9, now)


def _now() -> int:
    return int(time.time() * 1000)


def _retried(driver: Driver, proxy: LossyProxy, topic: str, **config: str) -> None:
    """Batches, one of them retried once and one twice, because the responses were lost."""
    open_producer(driver, topic, bootstrap_servers=proxy.address, **config)
    for number, losses in enumerate((0, 1, 2, 0)):
        _lose(driver, proxy, losses)
        driver.send(topic, topic, records(f"order {number}", 2))
    driver.call("close_producer", name=topic)


def _lose(driver: Driver, proxy: LossyProxy, count: int) -> None:
    if count:
        driver.journal.append(f"lose the answers to the next {count} produce requests")
        proxy.lose(count)


def _expired_by_timestamp(driver: Driver, proxy: LossyProxy) -> None:
    """An import of old data: its producer is forgotten between the write and the retry, idempotence or not."""
    driver.call("create_topic", name="import")
    open_producer(driver, "import", bootstrap_servers=proxy.address, **_PATIENT)
    for number, losses in enumerate((0, 1)):
        _lose(driver, proxy, losses)
        driver.send("import", "import", _old(f"import {number}"))
    driver.send("import", "import", records("now", 2))
    driver.call("close_producer", name="import")


def _old(prefix: str) -> list[dict[str, Any]]:
    return [record(f"{prefix} {number}", "of another year", NEW_YEAR + number) for number in range(3)]


def _sent_again(driver: Driver) -> None:
    """An application that is started again and sends what it does not know to have sent."""
    for topic, configs in (("sent-again", {}), ("sent-again-append-time", _APPEND_TIME)):
        driver.call("create_topic", name=topic, configs=configs)
        for start in range(2):
            name = f"{topic} {start}"
            open_producer(driver, name)
            driver.send(name, topic, _old("same"))
            driver.send(name, topic, records(f"start {start}", 2))
            driver.call("close_producer", name=name)


def _sent_again_in_other_batches(driver: Driver) -> None:
    """The same records, cut otherwise and compressed: a restore from a copy of the topic."""
    driver.call("create_topic", name="restored")
    now = _now()
    batch = [record(f"customer-{number}", f"balance {number}", now + number) for number in range(12)]
    open_producer(driver, "original")
    for start in range(0, 12, 4):
        driver.send("original", "restored", batch[start : start + 4])
    open_producer(driver, "restore", compression_type="lz4")
    for start, end in ((0, 5), (5, 12)):
        driver.send("restore", "restored", batch[start:end])


def _sent_again_after_abort(driver: Driver) -> None:
    """The first copy is aborted: consumers with read_committed see the records once."""
    driver.call("create_topic", name="sent-again-after-abort")
    for start, outcome in enumerate(("abort", "commit")):
        name = f"after abort {start}"
        open_producer(driver, name, "sent-again-after-abort")
        driver.call("begin", name=name)
        driver.send(name, "sent-again-after-abort", _old("same"))
        driver.call(outcome, name=name)
        driver.call("close_producer", name=name)


def _transactions_in_append_time(driver: Driver) -> None:
    """Markers and data stamped by the broker: committed, aborted, interleaved, open."""
    topic = "transactions-append-time"
    driver.call("create_topic", name=topic, configs=_APPEND_TIME)
    for name in ("one", "two"):
        open_producer(driver, name, f"append-time-{name}", transaction_timeout_ms="900000")
    transaction(driver, "one", topic, "commit", 2, 1)
    transaction(driver, "one", topic, "abort", 2)
    for name in ("one", "two"):
        driver.call("begin", name=name)
        driver.send(name, topic, _old(name))
    driver.call("abort", name="two")
    transaction(driver, "two", topic, "commit", 1)


SCENARIOS = [
    Scenario(
        name="duplicates",
        kafka="4.4.0",
        shows=(
            "Records written twice, in create time and LogAppendTime: by retries whose first answer was lost (and once"
            " only with idempotence), by an application started again, by a restore in other batches, after an abort,"
            " and with idempotence after the broker had forgotten the producer, by its age or by old timestamps;"
            " transactions in LogAppendTime."
        ),
        play=play,
        config=_CONFIG,
        prepare=add_listener,
    )
]
