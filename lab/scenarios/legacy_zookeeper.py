"""Kafka 2.7 with ZooKeeper: the same things as today, written by the rules of that time."""

from lab.driver import Driver, record, records
from lab.legacy import build_legacy
from lab.scenario import Scenario, Stage
from lab.scenarios.compaction import wait_until_clean
from lab.scenarios.steps import open_producer, transaction

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TIME = 1_600_000_000_000
_SEGMENT = 1500
_SMALL = {"segment.bytes": str(_SEGMENT), "segment.index.bytes": "1024", "index.interval.bytes": "128"}
_COMPACT = {
    **_SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "file.delete.delay.ms": "100",
}
_CONFIG = {"log.cleaner.backoff.ms": "200", "log.cleaner.threads": "1", "group.max.session.timeout.ms": "60000"}


def play(stage: Stage) -> None:
    """Codecs, timestamps, idempotence, transactions, compaction, groups, and a topic on its way out."""
    driver = stage.driver
    for codec in _CODECS:
        open_producer(driver, codec, compression_type=codec, enable_idempotence="false", acks="1")
        _write(driver, codec)
    _nulls(driver)
    _timestamps(driver)
    _idempotent(driver)
    _transactions(driver)
    _empty_aborts(driver)
    _segments(driver)
    _compacted(stage)
    _group(driver)
    _deleted(driver)
    _open(driver)


def _batch(prefix: str, keys: range) -> list[dict[str, object]]:
    return [record(f"k{key}", f"{prefix} {key} ".ljust(30, "."), _TIME + key) for key in keys]


def _write(driver: Driver, codec: str) -> None:
    topic = f"codec-{codec}"
    driver.call("create_topic", name=topic, configs={**_SMALL, "segment.bytes": "3500"})
    for count in (1, 7, 30, 2):
        driver.send(codec, topic, _batch(f"{codec} of {count}", range(count)))


def _nulls(driver: Driver) -> None:
    driver.call("create_topic", name="nulls")
    contents: list[tuple[str | None, bytes | str | None]] = [
        (None, "no key"),
        ("no value", None),
        (None, None),
        ("", ""),
        ("text", "grüße, 世界 🌍"),
        ("bytes", b"\x00\xff\xfe"),
    ]
    headers: list[tuple[str, bytes | str | None]] = [("name", "value"), ("null", None), ("", ""), ("name", "again")]
    batch = [record(key, value, _TIME + number) for number, (key, value) in enumerate(contents)]
    for codec in ("none", "zstd"):
        driver.send(codec, "nulls", [*batch, record("with headers", "v", _TIME, headers)])


def _timestamps(driver: Driver) -> None:
    """The largest timestamp in the middle of a batch, which leaders of that time index by its own offset."""
    driver.call("create_topic", name="timestamps", configs=_SMALL)
    for number in range(6):
        start = _TIME + number * 100
        batch = [record(f"k{number}-{delta}", "v" * 30, start + delta) for delta in (5, 9, 9, 7, 6)]
        driver.send("none", "timestamps", batch)
    driver.call("create_topic", name="append-time", configs={"message.timestamp.type": "LogAppendTime", **_SMALL})
    for codec in _CODECS:
        driver.send(codec, "append-time", _batch(f"append time {codec}", range(4)))


def _idempotent(driver: Driver) -> None:
    driver.call("create_topic", name="idempotent")
    for name in ("first", "second"):
        open_producer(driver, name, enable_idempotence="true")
    for number in range(4):
        for name in ("first", "second"):
            driver.send(name, "idempotent", records(f"{name} {number}", number + 1))


def _transactions(driver: Driver) -> None:
    driver.call("create_topic", name="transactions")
    driver.call("create_topic", name="output", partitions=2)
    open_producer(driver, "alpha", "legacy-alpha")
    open_producer(driver, "beta", "legacy-beta", compression_type="gzip")
    transaction(driver, "alpha", "transactions", "commit", 1)
    transaction(driver, "beta", "transactions", "abort", 2, 3)
    driver.call("begin", name="alpha")
    driver.call("begin", name="beta")
    for number in range(2):
        driver.send("alpha", "transactions", records(f"alpha interleaved {number}", 2))
        driver.send("beta", "transactions", records(f"beta interleaved {number}", 2))
    driver.send("beta", "output", records("beta output", 2), 1)
    driver.call("abort", name="alpha")
    driver.call(
        "send_offsets",
        name="beta",
        topic="transactions",
        partition=0,
        offset=3,
        metadata="in a transaction",
        group="movers",
    )
    driver.call("commit", name="beta")


