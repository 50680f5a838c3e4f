"""Records that were written to several partitions of a topic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cross_partition_duplicates import evaluate_topic_duplicates
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.checks.topics import duplicates_across_partitions
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from tests.command import run
from tests.forensics.batch_notation import NOW
from tests.forensics.duplicate_logs import Log
from tests.forensics.duplicates.topics import Topic, save_topic
from tests.forensics.partition_states import SAMPLES, partitions_under

(CODE,) = duplicates_across_partitions.CODES
FIRES = {CODE: "test_a_batch_that_an_application_sent_again_is_found"}
SILENT = {CODE: "test_heartbeats_and_single_equal_records_are_no_finding"}
BATCH: list[tuple[bytes | None, bytes | None]] = [(None, b"order 1"), (None, b"order 2"), (None, b"order 3")]


def evaluated(folder: Path) -> list[PartitionResult]:
    """Return all findings on records in several partitions in a folder."""
    partitions = partitions_under(folder)
    return list(evaluate_topic_duplicates(partitions, Clusters.of(partitions), Rules(NOW), workers=0))


def findings(folder: Path, topic: Topic) -> list[Finding]:
    """Return the findings on a topic that is written to a folder."""
    save_topic(folder, topic)
    return [finding for row in evaluated(folder) for finding in row.findings]


def sent_again() -> Topic:
    """Return a topic whose partition 2 repeats records of partitions 0 and 1."""
    topic = {number: Log() for number in range(3)}
    topic[0].write(BATCH, producer=(7, 0, 0), timestamp=1_700_000_000_000)
    topic[1].write([(None, b"a"), (None, b"b")], producer=(7, 0, 0), timestamp=1_700_000_001_000)
    topic[2].write([(None, b"c")], producer=(7, 0, 0), timestamp=1_700_000_002_000)
    topic[2].write(BATCH, producer=(8, 0, 0), timestamp=1_700_000_060_000)
    topic[2].write([(None, b"a"), (None, b"b")], producer=(8, 0, 3), timestamp=1_700_000_061_000)
    return topic


def test_a_batch_that_an_application_sent_again_is_found(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, sent_again())
    assert (finding.code.name, finding.severity) == (CODE, Severity.INFO)
    assert finding.message == (
        "5 records were previously written to partitions 0 and 1 of the topic, in 2 runs: the first at offset 1 "
        "(2023-11-14 22:14:20 UTC), previously in partition 0 at offset 0 (2023-11-14 22:13:20 UTC)."
    )
    assert (finding.first_offset, finding.last_offset) == (1, 5)
    assert finding.path == str(tmp_path / "t-2" / "00000000000000000000.log")
    assert finding.position
    assert finding.evidence == {
        "records": 5,
        "runs": 2,
        "partitions": {"0": 3, "1": 2},
        "first_partition": 0,
        "first_first_offset": 0,
    }


def test_a_record_with_the_producers_own_timestamp_is_found(tmp_path: Path) -> None:
    """One record is enough if only the application can have set its timestamp."""
    topic = {0: Log(), 1: Log()}
    for log in topic.values():
        log.write([(None, b"order")], timestamp=50)
    (finding,) = findings(tmp_path, topic)
    assert finding.message.startswith("1 record was previously written to partition 0 of the topic, in 1 run: ")


def test_heartbeats_and_single_equal_records_are_no_finding(tmp_path: Path) -> None:
    """The same value alternates between both partitions: there are rows for it, but no finding."""
    topic = {0: Log(), 1: Log()}
    for turn in range(4):
        for number, log in topic.items():
            log.write([(None, b"I am here")], producer=(number, 0, turn), timestamp=1000 * turn + number)
    assert findings(tmp_path, topic) == []
    assert sum(len(list(row.rows["duplicates"])) for row in evaluated(tmp_path)) > 0


def test_what_consumers_get_once_is_no_finding(tmp_path: Path) -> None:
    """The first copy belongs to a transaction that never ended."""
    topic = {0: Log(), 1: Log()}
    topic[0].write(BATCH, producer=(7, 0, 0), timestamp=1000, is_hidden=True)
    topic[1].write(BATCH, producer=(8, 0, 0), timestamp=2000)
    assert findings(tmp_path, topic) == []
    (only,) = evaluated(tmp_path)
    assert [row[only.rows["duplicates"].table.names.index("view")] for row in only.rows["duplicates"]] == ["raw"]


def test_where_a_cleaner_was_nothing_is_said(tmp_path: Path) -> None:
    save_topic(tmp_path, sent_again())
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 2 6\n", "ascii")
    (only,) = evaluated(tmp_path)
    assert only.findings == ()
    assert len(list(only.rows["duplicates"])) == 2


def test_many_partitions_are_one_finding(tmp_path: Path) -> None:
    """There is one finding, in the partition with the later records, which lists the ten largest partitions."""
    topic = {number: Log() for number in range(13)}
    for number in range(12):
        group: list[tuple[bytes | None, bytes | None]] = [(None, b"%d %d" % (number, at)) for at in range(number + 2)]
        topic[number].write(group, producer=(7, 0, 0), timestamp=1000)
        topic[12].write(group, producer=(8, 0, 100 * number), timestamp=2000 + number)
    (finding,) = findings(tmp_path, topic)
    assert finding.message.startswith(
        "90 records were previously written to 12 other partitions of the topic, in 12 runs: "
    )
    assert finding.evidence["partitions"] == {str(number): number + 2 for number in range(2, 12)}


def test_the_command_shows_it_after_the_partitions(tmp_path: Path) -> None:
    save_topic(tmp_path, sent_again())
    ended = run("duplicates", "--quiet", "--as-of", "2023-11-15", tmp_path)
    first, second = "2023-11-14 22:13:2", "2023-11-14 22:14:2"
    other = "same content from another producer id"
    assert (ended.code, ended.text) == (
        0,
        f"""\
t-2: 5 duplicate records of other partitions in 2 runs
  content        3 records from offset 1 (producer 8, epoch 0, {second}0 UTC) \
duplicate 3 records from offset 0 of partition 0 (producer 7, epoch 0, {first}0 UTC): {other}
  content        2 records from offset 4 (producer 8, epoch 0, {second}1 UTC) \
duplicate 2 records from offset 0 of partition 1 (producer 7, epoch 0, {first}1 UTC): {other}
3 partitions: no duplicates within one partition
""",
    )
    assert run("duplicates", "--quiet", "--fail-on", "info", tmp_path).code == 1
    lines = run("duplicates", "--quiet", "--level", "sequence", tmp_path).text.splitlines()
    assert lines == ["3 partitions: no duplicates within one partition"]


def test_samples_hold_only_what_their_makers_wrote_to_several_partitions() -> None:
    """The same values in every transaction, and the same ones for two partitions."""
    findings = Counter[str]()
    for folder in sorted(path.parent for path in SAMPLES.glob("*/pedigree.json")):
        findings.update(f"{folder.name} {placed.place.topic}" for placed in evaluated(folder) if placed.findings)
    assert findings == {
        **{f"consume-transform-produce{kind} output": 1 for kind in ("", "-3.9", "-v1")},
        "replication replicated": 1,
        **{f"transactions-v{version} multi": 1 for version in range(3)},
        **{f"forged-markers-v{version} {topic}": 2 for version in range(3) for topic in ("aborted", "committed")},
    }
