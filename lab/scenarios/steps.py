"""Steps that several scenarios share."""

import re

from lab.driver import Driver, record, records
from lab.scenario import Stage


def small_segments(kafka: str, size: int) -> dict[str, str]:
    """Topic settings for tiny segments with dense indexes; 4.x forbids ``segment.bytes`` below 1 MB."""
    setting = "internal.segment.bytes" if re.match(r"[4-9]\.", kafka) else "segment.bytes"
    return {setting: str(size), "segment.index.bytes": "1024", "index.interval.bytes": "128"}


def open_producer(driver: Driver, name: str, transactional_id: str | None = None, **config: str) -> None:
    """A producer; with a transactional id it is ready to begin. Underscores in settings stand for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    if transactional_id is None:
        driver.call("producer", name=name, config=settings)
        return
    driver.call("producer", name=name, config={"transactional.id": transactional_id, **settings})
    driver.call("init_transactions", name=name)


def transaction(driver: Driver, name: str, topic: str, outcome: str, *batches: int, partition: int = 0) -> None:
    """One transaction of so many batches with so many records each, ended by ``commit`` or ``abort``."""
    driver.call("begin", name=name)
    for number, count in enumerate(batches):
        driver.send(name, topic, records(f"{name} {outcome} {number}", count), partition)
    driver.call(outcome, name=name)


def raw_batch(driver: Driver, topic: str, producer_id: int, sequence: int, now: int) -> None:
    """Three records of an idempotent producer as no client would send them; equal calls send equal records."""
    batch = [record(f"{producer_id}", f"{number}", now + number) for number in range(sequence, sequence + 3)]
    errors = driver.call(
        "raw_produce", topic=topic, transactional=False, producer_id=producer_id, producer_epoch=0, sequence=sequence,
        records=batch,
    )  # fmt: skip
    driver.journal[-1] += f"  -> {errors}"


def set_broker(stage: Stage, **config: str | None) -> None:
    """Change broker settings while it runs; underscores stand for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    stage.driver.call("alter_config", type="BROKER", name="", configs=settings)
