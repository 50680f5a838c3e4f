"""Randomly cleaned replicas have no findings; a record lost against the cleaner's rules is found."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.audit.copies import compare_copies, replica_findings
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.replicas import key_differences
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.tables.arrow import CHUNK
from tests.forensics.partition_states import partitions_under
from tests.forensics.replicas.compacted import Log, Written, cleaned, random_log, view, write
from tests.forensics.replicas.replicas import RULES

COMPILED: KernelPolicy = lambda _size: load_kernels()  # noqa: E731  # the same kernels for every size
SEEDS = range(30)


def _cleaned(dice: Random, log: Log) -> tuple[Log, int]:
    """Return a log cleaned once or twice, and the first dirty offset."""
    first, last = sorted(dice.choices(log.bases, k=2))
    log = cleaned(log, first, drops_tombstones=dice.random() < 1 / 2)
    return cleaned(log, last, drops_tombstones=dice.random() < 1 / 2), last


def _compared(folder: Path, one: tuple[Log, int], other: tuple[Log, int], policy: KernelPolicy) -> Comparison:
    for number, (log, first_dirty) in enumerate((one, other), 1):
        write(log, folder / f"broker-{number}", number, first_dirty)
    return compare_copies(partitions_under(folder), RULES, kernels=policy)


@pytest.mark.parametrize("policy", [no_kernels, COMPILED], ids=["python", "kernels"])
@pytest.mark.parametrize("seed", SEEDS)
def test_independently_cleaned_replicas_have_no_findings(tmp_path: Path, seed: int, policy: KernelPolicy) -> None:
    dice = Random(seed)  # noqa: S311  # dice for logs, not for secrets
    log = random_log(dice)
    shorter = log.below(dice.choice([log.end, *(span[0] for span in log.batches)][:-1]) or log.end)
    comparison = _compared(tmp_path, _cleaned(dice, log), _cleaned(dice, shorter), policy)
    found = replica_findings(comparison)
    assert [one.message for one in found if one.severity >= Severity.WARNING] == []


@pytest.mark.parametrize("policy", [no_kernels, COMPILED], ids=["python", "kernels"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_newest_record_is_found_if_it_matters(
    tmp_path: Path, seed: int, policy: KernelPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other replica was never cleaned, so it has all records."""
    monkeypatch.setattr(key_differences, "GATHERED_RECORDS", 8)
    dice = Random(seed)  # noqa: S311  # dice for logs, not for secrets
    log = random_log(dice)
    first_dirty = dice.choice(log.bases[-3:])
    lost = dice.choice([one for one in view(log.records).values() if one.offset < first_dirty])
    broken = cleaned(log.without(lost), first_dirty, drops_tombstones=False)
    comparison = _compared(tmp_path, (log, 0), (broken, first_dirty), policy)
    left = view(broken.records).get(lost.key)
    differences = [(key.key, key.offset, key.older_offset, str(key.lost)) for key in comparison.differing_keys]
    if lost.value is None:
        # A missing tombstone matters only if an older value is visible again.
        matters = left is not None and left.value is not None
        kind = "tombstone"
    else:
        matters, kind = True, "key" if left is None else "value"
    older = None if left is None else left.offset
    assert differences == ([(lost.key, lost.offset, older, kind)] if matters else [])


@pytest.mark.slow
@pytest.mark.parametrize("policy", [no_kernels, COMPILED], ids=["python", "kernels"])
def test_every_record_of_a_large_segment_is_compared(tmp_path: Path, policy: KernelPolicy) -> None:
    """Rows are read in chunks; the records around the end of a chunk must be compared like all others."""
    span = CHUNK - 2, CHUNK + 2
    log = Log(
        {
            (first, first + 3): tuple(Written(offset, b"%d" % offset, b"v") for offset in range(first, first + 4))
            for first in range(0, CHUNK + 400, 4)
        },
        (0,),
        CHUNK + 400,
    )
    lost = [row for row in log.records if span[0] <= row.offset < span[1]]
    broken = reduce(Log.without, lost, log)
    comparison = _compared(tmp_path, (log, 0), (broken, log.end), policy)
    assert [key.offset for key in comparison.differing_keys] == list(range(*span))
