"""Steps that several scenarios share."""

import re

from lab.driver import Driver, records
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


def set_broker(stage: Stage, **config: str | None) -> None:
    """Change broker settings while it runs; underscores stand for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    stage.driver.call("alter_config", type="BROKER", name="", configs=settings)
