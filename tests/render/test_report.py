"""Reports put together from the reports of parts: the same lines, however the partitions were dealt out."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise

import pytest

from kforensics.forensics.asked import Asked
from kforensics.forensics.judgement import Judgement, unread
from kforensics.forensics.partition import partitions_of
from kforensics.forensics.rules import Rules
from kforensics.parsers.discover import FoundFile, discover
from kforensics.parsers.log_rows import Place
from kforensics.pool import judgements
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
