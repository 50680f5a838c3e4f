"""Every command judges in the same context: the log directories around its paths, and the time of their newest file."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kforensics.analyses.audit import AuditRequest, audit_results
from kforensics.analyses.explain import Subject, explain_subject, story_rows
from kforensics.analyses.lso import LsoQuestion
from kforensics.analyses.partitions import Investigation, investigate
from kforensics.analyses.producers import ProducersQuestion
from kforensics.analyses.questions import Question
from kforensics.analyses.transactions import TransactionsQuestion
from kforensics.errors import InputError
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.checks.cluster import hanging
from kforensics.forensics.checks.partition.last_stable_offset import BLOCKING_CHECKS
from kforensics.forensics.checks.partition_checks import CHECK_GROUPS
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.explain.offset_story import OffsetStory
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.log.log_rows import Place
from tests.command import SAMPLES, run
from tests.thorough import some

HOUR_MS = 3_600_000
SCENARIOS = sorted(path.parent.name for path in SAMPLES.glob("*/truth.json"))
EVERY_SAMPLE = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")
# The damaged files and those with every record have no time of their own.
WITHOUT_TIME_MS = 1_795_264_200_000
EVIDENCE = {name for check in CHECK_GROUPS["evidence"] for name in check.codes}
BLOCKING = {name for check in BLOCKING_CHECKS for name in check.codes} | {*hanging.CODES}
V0 = SAMPLES / "transactions-v0" / "broker-1"
AS_OF = "2026-11-21T12:40"


def taken_ms(scenario: str) -> int:
    """Return when the files of a scenario were copied."""
    if scenario not in SCENARIOS:
        return WITHOUT_TIME_MS
    taken = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))["taken"]
    return int(datetime.fromisoformat(taken).timestamp() * 1000)


def investigated(*paths: Path, as_of_ms: int | None = None, topics: tuple[str, ...] = ()) -> Investigation:
    """Return the partitions under paths."""
    return investigate(list(map(str, paths)), as_of_ms, _refuse, lambda _: None, topics=topics)


def _refuse(sentence: object) -> None:
    raise AssertionError(sentence)


def blocking(findings: tuple[Finding, ...]) -> list[tuple[object, ...]]:
    """Return what findings on open transactions say."""
    return [
        (one.code.name, one.severity, one.first_offset, one.message, one.remedy, one.exactness, str(one.evidence))
        for one in findings
        if one.code.name in BLOCKING
    ]


def audited(investigation: Investigation) -> dict[Place, list[str]]:
    """Return what an audit says of open transactions, by partition."""
    said = defaultdict[Place, list[tuple[object, ...]]](list)
    for result in audit_results(investigation, AuditRequest(copies=True), lambda _: None):
        said[result.place] += blocking(result.findings)
    return {place: sorted(map(str, rows)) for place, rows in said.items() if rows}


def asked(investigation: Investigation) -> dict[Place, list[str]]:
    """Return what ``lso`` says of open transactions, by partition."""
    answers = LsoQuestion().answers(investigation, _raise)
    said = {answer.state.partition.place: sorted(map(str, blocking(answer.findings))) for answer in answers}
    return {place: rows for place, rows in said.items() if rows}


def _raise(error: InputError) -> None:
    raise error


@pytest.mark.parametrize("hours", some([1, 0, 24], 3))
@pytest.mark.parametrize("scenario", some(SCENARIOS, 2))
def test_lso_says_of_open_transactions_what_audit_says(scenario: str, hours: int) -> None:
    investigation = investigated(SAMPLES / scenario, as_of_ms=taken_ms(scenario) + hours * HOUR_MS)
    assert asked(investigation) == audited(investigation)


@dataclass(frozen=True)
class Audited:
    """What an audit shows of each folder: the rows of each table, and its findings."""

    results: tuple[PartitionResult, ...]

    @classmethod
    def of(cls, investigation: Investigation, **options: Any) -> Audited:
        """Audit all partitions."""
        request = AuditRequest(copies=True, **{"processes": 1, **options})
        return cls(tuple(audit_results(investigation, request, lambda _: None)))

    def rows(self, table: str) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of a table by folder, sorted."""
        by_folder = defaultdict[str, list[dict[str, Any]]](list)
        for result in self.results:
            for row in result.rows.get(table, ()):
                by_folder[result.folder].append(dict(zip(result.rows[table].table.names, row, strict=True)))
        return {folder: sorted(rows, key=repr) for folder, rows in by_folder.items()}

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """The findings of each partition, in their order."""
        return {result.folder: [*result.findings] for result in self.results if result.is_counted and result.findings}

    @property
    def tables(self) -> set[str]:
        """The tables that have rows."""
        return {name for result in self.results for name in result.rows}


