"""Replicas cleaned as far as dice say are innocent; a record that is gone in spite of all rules is found."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.audit.replica_result import findings_on
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.replicas import newest_records
from kforensics.forensics.replicas.compare import compared
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from tests.forensics.cases import partitions_under
from tests.forensics.replicas.compacted import Log, cleaned, random_log, view, write
from tests.forensics.replicas.replicas import RULES

FAST: Choice = lambda _size: kernels()  # noqa: E731  # a choice for every size
SEEDS = range(30)


def _cleaned(dice: Random, log: Log) -> tuple[Log, int]:
    """Return a log cleaned once or twice, and how far."""
    first, last = sorted(dice.choices(log.bases, k=2))
    log = cleaned(log, first, drops_tombstones=dice.random() < 1 / 2)
    return cleaned(log, last, drops_tombstones=dice.random() < 1 / 2), last


def _compared(folder: Path, one: tuple[Log, int], other: tuple[Log, int], choice: Choice) -> Comparison:
    for number, (log, first_dirty) in enumerate((one, other), 1):
        write(log, folder / f"broker-{number}", number, first_dirty)
    return compared(partitions_under(folder), RULES, kernels=choice)


@pytest.mark.parametrize("choice", [no_kernels, FAST], ids=["plain", "kernels"])
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_cleaned_each_for_itself_are_innocent(tmp_path: Path, seed: int, choice: Choice) -> None:
    dice = Random(seed)  # noqa: S311  # dice for logs, not for secrets
    log = random_log(dice)
    shorter = log.below(dice.choice([log.end, *(span[0] for span in log.batches)][:-1]) or log.end)
    comparison = _compared(tmp_path, _cleaned(dice, log), _cleaned(dice, shorter), choice)
    found = findings_on(comparison)
    assert [one.message for one in found if one.severity >= Severity.WARNING] == []


@pytest.mark.parametrize("choice", [no_kernels, FAST], ids=["plain", "kernels"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_newest_record_that_is_gone_is_found_where_it_makes_a_difference(
    tmp_path: Path, seed: int, choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other replica was never cleaned, so it tells what there was."""
    monkeypatch.setattr(newest_records, "GATHERED", 8)
    dice = Random(seed)  # noqa: S311  # dice for logs, not for secrets
    log = random_log(dice)
    first_dirty = dice.choice(log.bases[-3:])
    lost = dice.choice([one for one in view(log.records).values() if one.offset < first_dirty])
    broken = cleaned(log.without(lost), first_dirty, drops_tombstones=False)
    comparison = _compared(tmp_path, (log, 0), (broken, first_dirty), choice)
    left = view(broken.records).get(lost.key)
    told = [(one.key, one.offset, one.older_offset, str(one.lost)) for one in comparison.unlike_keys]
    if lost.value is None:
        # Only where an older value is there again does it matter that a tombstone is gone.
        matters = left is not None and left.value is not None
        kind = "tombstone"
    else:
        matters, kind = True, "key" if left is None else "value"
    older = None if left is None else left.offset
    assert told == ([(lost.key, lost.offset, older, kind)] if matters else [])
