"""Compacted topics after several passes of the log cleaner."""

import time
from collections.abc import Callable

from lab.broker import Node
from lab.driver import Driver, record
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer, small_segments

_CONFIG = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.threads": "1",
    "log.cleaner.delete.retention.ms": "86400000",
}
_SEGMENT = 1200
_PASS_SECONDS = 20
_DAY = "86400000"


def play(stage: Stage) -> None:
    """Rounds of writing and cleaning; between two rounds the cleaner comes to rest."""
    driver = stage.driver
    topics = _create_topics(stage)
    _open_producers(driver)
    for round_number in range(4):
        for write in (_plain, _compressed, _tombstones, _transactional, _emptied):
            write(driver, round_number)
        for topic in topics:
            _fill_active_segment(driver, topic, round_number)
        stage.note(f"wait for the cleaner, round {round_number}")
        for topic in topics:
            wait_until_clean(stage.cluster.node(1), topic)
    _open_transaction(driver)


def _create_topics(stage: Stage) -> list[str]:
    extras: dict[str, dict[str, str]] = {
        "compact": {},
        "compact-gzip": {},
        "compact-snappy": {},
        "compact-lz4": {},
        "compact-zstd": {},
        "compact-append-time": {"message.timestamp.type": "LogAppendTime"},
        "horizon-kept": {"delete.retention.ms": _DAY},
        "horizon-passed": {"delete.retention.ms": "500"},
        "compact-transactional": {"delete.retention.ms": "500"},
        "compact-transactional-kept": {"delete.retention.ms": _DAY},
        "emptied": {},
        "old-generation-kept": {"file.delete.delay.ms": "600000"},
    }
    for topic, configs in extras.items():
        stage.driver.call("create_topic", name=topic, configs=_compact(stage.scenario.kafka) | configs)
    return list(extras)


def _compact(kafka: str) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "file.delete.delay.ms": "100",
        **small_segments(kafka, _SEGMENT),
    }


def _open_producers(driver: Driver) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        open_producer(driver, codec, compression_type=codec)
    open_producer(driver, "filler", enable_idempotence="false", acks="1")
    for name in ("first", "second"):
        open_producer(driver, name, f"compaction-{name}", compression_type="gzip" if name == "second" else "none")


def _batch(round_number: int, keys: range, value: str = "v") -> list[dict[str, object]]:
    return [record(f"k{key}", f"{value} of round {round_number} ".ljust(28, ".")) for key in keys]


def _plain(driver: Driver, round_number: int) -> None:
    """Keys overwritten in part, so that batches lose some of their records."""
    for topic in ("compact", "compact-append-time", "old-generation-kept"):
        for start in range(0, 12, 3):
            driver.send("none", topic, _batch(round_number, range(start, start + 6)))
        driver.send("none", topic, _batch(round_number, range(100 + round_number, 103 + round_number)))


def _compressed(driver: Driver, round_number: int) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        for start in range(0, 40, 8):
            driver.send(codec, f"compact-{codec}", _batch(round_number, range(start, start + 20)))


def _tombstones(driver: Driver, round_number: int) -> None:
    for topic in ("horizon-kept", "horizon-passed"):
        driver.send("none", topic, _batch(round_number, range(10)))
        tombstones = [record(f"k{key}", None) for key in range(round_number, 10, 3)]
        driver.send("none", topic, tombstones)
        driver.send("zstd", topic, [record(f"gone-{round_number}", None), *_batch(round_number, range(20, 23))])


def _transactional(driver: Driver, round_number: int) -> None:
    """Committed and aborted transactions, some of whose records or all of them go."""
    for topic in ("compact-transactional", "compact-transactional-kept"):
        for name, outcome, keys in (
            ("first", "commit", range(6)),
            ("second", "abort", range(4)),
            ("second", "commit", range(4, 9)),
            ("first", "abort", range(30, 33)),
        ):
            driver.call("begin", name=name)
            driver.send(name, topic, _batch(round_number, keys, f"{name} {outcome}"))
            driver.call(outcome, name=name)


def _emptied(driver: Driver, round_number: int) -> None:
    """Every producer's last batch is overwritten by the next one, but has to stay for its sequence."""
    name = f"emptied {round_number}"
    open_producer(driver, name, compression_type="lz4" if round_number % 2 else "none")
    for _ in range(2):
        driver.send(name, "emptied", _batch(round_number, range(4)))
    open_producer(driver, f"transactional {name}", f"emptied-{round_number}")
    driver.call("begin", name=f"transactional {name}")
    driver.send(f"transactional {name}", "emptied", _batch(round_number, range(2, 6)))
    driver.call("commit", name=f"transactional {name}")


def _fill_active_segment(driver: Driver, topic: str, round_number: int) -> None:
    """The cleaner leaves the active segment alone, so a round ends with one that can stay dirty."""
    for number in range(3):
        value = f"filler {round_number} {number}".ljust(_SEGMENT // 2, ".")
        driver.send("filler", topic, [record(f"filler-{number}", value)])


def _open_transaction(driver: Driver) -> None:
    """The cleaner stops at the first offset of an open transaction."""
    driver.call("begin", name="first")
    driver.send("first", "compact-transactional", _batch(9, range(3), "open"))


def wait_until_clean(node: Node, topic: str) -> None:
    """Wait until the cleaner has come as far as it can: up to the active segment, or to a halt."""
    _wait(lambda: _cleaned_to(node, topic) >= _active_base(node, topic))


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PASS_SECONDS
    while time.monotonic() < deadline and not done():
        time.sleep(0.1)


def _active_base(node: Node, topic: str) -> int:
    return max(int(path.stem) for path in (node.data / f"{topic}-0").glob("*.log"))


def _cleaned_to(node: Node, topic: str) -> int:
    """The first dirty offset; the broker rewrites this file after each pass."""
    text = (node.data / "cleaner-offset-checkpoint").read_text(encoding="utf-8")
    entries = [line.split() for line in text.splitlines()[2:]]
    return next((int(entry[2]) for entry in entries if entry[:2] == [topic, "0"]), -1)


_SHOWS = (
    "Compacted topics after four rounds of cleaning, with every codec: batches with gaps, tombstones and markers"
    " with a delete horizon that is kept or has passed, emptied batches, cleaned transactions and their indexes,"
    " segments of the generation before (`.deleted`), an open transaction the cleaner stops at."
)
SCENARIOS = [
    Scenario(name=name, kafka=kafka, shows=_SHOWS, play=play, config=_CONFIG)
    for name, kafka in (("compaction", "4.4.0"), ("compaction-3.9", "3.9.1"))
]
