"""Malformed records, records without a key, and wrong maximum timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.partition import damage, record_contents
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.record_evidence import (
    MAX_BATCHES,
    BatchLocation,
    BrokenBatch,
    FirstN,
    MistimedBatch,
    RecordEvidence,
    record_evidence,
)
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT
from kforensics.parsers.kernels.policy import no_kernels
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import sample_id, sample_state
from tests.forensics.forge import Segments, drop, file_of, forge, patch
from tests.forensics.partition_states import SAMPLES, each_sample, partitions_under, state_under
from tests.parsers.builders import CODECS, batch, message, record, wrapper

FIRES = {
    "record-parse-error": "test_records_that_cannot_be_read_are_found",
    "keyless-in-compacted": "test_record_without_key_in_a_compacted_topic_is_found",
    "ts-max-mismatch": "test_header_with_another_largest_timestamp_is_found",
}
SILENT = dict.fromkeys(record_contents.CODES, "test_real_records_are_as_they_should_be")
COLLECTORS: tuple[Collector, ...] = (damage.COLLECTOR,)
THREE = "plain @0-2; plain @3-5; plain @6-8"
# The second of three records has no key.
LONE = {3: [(b"k", b"v"), (None, b"v"), (b"k", b"v")]}


def decoded(state: PartitionState) -> PartitionState:
    """Return the state with the evidence of its records."""
    return replace(state, records=record_evidence(state.partition, no_kernels, 0))


def found_in(log_dir: Path) -> list[Finding]:
    """Return the findings in the only partition in a folder."""
    return list(record_contents.findings(decoded(state_under(log_dir, collectors=COLLECTORS))))


def forged_findings(folder: Path, segments: Segments, **options: Any) -> list[Finding]:
    """Return the findings in a forged log; the options are those of ``forge``."""
    forge(folder, segments, **options)
    return found_in(folder)


def the_one(findings: Sequence[Finding]) -> Finding:
    """Return the only finding."""
    (finding,) = findings
    return finding


def code_names(findings: Sequence[Finding]) -> list[str]:
    """Return the codes of findings."""
    return [finding.code.name for finding in findings]


def with_bytes(folder: Path, data: bytes) -> Path:
    """Forge a log, replace the bytes of its segment, and return the folder."""
    file_of(forge(folder, THREE)).write_bytes(data)
    return folder


@each_sample()
def test_real_records_are_as_they_should_be(partition: Partition) -> None:
    """Compacted, transactional, with log append time, of old formats, with timestamps chosen by clients."""
    state = decoded(sample_state(partition))
    assert list(record_contents.findings(state)) == []


def test_samples_have_what_could_be_mistaken() -> None:
    """Compacted topics, and records without keys, but not both."""
    looked_into = {sample_id(row): decoded(sample_state(row)).records for row in _real()}
    lone = {name for name, evidence in looked_into.items() if evidence and evidence.keyless.count}
    compacted = {sample_id(row) for row in _real() if sample_state(row).first_dirty_offset is not None}
    assert len(lone) > 5
    assert len(compacted) > 10
    assert not lone & compacted


def _real() -> list[Partition]:
    scenarios = ("records", "compaction", "compaction-3.9", "legacy-2.7", "legacy-magic-1", "duplicates", "groups")
    return [row for scenario in scenarios for row in partitions_under(SAMPLES / scenario)]


def test_nothing_is_said_without_decoded_records(tmp_path: Path) -> None:
    forge(tmp_path, THREE, records=LONE, compacted=True)
    assert list(record_contents.findings(state_under(tmp_path))) == []


def test_records_that_cannot_be_read_are_found(tmp_path: Path) -> None:
    producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0}
    good = batch(record())
    bad = batch(record(), record(1, length=9), base_offset=1, **producer)
    finding = the_one(found_in(with_bytes(tmp_path, good + bad + batch(record(), base_offset=3))))
    assert (finding.code.name, finding.severity) == ("record-parse-error", Severity.ERROR)
    assert (finding.first_offset, finding.last_offset, finding.position) == (1, 2, len(good))
    assert (finding.producer_id, finding.producer_epoch) == (7, 1)
    assert finding.path == str(file_of(tmp_path / "t-0"))
    assert finding.evidence == {"reason": "record-size"}
    assert finding.message.startswith(
        f"Malformed records in the batch with offsets 1 to 2 at position {len(good)}: Invalid record"
    )


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(batch(record(), count=2), "record-count", id="too few"),
        pytest.param(batch(record(), record(1), count=1, last_offset_delta=0), "record-count", id="bytes left over"),
        pytest.param(batch(record(header_count=9)), "record-headers", id="headers"),
        pytest.param(batch(record(1), record(0)), "record-offsets", id="offsets do not ascend"),
        pytest.param(batch(record(0), record(9)), "record-offsets", id="offset outside"),
        pytest.param(batch(record(), attributes=CODECS["zstd"]), "decompression", id="no compressed stream"),
        pytest.param(wrapper(message(5), offset=2), "wrapper", id="wrapper"),
    ],
)
def test_each_malformed_record_is_an_error(tmp_path: Path, bad: bytes, reason: str) -> None:
    finding = the_one(found_in(with_bytes(tmp_path, bad)))
    assert (finding.code.name, finding.severity) == ("record-parse-error", Severity.ERROR)
    assert (finding.evidence["reason"], finding.exactness) == (reason, Exactness.EXACT)
    assert (finding.producer_id, finding.position) == (None, 0)


def test_codec_of_another_release_may_be_a_limit_of_this_tool(tmp_path: Path) -> None:
    finding = the_one(found_in(with_bytes(tmp_path, batch(record(), attributes=6))))
    assert (finding.code.name, finding.severity) == ("record-parse-error", Severity.INFO)
    assert finding.exactness is Exactness.UNVERIFIABLE
    assert finding.benign == ("codec of a newer broker: possible, this release does not know its number",)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("batches/count-too-small-0", ["record-parse-error"]),
        ("batches/count-negative-0", ["record-parse-error"]),
        ("batches/offset-deltas-shuffled-0", ["record-parse-error"]),
        ("batches/offset-delta-beyond-last-0", ["record-parse-error"]),
        ("batches/last-delta-negative-0", ["record-parse-error"]),
        ("batches/last-delta-huge-0", []),
        ("batches/flipped-structure-bit-0", []),
        ("batches/noise-between-0", []),
        ("batches/delete-horizon-0", []),
        ("batches/append-time-0", []),
        ("batches/base-offset-largest-0", []),
        ("batches/times-overflow-0", ["ts-max-mismatch"]),
        ("codecs/gzip-cut-0", ["record-parse-error"]),
        ("codecs/gzip-stray-bytes-0", []),
        ("codecs/zstd-block-garbage-0", ["record-parse-error"]),
        ("records/header-count-beyond-0", ["record-parse-error"]),
        ("records/offset-delta-negative-gzip-0", ["record-parse-error"]),
        ("records/attributes-set-0", []),
        ("records/key-length-negative-0", []),
        ("controls/control-key-short-0", []),
        ("legacy/magic-1-inner-nested-0", ["record-parse-error"]),
        ("legacy/magic-1-wrapper-append-time-0", []),
        ("legacy/magic-1-wrapper-gaps-0", []),
    ],
)
def test_damaged_samples_have_their_code(sample: str, expected: list[str]) -> None:
    assert code_names(found_in(SAMPLES / "damaged" / sample)) == expected


def test_batch_with_a_wrong_checksum_is_not_evaluated(tmp_path: Path) -> None:
    bad = batch(record(0, None), record(1, length=9), max_timestamp=NOW + 9, crc=1)
    assert found_in(with_bytes(tmp_path, bad + batch(record(), base_offset=2))) == []


def test_record_without_key_in_a_compacted_topic_is_found(tmp_path: Path) -> None:
    segments = {0: "plain @0-2; plain @3-5", 6: "plain @6-8"}
    finding = the_one(forged_findings(tmp_path, segments, records=LONE, compacted=True))
    assert (finding.code.name, finding.severity) == ("keyless-in-compacted", Severity.WARNING)
    assert (finding.first_offset, finding.last_offset, finding.exactness) == (4, 4, Exactness.EXACT)
    assert finding.position == len(batch(*(record(0, b"k0", b"v0"),) * 3))
    assert finding.evidence == {"records": 1, "of": 9}
    assert finding.message == ("The record at offset 4 has no key, but the cleaner's checkpoint lists the partition.")


def test_all_records_without_key_are_one_finding(tmp_path: Path) -> None:
    segments = {0: "plain @0-2; plain @3-5", 6: "plain @6-8"}
    lone = {base: [(None, b"v")] * 3 for base in (3, 6)}
    finding = the_one(forged_findings(tmp_path, segments, records=lone, compacted=True))
    assert (finding.first_offset, finding.last_offset, finding.evidence["records"]) == (3, 8, 6)
    assert finding.message.startswith("6 records between offsets 3 and 8 have no key")


def test_topic_that_is_not_compacted_needs_no_keys(tmp_path: Path) -> None:
    assert forged_findings(tmp_path, THREE, records=LONE) == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize(
    ("entity", "policy", "needs_keys"),
    [
        ("topic t", "compact", True),
        (None, "compact,delete", True),
        ("topic t", "delete", False),
        ("topic other", "compact", False),
    ],
)
def test_topic_whose_settings_compact_it_needs_keys(
    tmp_path: Path, entity: str | None, policy: str, needs_keys: bool, has_checkpoint: bool
) -> None:
    """Before its first compaction no checkpoint lists it; after its policy has changed to delete, one still may."""
    forge(tmp_path, THREE, records=LONE, compacted=has_checkpoint)
    state = decoded(state_under(tmp_path, collectors=COLLECTORS))
    settings = (Setting("cleanup.policy", policy, "metadata log, topic t", entity),)
    rules = replace(state.rules, topic_settings=settings).at(None, state.partition.place.topic)
    findings = list(record_contents.findings(replace(state, rules=rules)))
    needs_keys |= has_checkpoint and entity == "topic other"
    assert [finding.exactness for finding in findings] == [Exactness.EXACT] * needs_keys
    if needs_keys:
        why = f"cleanup.policy is {policy} (metadata log, topic t)"
        if has_checkpoint:
            why = "the cleaner's checkpoint lists the partition"
        assert the_one(findings).message == f"The record at offset 4 has no key, but {why}."


def test_topics_that_every_broker_compacts_need_keys(tmp_path: Path) -> None:
    finding = the_one(forged_findings(tmp_path, THREE, records=LONE, topic="__consumer_offsets"))
    assert (finding.code.name, finding.exactness) == ("keyless-in-compacted", Exactness.EXACT)


def test_traces_of_the_cleaner_show_that_a_topic_is_compacted(tmp_path: Path) -> None:
    """Without a checkpoint that could list the partition."""
    forge(tmp_path, f"{THREE}; plain @9-11 cnt 2", records=LONE)
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    finding = the_one(found_in(tmp_path))
    assert (finding.code.name, finding.exactness) == ("keyless-in-compacted", Exactness.APPROXIMATE)
    assert finding.message.endswith("the batches up to offset 11 were compacted.")


def test_lost_batches_are_no_trace_of_the_cleaner(tmp_path: Path) -> None:
    """In a partition that the checkpoint does not list, and where damage explains why they are missing."""
    log = file_of(forge(tmp_path / "known", THREE, records={6: [(None, b"v")] * 3}))
    drop(log, 3)
    assert found_in(tmp_path / "known") == []
    forge(tmp_path / "damaged", f"{THREE}; plain @9-11", records={9: [(None, b"v")] * 3})
    (tmp_path / "damaged" / "cleaner-offset-checkpoint").unlink()
    patch(file_of(tmp_path / "damaged" / "t-0"), 3, length=7, fix_crc=False)
    assert found_in(tmp_path / "damaged") == []


def test_markers_and_tombstones_are_no_records_without_key(tmp_path: Path) -> None:
    segments = {0: "D 7 0 0-1 @0-1 T; M 7 0 C 1 @2", 3: "plain @3"}
    assert forged_findings(tmp_path, segments, records={0: [(b"k", None), (b"", b"v")]}, compacted=True) == []


def test_header_with_another_largest_timestamp_is_found(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; D 7 1 0-2 @3-5 N; plain @6-8"))
    patch(log, 3, max_timestamp=NOW + 90_000)
    stored = record_evidence(state_under(tmp_path).partition, no_kernels, 0).mistimed.items[0].latest
    finding = the_one(found_in(tmp_path))
    assert (finding.code.name, finding.severity) == ("ts-max-mismatch", Severity.WARNING)
    assert (finding.first_offset, finding.last_offset, finding.producer_id) == (3, 5, 7)
    assert finding.evidence == {"max_timestamp": NOW + 90_000, "largest_of_records": stored}
    assert NOW <= stored < NOW + 1_000
    assert " earlier." in finding.message


@pytest.mark.parametrize(
    ("header", "expected"),
    [(NOW - 5_000, "5 s later"), (-(2**63), "9223373736854775808 ms later"), (2**63 - 1, " ms earlier")],
)
def test_all_timestamps_can_be_formatted(tmp_path: Path, header: int, expected: str) -> None:
    log = file_of(forge(tmp_path, f"plain @0-2; plain @3-5 ts {NOW}"))
    patch(log, 3, max_timestamp=header)
    assert expected in the_one(found_in(tmp_path)).message


def test_log_append_time_is_that_of_the_header(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, THREE))
    patch(log, 3, max_timestamp=NOW + 9, attributes=LOG_APPEND_TIME_BIT)
    assert found_in(tmp_path) == []


def test_delete_horizon_is_no_timestamp(tmp_path: Path) -> None:
    segments = {0: f"{THREE}; plain @9-11 cnt 0", 12: "plain @12"}
    assert forged_findings(tmp_path, segments, compacted=True, horizons={3: NOW + 86_400_000}) == []


def test_emptied_batch_keeps_the_largest_timestamp_of_what_it_had(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, {0: "plain @0-2; plain @3-5 cnt 0", 6: "plain @6"}, compacted=True))
    patch(log, 3, max_timestamp=NOW + 9)
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_of_an_old_format_with_its_messages_largest_timestamp(tmp_path: Path, magic: int) -> None:
    inner = [message(0, timestamp=NOW + 5, magic=magic), message(1, timestamp=NOW, magic=magic)]
    data = wrapper(*inner, magic=magic, offset=1, timestamp=NOW + 5)
    assert found_in(with_bytes(tmp_path, data)) == []


def test_wrapper_of_an_old_format_with_another_timestamp_is_found(tmp_path: Path) -> None:
    inner = [message(0, timestamp=NOW + 5), message(1, timestamp=NOW)]
    finding = the_one(found_in(with_bytes(tmp_path, wrapper(*inner, offset=1, timestamp=NOW))))
    assert (finding.code.name, finding.evidence["largest_of_records"]) == ("ts-max-mismatch", NOW + 5)


def test_more_than_can_be_read_are_counted(tmp_path: Path) -> None:
    forge(tmp_path, THREE)
    place = BatchLocation(0, 0, 0, 2, -1, -1)
    broken = FirstN((BrokenBatch(place, "record-size", "said"),) * MAX_BATCHES, MAX_BATCHES + 7)
    mistimed = FirstN((MistimedBatch(place, 1, 2),) * MAX_BATCHES, MAX_BATCHES)
    state = replace(state_under(tmp_path), records=RecordEvidence(9, broken, mistimed))
    reported = list(record_contents.findings(state))
    assert len(reported) == 2 * MAX_BATCHES
    assert reported[MAX_BATCHES - 1].evidence == {"reason": "record-size", "left_out": 7}
    assert "left_out" not in reported[-1].evidence
