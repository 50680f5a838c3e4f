"""Reports put together from the reports of parts: the same lines, however the partitions were dealt out."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise

import pytest

from kforensics.analyses.pool import judgements
from kforensics.forensics.audit.audit_scope import Asked
from kforensics.forensics.audit.partition_result import Judgement, unread
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.log.log_rows import Place
from kforensics.render.report import Report
from tests.command import SAMPLES

AS_OF_MS = 1_795_264_200_000


@cache
def _judged() -> list[Judgement]:
    files = [
        row
        for row in discover([str(SAMPLES / "transactions-v2"), str(SAMPLES / "ghosts")])
        if isinstance(row, FoundFile)
    ]
    found = list(judgements(partitions_of(files), Asked(Rules(AS_OF_MS)), lambda _: None))
    gone = [unread(Place(1, "/logs", "t", number), f"/logs/t-{number}", 5, "it is gone") for number in range(3)]
    return [*gone, *found]


@pytest.mark.parametrize("seed", range(8))
def test_reports_of_parts_are_the_report_of_all(seed: int) -> None:
    dice, found = random.Random(seed), _judged()  # noqa: S311  # dice for an order
    expected = Report(AS_OF_MS)
    for judgement in found:
        expected.add(judgement)
    shuffled = dice.sample(found, len(found))
    cuts = sorted([0, *dice.sample(range(len(found)), 5), len(found)])
    merged = Report(AS_OF_MS)
    for start, stop in pairwise(cuts):
        part = Report(AS_OF_MS)
        for judgement in shuffled[start:stop]:
            part.add(judgement)
        merged.merge(part)
    assert list(merged.lines()) == list(expected.lines())
    assert (merged.worst, merged.unread_count) == (expected.worst, 3)
    assert sum(line.startswith("  not read: t-") for line in expected.lines()) == 3


def test_a_report_of_nothing_that_could_be_read_calls_nothing_clean() -> None:
    unread_only = Report(AS_OF_MS, places=1)
    assert list(unread_only.lines()) == ["NOTHING COULD BE READ: 0 partitions, 0 bytes of log"]
    for judgement in _judged()[:2]:
        unread_only.add(judgement)
    first, *rest = unread_only.lines()
    assert first == "NOTHING COULD BE READ: 2 partitions, 10 bytes of log"
    assert [line.endswith(": it is gone") for line in rest] == [True] * 2


def test_a_place_that_could_not_be_looked_into_is_in_the_verdict() -> None:
    part, whole = Report(AS_OF_MS), Report(AS_OF_MS, places=1)
    part.add(next(one for one in _judged() if one.why is None and one.worst is None))
    whole.merge(part)
    assert next(part.lines()).startswith("CLEAN: 1 partition, ")
    assert next(whole.lines()).startswith("CLEAN, AND NOT ALL COULD BE READ: 1 partition, ")