def _empty_aborts(driver: Driver) -> None:
    """The broker refuses the only batch of a transaction: an ABORT marker ends no data."""
    driver.call("create_topic", name="empty-aborts", configs={"max.message.bytes": "300"})
    open_producer(driver, "gamma", "legacy-gamma")
    for number in range(2):
        transaction(driver, "gamma", "empty-aborts", "commit", 1)
        driver.call("begin", name="gamma")
        driver.refused("send", name="gamma", topic="empty-aborts", partition=0, records=[record("large", "x" * 1000)])
        driver.call("abort", name="gamma")
        transaction(driver, "gamma", "empty-aborts", "abort" if number else "commit", 2)


def _segments(driver: Driver) -> None:
    """Transactions that span segments, so that an aborted one begins before the segment of its marker."""
    driver.call("create_topic", name="segments", configs=_SMALL)
    open_producer(driver, "delta", "legacy-delta")
    for outcome in ("commit", "abort", "commit", "abort"):
        driver.call("begin", name="delta")
        for number in range(4):
            driver.send("delta", "segments", [record(f"{outcome} {number}", "s" * 500)])
        driver.call(outcome, name="delta")


def _compacted(stage: Stage) -> None:
    driver = stage.driver
    topics = ("compact", "compact-zstd", "compact-transactional")
    for topic in topics:
        driver.call("create_topic", name=topic, configs={**_COMPACT, "delete.retention.ms": "500"})
    open_producer(driver, "cleaned", "legacy-cleaned")
    for round_number in range(3):
        for start in range(0, 20, 4):
            driver.send("none", "compact", _round(round_number, start))
            driver.send("zstd", "compact-zstd", _round(round_number, start))
        driver.send("none", "compact", [record(f"k{key}", None, _TIME + key) for key in range(round_number, 20, 5)])
        for outcome in ("commit", "abort"):
            driver.call("begin", name="cleaned")
            driver.send("cleaned", "compact-transactional", _batch(f"{outcome} {round_number}", range(6)))
            driver.call(outcome, name="cleaned")
        for topic in topics:
            for number in range(3):
                driver.send("none", topic, [record(f"filler-{number}", "f" * (_SEGMENT // 3 + 100), _TIME)])
        stage.note(f"wait for the cleaner, round {round_number}")
        for topic in topics:
            wait_until_clean(stage.cluster.node(0), topic)


def _round(number: int, start: int) -> list[dict[str, object]]:
    """Keys that later batches overwrite, around one that stays."""
    stays = record(f"once-{number}-{start}", "stays", _TIME)
    batch = _batch(f"round {number}", range(start, start + 8))
    return [*batch[:4], stays, *batch[4:]]


def _group(driver: Driver) -> None:
    """A classic group of two members, one of them static, that stay; and a commit without a group."""
    settings = {"group.id": "readers", "session.timeout.ms": "60000"}
    driver.call("consumer", name="one", config={**settings, "client.id": "reader-1"})
    driver.call("consumer", name="two", config={**settings, "client.id": "reader-2", "group.instance.id": "static-2"})
    for name in ("one", "two"):
        driver.call("subscribe", name=name, topics=["output", "transactions"])
    driver.call("poll", names=["one", "two"], milliseconds=4000)
    for name in ("one", "two"):
        driver.call("commit_offset", name=name)
    driver.call("consumer", name="lone", config={"group.id": "lone"})
    driver.call("assign", name="lone", topic="nulls", partition=0)
    driver.call("commit_offset", name="lone", topic="nulls", partition=0, offset=3, leader_epoch=0, metadata="a note")


def _deleted(driver: Driver) -> None:
    """A topic deleted shortly before the stop: its folder still lies there, under another name."""
    driver.call("create_topic", name="deleted", configs={**_SMALL, "file.delete.delay.ms": "600000"})
    for number in range(3):
        driver.send("none", "deleted", _batch(f"deleted {number}", range(8)))
    driver.call("delete_topic", name="deleted")


def _open(driver: Driver) -> None:
    """Two transactions that were never ended, in one partition and in two."""
    driver.call("create_topic", name="open", partitions=2)
    open_producer(driver, "epsilon", "legacy-epsilon")
    open_producer(driver, "zeta", "legacy-zeta")
    transaction(driver, "epsilon", "open", "commit", 2)
    for name in ("epsilon", "zeta"):
        driver.call("begin", name=name)
        driver.send(name, "open", records(f"{name} open", 3))
    driver.send("zeta", "open", records("zeta open too", 1), 1)


_SHOWS = (
    "Kafka 2.7.2 with ZooKeeper: every codec, LogAppendTime, idempotent producers, transactions committed, aborted,"
    " empty and aborted (an entry of the transaction index with first = last offset), spanning segments and open at"
    " shutdown, compacted topics, a deleted topic, groups, and the index rules and `meta.properties` of that time."
)
SCENARIOS = [
    Scenario(name="legacy-2.7", kafka="2.7.2", shows=_SHOWS, play=play, config=_CONFIG, build=build_legacy),
]
