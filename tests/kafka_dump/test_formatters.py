"""`dump --formatter` against what Kafka's own formatters printed: the text of every record, and every exception.

The recordings are in ``sample_logs/golden/formatters``; ``python -m lab.golden --formatters`` makes them.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.errors import KforensicsError, UsageError
from kforensics.kafka_dump.decoders.formatters import FORMATTER_STYLES, FORMATTERS, formatter, topic_of
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import STYLES
from lab.golden.formatters import GOLDEN, MIRROR_GOLDEN, MIRRORS, logs, mirror_records, records
from tests.command import SAMPLES, dump, sentence

# Offset, text and exception of a record.
Recorded = list[tuple[int, str, str]]
OF_MIRRORS = ("checkpoint", "heartbeat", "offset-sync")
OF_COORDINATORS = tuple(kind for kind in FORMATTERS if kind not in (*OF_MIRRORS, "connect"))
CHECKPOINTS = MIRRORS / "target" / "broker-1" / "source.checkpoints.internal-0"
GROUPS = SAMPLES / "groups" / "broker-1" / "__consumer_offsets-0"
V0 = SAMPLES / "transactions-v0" / "broker-1" / "__transaction_state-0"
# One copy of a log of each topic by brokers of 2.7, 3.9 and 4.x.
COMMANDS = [
    log
    for log in (str(path.relative_to(SAMPLES)) for path in sorted(SAMPLES.glob("*/broker-*/__*/*.log")))
    if log.split("/")[2].rpartition("-")[0] in ("__transaction_state", "__consumer_offsets")
]


@cache
def _golden(style: str) -> dict[str, dict[str, Recorded]]:
    with lzma.open(GOLDEN / f"{STYLES[style].release}.json.xz") as file:
        recorded: dict[str, dict[str, Recorded]] = json.load(file)
    return recorded


@cache
def _records(log: str) -> list[dict[str, Any]]:
    return list(records(log))


def _printed(text_of: Any, record: dict[str, Any]) -> tuple[str, str]:
    try:
        return text_of(record["key"], record["value"], record["offset"]), ""
    except JavaError as error:
        return "", str(error)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_COORDINATORS)
@pytest.mark.parametrize("style", FORMATTER_STYLES)
def test_every_record_of_every_sample_is_printed_as_kafka_prints_it(
    style: str, kind: str, record_property: Callable[[str, object], None]
) -> None:
    """Records of the other topic and damaged ones are among them; then the exceptions are equal, too."""
    recorded, text_of, compared = _golden(style)[kind], formatter(kind, style), 0
    assert recorded.keys() == set(logs())
    for log, expected in recorded.items():
        found = [[record["offset"], *_printed(text_of, record)] for record in _records(log)]
        assert found == [list(each) for each in expected], log
        compared += len(expected)
    assert compared == 4474
    texts = sum(bool(text) for of_log in recorded.values() for _, text, _ in of_log)
    record_property("formatted", {f"{STYLES[style].release} {kind}": texts})


@pytest.mark.parametrize("style", FORMATTER_STYLES)
def test_the_recordings_have_texts_and_exceptions_of_each_formatter(style: str) -> None:
    for kind, recorded in _golden(style).items():
        texts = [text for of_log in recorded.values() for _, text, _ in of_log if text]
        thrown = [why for of_log in recorded.values() for _, _, why in of_log if why]
        assert len(texts) > 50, kind
        assert thrown, kind


@pytest.mark.parametrize("style", FORMATTER_STYLES)
@pytest.mark.parametrize("kind", OF_COORDINATORS)
def test_the_command_prints_the_records_up_to_the_exception_that_ends_the_consumer(style: str, kind: str) -> None:
    compared = 0
    for log in COMMANDS:
        if Path(log).parent.name.rpartition("-")[0] != topic_of(kind) or log not in _golden(style)[kind]:
            continue
        expected, thrown = "", ""
        for offset, text, thrown in _golden(style)[kind][log]:  # noqa: B007  # the last exception is needed
            if thrown:
                break
            expected += text
        ended = dump("--formatter", kind, "--style", style, SAMPLES / log)
        assert ended.text == expected, log
        assert ended.code == (1 if thrown else 0)
        if thrown:
            why = f"the record at offset {offset} cannot be printed: {thrown}; kafka-console-consumer ends here\n"
            assert ended.err.endswith(why)
        compared += 1
    assert compared >= 20


@pytest.mark.parametrize("kind", OF_COORDINATORS)
def test_without_a_style_each_record_is_a_line_of_json_as_4_3_prints_it(kind: str) -> None:
    compared = 0
    for log in COMMANDS:
        if Path(log).parent.name.rpartition("-")[0] == topic_of(kind) and log in _golden("4.3")[kind]:
            expected = [text for _, text, _ in _golden("4.3")[kind][log] if text]
            ended = dump("--formatter", kind, SAMPLES / log)
            assert (ended.lines, ended.code, ended.err) == (expected, 0, "")
            assert all(json.loads(line)["key"] for line in ended.lines)
            compared += len(expected)
    assert compared >= 20


@pytest.mark.parametrize("kind", OF_MIRRORS)
def test_records_of_mirror_maker_are_printed_as_its_formatters_print_them(kind: str) -> None:
    """Records of the other topics and parts of records are among them; then the exceptions are equal, too."""
    recorded: dict[str, Recorded] = json.loads(lzma.decompress(MIRROR_GOLDEN.read_bytes()))[kind]
    rows, compared = mirror_records(), 0
    assert recorded.keys() == rows.keys()
    for style in (None, *FORMATTER_STYLES):
        text_of = formatter(kind, style)
        for log, expected in recorded.items():
            found = [[record["offset"], *_printed(text_of, record)] for record in rows[log]]
            assert found == [list(each) for each in expected], log
            compared += sum(bool(text) for _, text, _ in expected)
    assert compared >= 16


def test_the_command_prints_checkpoints_by_the_name_of_their_topic() -> None:
    ended = dump("--formatter", "checkpoint", MIRRORS)
    assert (ended.code, ended.err) == (0, "")
    of_orders = "topicPartition=source.orders-0, upstreamOffset"
    assert ended.lines[1:] == [
        f"Checkpoint{{consumerGroupId=reports, {of_orders}=9, downstreamOffset=8, metadata=up to 9}}",
        f"Checkpoint{{consumerGroupId=audit, {of_orders}=18, downstreamOffset=10, metadata=up to 18}}",
        f"Checkpoint{{consumerGroupId=audit, {of_orders}=18, downstreamOffset=15, metadata=up to 18}}",
    ]
    assert len(dump("--formatter", "heartbeat", MIRRORS).lines) == 10
    no_log = sentence(dump("--formatter", "offset-sync", CHECKPOINTS.parent))
    assert "no log of mm2-offset-syncs.ALIAS.internal is under" in no_log


def test_without_a_style_what_cannot_be_read_is_reported_and_the_rest_printed() -> None:
    ended = dump("--formatter", "offsets", SAMPLES / "damaged" / "internal" / "__consumer_offsets-10")
    assert ended.code == 1
    assert "the record at offset 1 cannot be printed: " in ended.err
    assert "ends here" not in ended.err
    assert ended.lines
    assert dump("--formatter", "offsets", "--fail-on", "never", "--quiet", GROUPS).err == ""


def test_a_formatter_reads_the_logs_of_its_topic() -> None:
    broker = SAMPLES / "transactions-v0" / "broker-1"
    assert dump("--formatter", "transaction-log", broker).text == dump("--formatter", "transaction-log", V0).text
    assert dump("--formatter", "offsets", broker).text.startswith('{"key":{"type":1,"data":{"group":"transformers"')
    assert "no log of __consumer_offsets is under" in sentence(dump("--formatter", "offsets", V0))


def test_a_log_under_another_name_is_read_if_it_is_named(tmp_path: Path) -> None:
    (log,) = V0.glob("*.log")
    copy = tmp_path / "copy.log"
    copy.write_bytes(log.read_bytes())
    assert dump("--formatter", "transaction-log", copy).text == dump("--formatter", "transaction-log", V0).text


def test_filters_and_a_limit_select_records() -> None:
    every = dump("--formatter", "transaction-log", "--style", "3.9", V0).text
    some = dump("--formatter", "transaction-log", "--style", "3.9", "--offset", "2:5", V0).text
    assert some in every
    assert some.count('"key"') == 3
    assert dump("--formatter", "transaction-log", "--limit", 2, V0).text.count("\n") == 2


def test_the_function_yields_the_same_texts() -> None:
    found = kforensics.dump(V0)
    for style in (None, *FORMATTER_STYLES):
        words = () if style is None else ("--style", style)
        texts = list(found.formatted("transaction-log", style))
        assert "".join(texts) == dump("--formatter", "transaction-log", *words, V0).text
        assert len(texts) > 100
    with pytest.raises(KforensicsError, match="Unknown offset message version: 4"):
        list(kforensics.dump(GROUPS).formatted("offsets", "2.8"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--formatter", "payments"),
            "--formatter 'payments' is not one of transaction-log, offsets, group-metadata, ",
        ),
        (("--formatter", "offsets", "--style", "4.2"), "--formatter imitates the styles 4.3, 3.9, 2.8, not 4.2"),
        (("--formatter", "offsets", "--records", "--format", "json"), "leave out --records, --format"),
        (("--formatter", "offsets", "--redact", "--print-data-log"), "leave out --redact, --print-data-log"),
        (("--formatter", "offsets", "--offsets-decoder"), "leave out --offsets-decoder"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], message: str) -> None:
    assert message in sentence(dump(*words, GROUPS))


def test_a_function_refuses_what_the_command_refuses() -> None:
    with pytest.raises(UsageError, match="is not one of"):
        list(kforensics.dump(GROUPS).formatted("payments"))
    with pytest.raises(UsageError, match="imitates the styles"):
        list(kforensics.dump(GROUPS).formatted("offsets", "2.7"))
