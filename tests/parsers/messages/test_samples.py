"""Best-effort decoding of the records that brokers of 2.7 to 4.4 wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kforensics.kafka_dump.decoders import control_suffix, decoder
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_control_record, decode_record
from lab.places import SAMPLES

SCENARIOS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")
LOG = re.compile(r"\.(log|checkpoint)(\.(deleted|cleaned|swap))?$")
TOPIC = re.compile(r"(__[a-z_]+)-\d+")
KINDS = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction",
    "__share_group_state": "share-group-state",
    "__cluster_metadata": "cluster-metadata",
    "__remote_log_metadata": "remote-log-metadata",
}
CONTROL_BIT = 0x20


def _records(scenario: str) -> Iterator[tuple[str, bool, Record]]:
    for path in sorted((SAMPLES / scenario).rglob("__*/*")):
        topic = TOPIC.match(path.parent.name)
        if topic is None or not LOG.search(path.name):
            continue
        source = open_source(path)
        for batch in walk(source):
            if isinstance(batch, Batch):
                is_control = batch.magic > 1 and bool(batch.attributes & CONTROL_BIT)
                records = read_records(source, batch)
                yield from ((topic[1], is_control, record) for record in records if isinstance(record, Record))


def _decode(topic: str, is_control: bool, record: Record) -> DecodedMessage:
    if is_control:
        return decode_control_record(record.key, record.value)
    return decode_record(topic, record.key, record.value)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "damaged"])
def test_every_record_of_a_broker_is_decoded_to_the_last_byte(scenario: str) -> None:
    wrong = [
        (topic, record.offset, decoded.error)
        for topic, is_control, record in _records(scenario)
        if (decoded := _decode(topic, is_control, record)).error
    ]
    assert wrong == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_record_has_a_text(scenario: str) -> None:
    for topic, is_control, record in _records(scenario):
        if is_control:
            assert control_suffix(record.key, record.value).startswith(" ")
        else:
            texts = decoder(KINDS[topic])(record.key, record.value, record.offset)
            assert any(texts)
