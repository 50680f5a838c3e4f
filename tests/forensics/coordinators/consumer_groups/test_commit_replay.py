"""Commits in columns are what they are record by record, row for row and value for value."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.forensics.coordinators.consumer_groups.commit_records import commits_by_record
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_in_columns
from kforensics.forensics.coordinators.consumer_groups.commit_types import Commits, Spoken
from kforensics.forensics.coordinators.consumer_groups.commits import commits_of
from kforensics.forensics.coordinators.record_rows import OffsetRows
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, Case
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.messages.group import (
    GROUP_METADATA_KEY,
    LEGACY_OFFSET_COMMIT_VALUE,
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
)
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import SOON
from tests.forensics.events import NOW
from tests.forensics.forge import Content, forge
from tests.parsers.messages.encoder import encode, random_value

Told = tuple[Commits, list[tuple[str, ...]], list[tuple[Any, ...]], list[dict[str, Any]]]


def with_kernels(_size: int) -> Any:
    return kernels()


# Kernels make one chunk of a small log; plain Python makes chunks of a batch or two, so that much is carried over.
WAYS = {"plain-1": (no_kernels, 1), "plain-7": (no_kernels, 7), "plain": (no_kernels, 1 << 16)}
WAYS |= {"kernels": (with_kernels, 1 << 16)}
EACH_WAY = pytest.mark.parametrize(("choice", "rows"), list(WAYS.values()), ids=list(WAYS))


def told(case: Case, read: Callable[..., Commits], **options: Any) -> Told:
    """Return everything that a reading says, the order of what it found first included."""
    parts: list[Rows] = []
    rows = OffsetRows(case.partition, parts.append)
    found = read(case, rows.take, **options)
    rows.finish()
    order = [tuple(map(str, some)) for some in (found.last, found.groups, found.pending)]
    arrow = [row for part in parts for row in part.record_batch().to_pylist()]
    return found, order, [row for part in parts for row in part], arrow


def case_of(folder: Path) -> Case:
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(SOON))


@EACH_WAY
def test_samples(choice: Choice, rows: int) -> None:
    """Real brokers' logs and damaged ones; some have thousands of batches, so that chunks of one are enough for few."""
    cases = 0
    for path in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        for partition in partitions_under(path):
            if partition.place.topic == CONSUMER_OFFSETS and (rows > 7 or partition.size < 1 << 12):
                case = examine(partition, Rules(SOON))
                expected = told(case, commits_by_record)
                assert told(case, commits_in_columns, kernels=choice, chunk_rows=rows) == expected, partition.folder
                cases += 1
    assert cases > 20


@EACH_WAY
def test_random_logs(choice: Choice, rows: int, tmp_path: Path) -> None:
    spoken: dict[Spoken, int] = {}
    pending = removed = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        write_random(folder, Random(seed), 40 + 9 * seed)  # noqa: S311  # dice for a log
        case = case_of(folder)
        expected = told(case, commits_by_record)
        assert told(case, commits_in_columns, kernels=choice, chunk_rows=rows) == expected, seed
        for kind, count in expected[0].counts.items():
            spoken[kind] = spoken.get(kind, 0) + count
        pending += len(expected[0].pending)
        removed += sum(row["tombstone"] for row in expected[3])
    assert min(spoken[kind] for kind in Spoken) > 0
    assert min(pending, removed) > 9


def write_random(folder: Path, dice: Random, batches: int) -> None:
    """Write a log of few groups and producers, so that much meets; offsets of records fall back now and then."""
    parts, records, at = {0: list[str]()}, dict[int, list[Content]](), 0
    for number in range(batches):
        if number == batches // 2:
            parts[at] = []  # the second segment
        kind, producer = dice.choice("TTTPPMMM"), dice.randrange(1, 5)
        count = dice.randrange(1, 5)
        if kind == "M":
            parts[max(parts)].append(f"M {producer} 0 {dice.choice('CCA')} 0 @{at} ts {NOW + 3 * at}")
            at += 1
            continue
        head = f"D {producer} 0 0-{count - 1}" if kind == "T" else "plain"
        parts[max(parts)].append(f"{head} @{at}-{at + count - 1}{' T' if kind == 'T' else ''} ts {NOW + 3 * at}")
        records[at] = [random_commit(dice) for _ in range(count)]
        at += count
    forge(folder, {base: "; ".join(some) for base, some in parts.items()}, topic=CONSUMER_OFFSETS, records=records)


def random_commit(dice: Random) -> Content:
    """Return a record: mostly a sound commit, at times a tombstone, another version, or broken."""
    fields = {"group": dice.choice("gh"), "topic": "in", "partition": dice.randrange(2)}
    key = dice.choice((b"\x00\x01",) * 9 + (b"\x00\x00",)) + encode(OFFSET_COMMIT_KEY, 1, fields)
    chance = dice.random()
    if chance < 0.1:
        return key, None
    if chance < 0.13:
        return b"\x00\x02" + encode(GROUP_METADATA_KEY, 2, {"group": dice.choice("gik")}), b"\x00\x00"
    return (damaged(key, dice) if chance > 0.97 else key), random_offset(dice, key)


def random_offset(dice: Random, key: bytes) -> bytes:
    legacy = key[1] == 0 and dice.random() < 0.5
    version = 0 if legacy else dice.choice((1, 2, 3, 3, 3, 4, 4, 4))
    message = LEGACY_OFFSET_COMMIT_VALUE if legacy else OFFSET_COMMIT_VALUE
    value = random_value(message, version, dice)
    value["offset"] = dice.randrange(20)
    if "topicId" in value:
        value["topicId"] = dice.choice(
            ("A" * 22, base64.urlsafe_b64encode(bytes([dice.randrange(2)] * 16)).decode()[:22])
        )
    data = version.to_bytes(2, "big") + encode(message, version, value)
    return damaged(data, dice) if dice.random() < 0.15 else data


def damaged(data: bytes, dice: Random) -> bytes:
    """Return bytes cut off, with more behind them, or with one of them changed."""
    at = dice.randrange(len(data) + 1)
    kind = dice.randrange(3)
    if kind == 0:
        return data[:at]
    return data + dice.randbytes(3) if kind == 1 else data[:at] + dice.randbytes(1) + data[at + 1 :]


def test_what_is_small_is_read_record_by_record(tmp_path: Path) -> None:
    """And what is not, in columns: both by the same door."""
    sizes = {}
    for count in (10, 2_000):
        folder = tmp_path / str(count)
        write_random(folder, Random(count), count)  # noqa: S311  # dice for a log
        case = case_of(folder)
        parts: list[object] = []
        assert commits_of(case, parts.append, no_kernels) == commits_by_record(case)
        sizes[count] = {type(part).__name__ for part in parts}
    assert sizes == {10: {"CommitRecord"}, 2_000: {"CommitColumns"}}
