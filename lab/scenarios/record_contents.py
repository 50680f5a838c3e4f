"""What can be in a record and around it: codecs, headers, nulls, timestamps, sequences."""

import struct

from lab.driver import Driver, record
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer, small_segments

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NEW_YEAR = 1767225600000
"""2026-01-01T00:00:00Z, where the timestamps given by producers begin."""


def play(stage: Stage) -> None:
    """One topic per question, all timestamps but those of the broker given."""
    driver = stage.driver
    for codec in CODECS:
        _codec(driver, codec)
    _levels(driver)
    _headers(driver)
    _nulls(driver)
    _serialized(driver)
    _timestamps(driver)
    _log_append_time(driver)
    _indexed(stage)
    _idempotent(driver)
    _sequences_wrap(driver)
    _written_twice(driver)
    _grown(driver)


def _codec(driver: Driver, codec: str) -> None:
    """Batches of 1, 7 and 24 records, and one of more than a block of any codec."""
    for topic in (f"codec-{codec}", f"blocks-{codec}"):
        driver.call("create_topic", name=topic, configs={"max.message.bytes": "2000000"})
    open_producer(driver, codec, compression_type=codec, batch_size="1000000", max_request_size="2000000")
    for count in (1, 7, 24):
        batch = [
            record(f"key-{number}", f"{codec} record {number} of {count}. " * 2, NEW_YEAR + number)
            for number in range(count)
        ]
        driver.send(codec, f"codec-{codec}", batch)
    size = 3000 if codec == "none" else 90000
    values = [f"{codec} block {number}. " * (size // 16) for number in range(3)]
    driver.send(codec, f"blocks-{codec}", [record("block", value, NEW_YEAR) for value in values])


def _levels(driver: Driver) -> None:
    """The broker recompresses where the topic is configured with another codec than the producer."""
    zstd = {"compression.type": "zstd", "compression.zstd.level": "10"}
    driver.call("create_topic", name="recompressed", configs=zstd)
    driver.call("create_topic", name="decompressed", configs={"compression.type": "uncompressed"})
    for topic in ("recompressed", "decompressed"):
        for codec in CODECS:
            batch = [record(f"{codec}-{number}", f"{codec} {number} " * 8, NEW_YEAR + number) for number in range(5)]
            driver.send(codec, topic, batch)


def _headers(driver: Driver) -> None:
    driver.call("create_topic", name="headers")
    contents: list[list[tuple[str, bytes | str | None]]] = [
        [("plain", "text")],
        [("null", None), ("empty", b""), ("", "empty key")],
        [("not-utf-8", b"\xff\xfe\x00\x80"), ("größe", "ü"), ("鍵", "値"), ("😀", "🎉")],
        [("twice", "first"), ("twice", "second")],
        [(f"header-{number}", str(number)) for number in range(70)],
        [("long", "v" * 300)],
    ]
    for codec in ("none", "zstd"):
        batch = [
            record(f"key-{number}", f"{codec} {number}", NEW_YEAR + number, headers)
            for number, headers in enumerate(contents)
        ]
        driver.send(codec, "headers", batch)


def _nulls(driver: Driver) -> None:
    driver.call("create_topic", name="nulls")
    contents: list[bytes | str | None] = [
        *(None, b"", "text", b"\x00", b"\xff\xfe\xfd"),
        *("a\tb\nc\r\n", "grüße, 世界 🌍", '{"json": "quoted \\" text"}', " "),
    ]
    for codec in ("none", "snappy"):
        pairs = [record(key, value, NEW_YEAR) for key in contents[:5] for value in contents[:5]]
        driver.send(codec, "nulls", pairs)
        driver.send(codec, "nulls", [record(content, content, NEW_YEAR) for content in contents[5:]])


def _serialized(driver: Driver) -> None:
    """Keys and values as Kafka's own long, int, double and UUID serializers write them."""
    driver.call("create_topic", name="serialised")
    numbers = (0, 1, -1, 42, 2**31 - 1, -(2**31))
    batch = [record(struct.pack(">q", number * 2**31), struct.pack(">i", number), NEW_YEAR) for number in numbers]
    batch += [record(struct.pack(">h", 7), struct.pack(">d", 0.5), NEW_YEAR)]
    batch += [record(struct.pack(">f", -1.5), bytes(range(16)), NEW_YEAR)]
    driver.send("none", "serialised", batch)


def _timestamps(driver: Driver) -> None:
    """Not in order, far apart, at 0, and absent."""
    driver.call("create_topic", name="timestamps")
    day = 86_400_000
    for deltas in ((0, 5, 3, 9, 1), (30 * day, -30 * day, 0), (-NEW_YEAR, 1 - NEW_YEAR), (2, 1)):
        batch = [record(f"{delta}", "delta", NEW_YEAR + delta) for delta in deltas]
        driver.send("none", "timestamps", batch)
    driver.call(
        "raw_produce", topic="timestamps", transactional=False, producer_id=-1, producer_epoch=-1, sequence=-1,
        records=[record("no timestamp", "a", -1), record("no timestamp", "b", -1)],
    )  # fmt: skip


def _log_append_time(driver: Driver) -> None:
    driver.call("create_topic", name="append-time", configs={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        batch = [record(f"{codec}-{number}", f"{codec} {number}", NEW_YEAR + number) for number in range(3)]
        driver.send(codec, "append-time", batch)


def _indexed(stage: Stage) -> None:
    """Several segments, with many entries in both indexes."""
    stage.driver.call("create_topic", name="indexed", configs=small_segments(stage.scenario.kafka, 4000))
    for number in range(50):
        batch = [record(f"{number}-{each}", "." * 30, NEW_YEAR + 1000 * number + each) for each in range(2)]
        stage.driver.send("none", "indexed", batch)


def _idempotent(driver: Driver) -> None:
    """Three producers in turn, more batches each than the five a broker remembers."""
    driver.call("create_topic", name="idempotent", partitions=2)
    for name in ("one", "two", "three"):
        open_producer(driver, name)
    for number in range(8):
        for name in ("one", "two", "three"):
            if name != "three" or number < 2:
                batch = [record(f"{name}-{number}", "idempotent", NEW_YEAR + number)] * (1 + number % 3)
                driver.send(name, "idempotent", batch, number % 2 if name == "two" else 0)


def _sequences_wrap(driver: Driver) -> None:
    """Sequences run from 2147483647 to 0 inside a batch."""
    driver.call("create_topic", name="sequence-wrap")
    for sequence, count in ((2147483640, 5), (2147483645, 6), (3, 2)):
        batch = [record(f"{sequence}", f"{number}", NEW_YEAR + number) for number in range(count)]
        driver.call(
            "raw_produce", topic="sequence-wrap", transactional=False, producer_id=7000, producer_epoch=0,
            sequence=sequence, records=batch,
        )  # fmt: skip


def _written_twice(driver: Driver) -> None:
    """An application that sends again: without idempotence, and after a restart with it."""
    driver.call("create_topic", name="twice")
    open_producer(driver, "careless", enable_idempotence="false", acks="1")
    batch = [record(f"order-{number}", f"amount {number}", NEW_YEAR + number) for number in range(4)]
    for _ in range(2):
        driver.send("careless", "twice", batch)
    for name in ("before restart", "after restart"):
        open_producer(driver, name)
        driver.send(name, "twice", [record("restart", f"{number}", NEW_YEAR + number) for number in range(3)])
        driver.call("close_producer", name=name)


def _grown(driver: Driver) -> None:
    """Keys land elsewhere once a topic has more partitions."""
    driver.call("create_topic", name="grown", partitions=2)
    for total in (2, 5):
        if total > 2:
            driver.call("add_partitions", name="grown", partitions=total)
        open_producer(driver, f"grown {total}")
        batch = [record(f"customer-{number}", f"with {total} partitions", NEW_YEAR + number) for number in range(12)]
        driver.send(f"grown {total}", "grown", batch, None)


SCENARIOS = [
    Scenario(
        name="records",
        kafka="4.4.0",
        shows=(
            "Every codec, also compressed anew by the broker; headers, null and empty keys and values,"
            " tombstones, keys and values of Kafka's number serializers; CreateTime out of order, absent, and"
            " LogAppendTime; idempotent producers, sequences that wrap, records written twice; a topic that got"
            " more partitions."
        ),
        play=play,
    )
]
