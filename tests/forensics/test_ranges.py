"""Whatever is said of a partition does not depend on how many of its transactions are in memory at a time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.analyses.questions import SORTS, LsoQuestion, Question, TransactionsQuestion
from kforensics.forensics.audit.audit_scope import Asked, arrived, finished, judged_whole, summarised, task_of
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import Examination
from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from tests.forensics.cases import HOUR, case_of, each_sample, partitions_under, random_log
from tests.forensics.events import NOW
from tests.forensics.forge import Aborted, aborted_transactions, forge
from tests.forensics.ranges import SIZE, tiny_ranges

LATER = NOW + 30 * HOUR
QUESTIONS = [
    LsoQuestion(history=True),
    *(TransactionsQuestion(sort=sort) for sort in SORTS),
    TransactionsQuestion(("aborted", "open"), min_duration_ms=1),
]
Judge = Callable[[], Judgement]


def judge(partition: Partition, *, records: bool = False) -> Judgement:
    """Return everything that is said of a partition."""
    return judged_whole(partition, Asked(Rules(LATER), records=records), 0)


def told(judgement: Judgement) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows, and the findings with all that is in them."""
    rows = {name: list(found) for name, found in judgement.rows.items()}
    return {**rows, "found": [(one.code.name, one.message, one.evidence, one.benign) for one in judgement.findings]}


def spiced(dice: Random, text: str) -> str:
    """Return a log with timestamps all over the place, and some markers of later epochs than their data."""
    steps = (0, 0, 0, 1, 900, HOUR // 2, -HOUR, -HOUR * 24 * 30)
    text = "; ".join(f"{one} ts {NOW + dice.choice(steps)}" for one in text.split("; ")) if text else "plain @0"
    return text.replace("M 1 0", "M 1 2", 1).replace("M 2 0", "M 2 4", 2)


def spoilt(dice: Random, entries: list[Aborted]) -> list[Aborted]:
    """Return entries of which some are gone, some have another last stable offset, and one is made up."""
    kept = [entry for entry in entries if dice.random() < 0.9]
    changed = [(*entry[:3], entry[3] + (dice.random() < 0.2)) for entry in kept]
    made_up = (dice.randrange(1, 6), dice.randrange(40), 40 + dice.randrange(60), 0)
    return sorted([*changed, made_up], key=lambda entry: entry[2])


def random_partitions(folder: Path, count: int) -> list[Partition]:
    """Return partitions with random logs, spoilt transaction indexes among them."""
    dice = Random(3)  # noqa: S311  # a seed, not a secret
    for number in range(count):
        log = spiced(dice, random_log(dice, 120))
        right = aborted_transactions(log).get(0, [])
        forge(folder, log, topic=f"t{number}", txnindex={0: spoilt(dice, right) if number % 3 else right})
    return partitions_under(folder)


def large_partition(folder: Path) -> Partition:
    """Return the largest of some random ones."""
    return max(random_partitions(folder, 8), key=lambda partition: partition.size)


@each_sample()
def test_samples_say_the_same(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told(judge(partition))
    tiny_ranges(monkeypatch)
    assert told(judge(partition)) == expected


def test_random_logs_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = random_partitions(tmp_path, 60)
    expected = [told(judge(partition, records=True)) for partition in partitions]
    tiny_ranges(monkeypatch)
    for partition, whole in zip(partitions, expected, strict=True):
        assert told(judge(partition, records=True)) == whole
    codes = {found[0] for whole in expected for found in whole["found"]}
    assert codes >= {
        *("txn-duration-excessive", "txn-write-after-marker", "marker-admin-abort", "txnindex-missing-entry"),
        *("visibility-mismatch", "txnindex-extra-entry", "txnindex-lso-mismatch", "marker-empty", "txn-late"),
    }


def answers(case: Case, question: Question) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the answer as rows and as lines."""
    answer = question.answer(case)
    return list(answer.rows), list(answer.lines())


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_questions_have_the_same_answers(question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = Random(7)  # noqa: S311  # a seed, not a secret
    forge(tmp_path, spiced(dice, random_log(dice, 400)))
    whole = case_of(tmp_path)
    expected = answers(whole, question)
    tiny_ranges(monkeypatch)
    parts = case_of(tmp_path)
    assert (whole.ledger.closed.ranges, parts.ledger.closed.is_in_memory) == (1, False)
    assert max(len(rows) for rows in parts.ledger.closed) <= 3 * SIZE
    assert answers(parts, question) == expected
    assert len(expected[0]) > 10


def test_a_judgement_goes_to_another_process_with_the_file_of_its_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = large_partition(tmp_path)
    expected = told(judge(partition))
    tiny_ranges(monkeypatch)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply(judge, (partition,))
    assert found.rows["transactions"].made.args[1].closed.is_in_memory is False  # type: ignore[union-attr]
    assert told(found) == expected
    assert told(found) == expected, "a second time, with the process gone"


def test_the_closed_transactions_of_a_split_go_to_another_process_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = large_partition(tmp_path)
    asked, expected = Asked(Rules(LATER)), told(judge(partition))
    tiny_ranges(monkeypatch)
    examination = Examination(task_of(partition, asked, 0))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        stretches, closed, why = pool.apply(summarised, (partition, asked, Split(0)))
    assert (why, closed.is_in_memory, len(closed) > 10) == (None, False, True)
    assert not any(len(stretch.rows.transactions) for stretch in stretches)
    examination.add(arrived(partition, stretch) for stretch in stretches)
    examination.add_closed(closed)
    assert told(finished(partition, asked, examination, None, lambda case: case)) == expected


def test_a_split_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    partition = large_partition(tmp_path)
    Path(partition.segments[0].path).unlink()
    stretches, closed, why = summarised(partition, Asked(Rules(LATER)), Split(0))
    assert (stretches, len(closed)) == ([], 0)
    assert why is not None
    assert "cannot read" in why