def answered(question: Question[Any], investigation: Investigation) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a question by folder, sorted."""
    names, by_folder = RESULTS[question.table].names, defaultdict[str, list[dict[str, Any]]](list)
    for answer in question.answers(investigation, _raise):
        for row in answer.rows:
            by_folder[answer.state.partition.folder].append(dict(zip(names, row, strict=True)))
    return {folder: sorted(rows, key=repr) for folder, rows in by_folder.items()}


def an_hour_later(scenario: str) -> Investigation:
    """Return the partitions of a scenario, evaluated as of an hour after they were copied."""
    return investigated(SAMPLES / scenario, as_of_ms=taken_ms(scenario) + HOUR_MS)


@dataclass(frozen=True)
class Sample:
    """The partitions of a scenario, evaluated as of an hour after they were copied, and what an audit shows of them."""

    name: str
    investigation: Investigation
    audited: Audited


@pytest.fixture(scope="module")
def sample(request: pytest.FixtureRequest) -> Sample:
    """Return each scenario; pytest runs the tests of one of them together."""
    investigation = an_hour_later(request.param)
    return Sample(request.param, investigation, Audited.of(investigation))


@pytest.mark.parametrize("sample", some(EVERY_SAMPLE, 4), indirect=True)
def test_every_command_shows_the_rows_of_an_audit(sample: Sample) -> None:
    investigation, audited_here = sample.investigation, sample.audited
    questions = (LsoQuestion(), LsoQuestion(history=True), TransactionsQuestion(), ProducersQuestion())
    for question in questions:
        assert answered(question, investigation) == audited_here.rows(question.table), question.table


def test_a_pool_of_processes_shows_the_rows_of_an_audit() -> None:
    paths = [SAMPLES / scenario for scenario in some(EVERY_SAMPLE, 3)]
    investigation = investigated(*paths, as_of_ms=WITHOUT_TIME_MS)
    audited_here, in_pool = Audited.of(investigation), Audited.of(investigation, processes=2, split_size=1 << 14)
    assert in_pool.tables == audited_here.tables
    for table in audited_here.tables:
        assert in_pool.rows(table) == audited_here.rows(table), table


@pytest.mark.parametrize("sample", some(EVERY_SAMPLE, 4, 2), indirect=True)
def test_scan_and_verify_say_and_exit_as_audit_does(sample: Sample) -> None:
    paths = "--quiet", "--as-of", taken_ms(sample.name) + HOUR_MS, SAMPLES / sample.name
    audited_here = sample.audited
    scanned = run("scan", "--format", "ndjson", *paths)
    by_place = {row["log_dir"] + repr((row["topic"], row["partition"])): row for row in scanned.rows("partitions")}
    expected = [row for rows in audited_here.rows("partitions").values() for row in rows]
    assert [by_place[row["log_dir"] + repr((row["topic"], row["partition"]))] for row in expected] == [
        {"table": "partitions", **row} for row in expected
    ]
    verified = run("verify", "--format", "ndjson", *paths)
    messages = Counter((row["code"], row["severity"], row["message"], row["exactness"]) for row in verified.objects)
    evidence = [one for found in audited_here.findings.values() for one in found if one.code.name in EVIDENCE]
    assert messages == Counter((one.code.name, str(one.severity), one.message, str(one.exactness)) for one in evidence)
    everything = [one for result in audited_here.results for one in result.findings]
    blocked = [one for found in audited_here.findings.values() for one in found if one.code.name in BLOCKING]
    unread = any(result.why is not None for result in audited_here.results)
    for ended, findings in ((scanned, everything), (verified, evidence), (run("lso", *paths), blocked)):
        fails = any(one.severity >= Severity.ERROR for one in findings)
        assert ended.code == (3 if unread else int(fails))
    assert run("audit", *paths).code == scanned.code


@pytest.mark.parametrize("sample", some(EVERY_SAMPLE, 4), indirect=True)
def test_explain_says_of_offsets_and_producers_what_an_audit_says(sample: Sample) -> None:
    investigation = sample.investigation
    shown = {name: sample.audited.rows(name) for name in ("lso", "transactions", "producers")}
    for partition in some(investigation.partitions, 3):
        (lso,), folder = shown["lso"][partition.folder], partition.folder
        transactions = some(shown["transactions"].get(folder, [])[-20:], 4)
        for offset in {lso["log_start_offset"], *(row["first_offset"] for row in transactions)} - {-1}:
            _same_offset(investigation, partition, offset, lso, transactions)
        topics = () if partition.place.topic is None else (partition.place.topic,)
        for producer in some(shown["producers"].get(folder, [])[:20], 4):
            number = partition.place.partition
            numbers = () if number is None else (range(number, number + 1),)
            subject = Subject(producer_id=producer["producer_id"], topics=topics, numbers=numbers)
            rows = [row for row in explained(investigation, subject) if row["log_dir"] == partition.place.log_dir]
            of_producer = [row for row in transactions if row["producer_id"] == producer["producer_id"]]
            for row in rows:
                assert {name: row[name] for name in row.keys() & producer.keys() - {"aborted", "records"}} == {
                    name: producer[name] for name in row.keys() & producer.keys() - {"aborted", "records"}
                }
                assert row["open"] >= sum(one["outcome"] == "open" for one in of_producer)
                assert row["aborted"] == producer["aborted"]


def _same_offset(
    investigation: Investigation,
    partition: Partition,
    offset: int,
    lso: dict[str, Any],
    transactions: Sequence[dict[str, Any]],
) -> None:
    """Check that an offset is explained by the same bounds and the same transaction."""
    only = investigation.of([partition])
    (story,) = explain_subject(only, Subject(offset=offset), _raise)
    (row,) = explained(only, Subject(offset=offset))
    assert isinstance(story, OffsetStory)
    if partition.has_log:
        for name in ("log_start_offset", "last_stable_offset", "log_end_offset"):
            assert row[name] == lso[name], (partition.folder, offset, name)
        assert story.bounds.exact == lso["exact"], (partition.folder, offset)
        assert (row["holder_producer_id"], row["holder_first_offset"]) == (lso["producer_id"], lso["first_offset"])
    for one in transactions:
        if (one["producer_id"], one["first_offset"]) == (row["producer_id"], row["base_offset"]) and row["outcome"]:
            assert (row["outcome"], row["marker_offset"]) == (one["outcome"], one["marker_offset"])


def explained(investigation: Investigation, subject: Subject) -> list[dict[str, Any]]:
    """Return the rows of a subject."""
    stories = explain_subject(investigation, subject, _raise)
    return [dict(zip(subject.table.names, row, strict=True)) for story in stories for row in story_rows(story)]


def test_the_limits_of_a_cluster_are_those_of_all_its_log_directories(tmp_path: Path) -> None:
    """Transactions of one log directory may be coordinated by the broker of another one, with other settings."""
    first, second = tmp_path / "data-1", tmp_path / "data-2"
    shutil.copytree(V0, first)
    second.mkdir()
    shutil.copy(first / "meta.properties", second)
    shutil.move(first / "hanging-0", second)
    whole = investigated(tmp_path, as_of_ms=taken_ms("transactions-v0") + HOUR_MS)
    longer = Setting("transaction.max.timeout.ms", "7200000", "a test", log_dirs=frozenset([str(first)]))
    investigation = replace(whole, rules=replace(whole.rules, settings=(longer,)))
    assert asked(investigation) == audited(investigation)


@pytest.mark.parametrize("scenario", ["transactions-v0", "transactions-v1", "transactions-v2", "log-dirs"])
def test_a_partition_alone_is_evaluated_as_among_the_others(scenario: str) -> None:
    as_of_ms = taken_ms(scenario) + HOUR_MS
    whole = investigated(SAMPLES / scenario, as_of_ms=as_of_ms)
    expected = audited(whole)
    for partition in whole.partitions:
        alone = investigated(Path(partition.folder), as_of_ms=as_of_ms)
        wanted = {partition.place: expected[partition.place]} if partition.place in expected else {}
        assert asked(alone) == wanted
        assert audited(alone) == wanted


def test_a_topic_is_evaluated_as_among_the_others() -> None:
    as_of_ms = taken_ms("transactions-v0") + HOUR_MS
    expected = audited(investigated(V0, as_of_ms=as_of_ms))
    for topic in ("open", "hanging"):
        said = audited(investigated(V0, as_of_ms=as_of_ms, topics=(topic,)))
        assert said == {place: rows for place, rows in expected.items() if place.topic == topic} != {}


@pytest.mark.parametrize("sample", some(EVERY_SAMPLE, 4, 2), indirect=True)
def test_of_a_selected_topic_the_same_is_found(sample: Sample) -> None:
    """Metadata, coordinators and checkpoints count, too, if only a topic is selected."""

    def alarms(audited_here: Audited) -> dict[str | None, list[tuple[object, ...]]]:
        by_topic = defaultdict[str | None, list[tuple[object, ...]]](list)
        for result in audited_here.results:
            by_topic[result.place.topic] += [
                (one.code.name, one.severity, one.first_offset, one.message, result.folder)
                for one in result.findings
                if one.severity >= Severity.WARNING
            ]
        return {topic: sorted(found) for topic, found in by_topic.items() if found}

    # Findings on internal topics are about other topics, which are not read then.
    alarming = {topic: found for topic, found in alarms(sample.audited).items() if topic and topic[:2] != "__"}
    # The damaged sample has hundreds of topics, each a file for itself, which no other decides about.
    for topic in some(sorted(alarming), len(alarming) // 12 or 1):
        selected = investigated(SAMPLES / sample.name, as_of_ms=taken_ms(sample.name) + HOUR_MS, topics=(topic,))
        assert alarms(Audited.of(selected)) == {topic: alarming[topic]}


def test_no_transaction_hangs_that_its_coordinator_has_as_ongoing() -> None:
    ended = run("lso", "--quiet", "--as-of", AS_OF, V0)
    (blocked,) = [line for line in ended.lines if "producer 16" in line and "blocked by" in line]
    assert "producer 16 ('open-first'), epoch 0" in blocked
    hanging_lines = [line for line in ended.lines if "txn-hanging:" in line]
    assert len(hanging_lines) == 1
    assert "its transactional id 'hanging' has been in state CompleteCommit" in hanging_lines[0]


def test_alone_ignores_the_coordinators_around() -> None:
    ended = run("lso", "--quiet", "--alone", "--as-of", AS_OF, V0 / "open-0")
    assert "open-first" not in ended.text
    assert "open-first" in run("lso", "--quiet", "--as-of", AS_OF, V0 / "open-0").text


def test_transactions_and_producers_name_the_transactional_id() -> None:
    for command in ("transactions", "producers"):
        lines = run(command, "--quiet", "--as-of", AS_OF, V0 / "open-0").lines
        assert any("16" in line.split() and "open-first" in line for line in lines)


def test_the_time_of_evaluation_does_not_depend_on_the_selection(tmp_path: Path) -> None:
    """The newest file is the checkpoint, which a running broker writes every five seconds."""
    copy = Path(shutil.copytree(V0, tmp_path / "broker-1"))
    for path in copy.rglob("*"):
        os.utime(path, (1_800_000_000, 1_800_000_000))
    checkpoint = copy / "replication-offset-checkpoint"
    os.utime(checkpoint, (1_800_012_600, 1_800_012_600))
    selections: list[tuple[list[Path], tuple[str, ...]]] = [
        ([tmp_path], ()),
        ([copy], ()),
        ([copy / "hanging-0"], ()),
        ([copy / "hanging-0" / "00000000000000000000.log"], ()),
        ([copy], ("hanging",)),
    ]
    for paths, topics in selections:
        assert investigated(*paths, topics=topics).rules.as_of_ms == 1_800_012_600_000
    ended = run("lso", copy / "hanging-0")
    assert f"when {checkpoint} was last modified" in ended.err


def test_an_evaluation_before_the_last_write_is_said() -> None:
    ended = run("lso", "--quiet", "--as-of", "2026-11-21T12:00", V0 / "hanging-0")
    assert "6 min 22 s after the time of evaluation" in ended.text
    assert not re.search(r"-[0-9]+ (ms|s|min|h)", ended.text)
    ended = run("transactions", "--quiet", "--as-of", "2026-11-21T12:00", "--state", "open", V0 / "hanging-0")
    assert "not begun" in ended.text


def test_another_copy_of_the_same_broker_is_no_neighbor(tmp_path: Path) -> None:
    for name in ("before", "after"):
        shutil.copytree(V0, tmp_path / name)
    neighbors = investigated(tmp_path / "before" / "open-0").neighbors
    assert {partition.place.log_dir for partition in neighbors} == {str(tmp_path / "before")}


def test_other_log_directories_of_the_cluster_are_neighbors(tmp_path: Path) -> None:
    first, second = tmp_path / "data-1", tmp_path / "data-2"
    shutil.copytree(V0, first)
    second.mkdir()
    shutil.copy(first / "meta.properties", second)
    shutil.move(first / "__transaction_state-0", second)
    stranger = Path(shutil.copytree(SAMPLES / "transactions-v1" / "broker-1", tmp_path / "stranger"))
    neighbors = investigated(first / "open-0").neighbors
    assert str(second / "__transaction_state-0") in {partition.folder for partition in neighbors}
    assert str(stranger) not in {partition.place.log_dir for partition in neighbors}
