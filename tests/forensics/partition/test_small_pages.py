"""Results do not depend on how many transactions of a partition are in memory at a time."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.analyses.context import Context
from kforensics.analyses.lso import LsoQuestion
from kforensics.analyses.partitions import Investigation
from kforensics.analyses.transactions import SORTS, TransactionsQuestion
from kforensics.cli import lso, transactions
from kforensics.forensics.audit.audit_scope import (
    AuditScope,
    chunk_from_wire,
    evaluate_partition,
    finish_evaluation,
    read_task,
    summarize_split,
)
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import PartitionStateBuilder
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.render.lso_text import LsoText
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import Screen
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Aborted, aborted_transactions, forge
from tests.forensics.partition.small_pages import PAGE_SIZE, use_small_pages
from tests.forensics.partition_states import HOUR, each_sample, partitions_under, random_leader_log, state_under

LATER = NOW + 30 * HOUR
QUESTIONS = [
    LsoQuestion(history=True),
    *(TransactionsQuestion(sort=sort) for sort in SORTS),
    TransactionsQuestion(("aborted", "open"), min_duration_ms=1),
]


def evaluate(partition: Partition, *, records: bool = False) -> PartitionResult:
    """Return the result of a partition."""
    return evaluate_partition(partition, AuditScope(Rules(LATER), records=records), 0)


def values(result: PartitionResult) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows, and the findings with all their fields."""
    rows = {name: list(stream) for name, stream in result.rows.items()}
    findings = [(each.code.name, each.message, each.evidence, each.benign) for each in result.findings]
    return {**rows, "all findings": findings}


def with_random_times(dice: Random, text: str) -> str:
    """Return a log with random timestamps, and some markers of later epochs than their data."""
    steps = (0, 0, 0, 1, 900, HOUR // 2, -HOUR, -HOUR * 24 * 30)
    text = "; ".join(f"{batch} ts {NOW + dice.choice(steps)}" for batch in text.split("; ")) if text else "plain @0"
    return text.replace("M 1 0", "M 1 2", 1).replace("M 2 0", "M 2 4", 2)


def with_wrong_entries(dice: Random, entries: list[Aborted]) -> list[Aborted]:
    """Return entries: some are missing, some have another last stable offset, and an invented one is added."""
    kept = [entry for entry in entries if dice.random() < 0.9]
    changed = [(*entry[:3], entry[3] + (dice.random() < 0.2)) for entry in kept]
    invented = (dice.randrange(1, 6), dice.randrange(40), 40 + dice.randrange(60), 0)
    return sorted([*changed, invented], key=lambda entry: entry[2])


def random_partitions(folder: Path, count: int) -> list[Partition]:
    """Return partitions with random logs, some with wrong transaction indexes."""
    dice = Random(3)  # noqa: S311  # a seed, not a secret
    for number in range(count):
        log = with_random_times(dice, random_leader_log(dice, 120))
        correct = aborted_transactions(log).get(0, [])
        forge(
            folder, log, topic=f"t{number}", txnindex={0: with_wrong_entries(dice, correct) if number % 3 else correct}
        )
    return partitions_under(folder)


def large_partition(folder: Path) -> Partition:
    """Return the largest of some random partitions."""
    return max(random_partitions(folder, 8), key=lambda partition: partition.size)


@each_sample()
def test_results_of_samples_do_not_depend_on_the_page_size(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = values(evaluate(partition))
    with monkeypatch.context() as patches:
        use_small_pages(patches)
        assert values(evaluate(partition)) == expected


@pytest.mark.slow
def test_results_of_random_logs_do_not_depend_on_the_page_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = random_partitions(tmp_path, 60)
    expected = [values(evaluate(partition, records=True)) for partition in partitions]
    use_small_pages(monkeypatch)
    for partition, whole in zip(partitions, expected, strict=True):
        assert values(evaluate(partition, records=True)) == whole
    codes = {finding[0] for whole in expected for finding in whole["all findings"]}
    assert codes >= {
        *("txn-duration-excessive", "txn-write-after-marker", "marker-admin-abort", "txnindex-missing-entry"),
        *("visibility-mismatch", "txnindex-extra-entry", "txnindex-lso-mismatch", "marker-empty", "txn-late"),
    }


# The logs under no path at all.
NOTHING_AROUND = Context(Investigation((), (), Rules(0)), lambda _: None)


def answers(
    state: PartitionState, question: LsoQuestion | TransactionsQuestion
) -> tuple[list[tuple[Any, ...]], list[bytes]]:
    """Return the answer as rows and as text."""
    if isinstance(question, LsoQuestion):
        steps = question.answer(state, NOTHING_AROUND)
        if not question.history:
            with closing(LsoText(Screen())) as stuck:
                lso._add(stuck, steps)
                return list(steps.rows), list(stuck.parts())
        with closing(RankedText(Screen(), "")) as history:
            lso._add_history(history, steps)
            return list(steps.rows), list(history.parts())
    answer = question.answer(state, NOTHING_AROUND)
    with closing(RankedText(Screen(), "")) as text:
        transactions._add(text, answer)
        return list(answer.rows), list(text.parts())


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_answers_to_questions_do_not_depend_on_the_page_size(
    question: LsoQuestion | TransactionsQuestion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(7)  # noqa: S311  # a seed, not a secret
    forge(tmp_path, with_random_times(dice, random_leader_log(dice, 400)))
    whole = state_under(tmp_path)
    expected = answers(whole, question)
    use_small_pages(monkeypatch)
    paged = state_under(tmp_path)
    assert (whole.transaction_store.closed.page_count, paged.transaction_store.closed.is_in_memory) == (1, False)
    assert max(len(rows) for rows in paged.transaction_store.closed) <= 3 * PAGE_SIZE
    assert answers(paged, question) == expected
    assert len(expected[0]) > 10


def test_a_result_is_sent_to_another_process_with_the_file_of_its_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = large_partition(tmp_path)
    expected = values(evaluate(partition))
    use_small_pages(monkeypatch)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        result = pool.apply(evaluate, (partition,))
    assert result.rows["transactions"].made.func.__self__.transaction_store.closed.is_in_memory is False  # type: ignore[union-attr]
    assert values(result) == expected
    assert values(result) == expected, "again, after the process has ended"


def test_the_closed_transactions_of_a_split_are_sent_to_another_process_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = large_partition(tmp_path)
    scope, expected = AuditScope(Rules(LATER)), values(evaluate(partition))
    use_small_pages(monkeypatch)
    builder = PartitionStateBuilder(read_task(partition, scope, 0))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        log_chunks, closed, why = pool.apply(summarize_split, (partition, scope, SegmentSplit(0)))
    assert (why, closed.is_in_memory, len(closed) > 10) == (None, False, True)
    assert not any(len(log_chunk.rows.transactions) for log_chunk in log_chunks)
    builder.add(chunk_from_wire(partition, log_chunk) for log_chunk in log_chunks)
    builder.add_closed(closed)
    assert values(finish_evaluation(partition, scope, builder, None, lambda state: state)) == expected


def test_an_unreadable_split_reports_the_reason(tmp_path: Path) -> None:
    partition = large_partition(tmp_path)
    Path(partition.segments[0].path).unlink()
    log_chunks, closed, why = summarize_split(partition, AuditScope(Rules(LATER)), SegmentSplit(0))
    assert (log_chunks, len(closed)) == ([], 0)
    assert why is not None
    assert "cannot read" in why
