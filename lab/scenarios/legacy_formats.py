"""Message formats 0 and 1, which 2.8 still writes when it is asked to."""

from lab.driver import Driver, record
from lab.legacy import build_legacy
from lab.scenario import Scenario, Stage
from lab.scenarios.compaction import wait_until_clean
from lab.scenarios.steps import open_producer, transaction

_CODECS = ("none", "gzip", "snappy", "lz4")
_TIME = 1_600_000_000_000
_SEGMENT = 1500
_SMALL = {"segment.bytes": str(_SEGMENT), "segment.index.bytes": "1024", "index.interval.bytes": "128"}
_COMPACT = {
    **_SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "file.delete.delay.ms": "100",
    "delete.retention.ms": "500",
}
_CONFIG = {"log.cleaner.backoff.ms": "200", "log.cleaner.threads": "1"}


def play(stage: Stage) -> None:
    """Every codec, once as written and once compacted, and the coordinators' topics of that format."""
    driver = stage.driver
    for codec in _CODECS:
        open_producer(driver, codec, compression_type=codec, enable_idempotence="false", acks="1")
        _write(driver, codec)
    _nulls(driver)
    if stage.scenario.config["log.message.format.version"] != "0.9.0":
        _append_time(driver)
    _upgraded(driver)
    _compacted(stage)
    _group(driver)
    _transactions(driver)


def _batch(prefix: str, keys: range) -> list[dict[str, object]]:
    return [record(f"k{key}", f"{prefix} {key} ".ljust(30, "."), _TIME + key) for key in keys]


def _write(driver: Driver, codec: str) -> None:
    """Wrappers of one, of seven and of thirty messages; small segments, so that there are index entries."""
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
    batch = [record(key, value, _TIME + number) for number, (key, value) in enumerate(contents)]
    for codec in ("none", "lz4"):
        driver.send(codec, "nulls", batch)


def _append_time(driver: Driver) -> None:
    """The broker's clock: in each message, and in the wrapper alone."""
    driver.call("create_topic", name="append-time", configs={"message.timestamp.type": "LogAppendTime", **_SMALL})
    for codec in _CODECS:
        driver.send(codec, "append-time", _batch(f"append time {codec}", range(4)))


def _upgraded(driver: Driver) -> None:
    """One log that holds several formats, since its topic was moved to newer ones."""
    driver.call("create_topic", name="upgraded", configs=_SMALL)
    for version in (None, "0.10.0", "0.11.0", "2.8"):
        if version:
            driver.call("alter_config", type="TOPIC", name="upgraded", configs={"message.format.version": version})
        for codec in ("none", "gzip"):
            driver.send(codec, "upgraded", _batch(f"{version or 'as it was'} {codec}", range(3)))


def _compacted(stage: Stage) -> None:
    topics = {f"compact-{codec}": codec for codec in _CODECS}
    for topic in topics:
        stage.driver.call("create_topic", name=topic, configs=_COMPACT)
    for round_number in range(3):
        for topic, codec in topics.items():
            for start in range(0, 20, 4):
                stage.driver.send(codec, topic, _round(round_number, start))
            gone = [record(f"k{key}", None, _TIME + key) for key in range(round_number, 20, 5)]
            stage.driver.send(codec, topic, gone)
            _fill_active_segment(stage.driver, topic)
        stage.note(f"wait for the cleaner, round {round_number}")
        for topic in topics:
            wait_until_clean(stage.cluster.node(0), topic)


def _round(number: int, start: int) -> list[dict[str, object]]:
    """Keys that later batches overwrite, around one that stays."""
    stays = record(f"once-{number}-{start}", "stays", _TIME)
    batch = _batch(f"round {number}", range(start, start + 8))
    return [*batch[:4], stays, *batch[4:]]


def _fill_active_segment(driver: Driver, topic: str) -> None:
    for number in range(3):
        driver.send("none", topic, [record(f"filler-{number}", "f" * (_SEGMENT // 3 + 100), _TIME)])


def _group(driver: Driver) -> None:
    """A classic group that commits, and leaves."""
    driver.call("consumer", name="member", config={"group.id": "readers", "client.id": "reader"})
    driver.call("subscribe", name="member", topics=["codec-none", "codec-gzip"])
    driver.call("poll", names=["member"], milliseconds=2000)
    driver.call("commit_offset", name="member")
    driver.call("commit_offset", name="member", topic="codec-none", partition=0, offset=5, metadata="half way")
    driver.call("close_consumer", name="member")


def _transactions(driver: Driver) -> None:
    """The data needs the newest format; the coordinator's own topic keeps the old one."""
    driver.call("create_topic", name="transactional", configs={"message.format.version": "2.8"})
    open_producer(driver, "transactional", "legacy-transactional")
    transaction(driver, "transactional", "transactional", "commit", 2)
    transaction(driver, "transactional", "transactional", "abort", 3)


_SHOWS = (
    "Message format {magic} (`log.message.format.version` {version}) with every codec it has: single messages and"
    " wrappers, null and empty keys and values, compacted logs after three rounds of cleaning, a log that was moved on"
    " to newer formats, and `__consumer_offsets` and `__transaction_state` in the old format."
)
SCENARIOS = [
    Scenario(
        name=f"legacy-magic-{magic}",
        kafka="2.8.2",
        shows=_SHOWS.format(magic=magic, version=version),
        play=play,
        config={"log.message.format.version": version, **_CONFIG},
        build=build_legacy,
    )
    for magic, version in ((0, "0.9.0"), (1, "0.10.0"))
]
