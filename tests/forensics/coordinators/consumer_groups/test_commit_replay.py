"""Committed offsets read in columns equal the reference, row for row and value for value."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.record_issues import CommitIssueKind
from kforensics.forensics.coordinators.record_rows import offset_commit_rows
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, PartitionState
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.messages.group import (
    CONSUMER_GROUP_MEMBER_METADATA_KEY,
    CONSUMER_GROUP_MEMBER_METADATA_VALUE,
    CONSUMER_GROUP_METADATA_KEY,
    CONSUMER_GROUP_METADATA_VALUE,
    GROUP_METADATA_KEY,
    GROUP_METADATA_VALUE,
    LEGACY_OFFSET_COMMIT_VALUE,
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
)
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON
from tests.forensics.forge import Content, forge
from tests.forensics.large_logs import write_group_offsets
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.parsers.messages.encoder import encode, random_value
from tests.reference.group_commits import commits_by_record

Result = tuple[Commits, list[tuple[str, ...]], list[tuple[Any, ...]], list[dict[str, Any]]]


GROUPS, MOST_BYTES = 100_000, 300


def with_kernels(_size: int) -> Any:
    return load_kernels()


# Kernels make one chunk of a small log. Pure Python makes chunks of a batch or two, so that much is carried over.
VARIANTS = {"python-1": (no_kernels, 1), "python-7": (no_kernels, 7), "python": (no_kernels, 1 << 16)}
VARIANTS |= {"kernels": (with_kernels, 1 << 16)}
EACH_VARIANT = pytest.mark.parametrize(("kernels", "chunk_rows"), list(VARIANTS.values()), ids=list(VARIANTS))


def result(read: Callable[[Callable[[Rows], None]], Commits]) -> Result:
    """Return everything a reading returns, the order of its mappings included."""
    parts: list[Rows] = []
    commits = read(parts.append)
    order = [tuple(map(str, mapping)) for mapping in (commits.last, commits.groups, commits.pending)]
    arrow = [row for part in parts for row in part.record_batch().to_pylist()]
    return commits, order, [row for part in parts for row in part], arrow


def in_columns(state: PartitionState, kernels: KernelPolicy, chunk_rows: int) -> Result:
    def read(keep: Callable[[Rows], None]) -> Commits:
        return commits_of(state, lambda chunk: keep(offset_commit_rows(state.partition, chunk)), kernels, chunk_rows)

    return result(read)


def by_record(state: PartitionState) -> Result:
    return result(lambda keep: commits_by_record(state, keep))


def state_of(folder: Path) -> PartitionState:
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(SOON))


@EACH_VARIANT
def test_samples(kernels: KernelPolicy, chunk_rows: int) -> None:
    """Logs of real brokers and damaged ones; chunks of one batch only for small ones, as some have thousands."""
    logs = 0
    for path in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        for partition in partitions_under(path):
            if partition.place.topic == CONSUMER_OFFSETS and (chunk_rows > 7 or partition.size < 1 << 12):
                state = examine(partition, Rules(SOON))
                assert in_columns(state, kernels, chunk_rows) == by_record(state), partition.folder
                logs += 1
    assert logs > 20


@EACH_VARIANT
def test_random_logs(kernels: KernelPolicy, chunk_rows: int, tmp_path: Path) -> None:
    counts: dict[CommitIssueKind, int] = {}
    pending = removed = lower = started_again = with_members = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        write_random(folder, Random(seed), 40 + 9 * seed)  # noqa: S311  # dice for a log
        state = state_of(folder)
        expected = by_record(state)
        assert in_columns(state, kernels, chunk_rows) == expected, seed
        for kind, count in expected[0].issue_counts.items():
            counts[kind] = counts.get(kind, 0) + count
        pending += len(expected[0].pending)
        removed += sum(row["tombstone"] for row in expected[3])
        lower += sum(reset.removal is None for reset in expected[0].resets)
        started_again += sum(reset.removal is not None for reset in expected[0].resets)
        with_members += sum(bool(reset.group and reset.group.members) for reset in expected[0].resets)
    assert min(counts[kind] for kind in CommitIssueKind) > 0
    assert min(pending, removed, lower, started_again, with_members) > 9


@EACH_VARIANT
def test_random_logs_of_the_old_coordinator(kernels: KernelPolicy, chunk_rows: int, tmp_path: Path) -> None:
    """It has loaded all of them, or only what was there when its broker started."""
    differences = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        write_random(folder, Random(seed), 40 + 9 * seed)  # noqa: S311  # dice for a log
        if seed % 2:
            (folder / ".kafka_cleanshutdown").unlink()
        (partition,) = partitions_under(folder)
        log_dir = partition.place.log_dir
        state = examine(partition, Rules(SOON, releases={log_dir: (3, 9)}, started={log_dir: NOW + 200}))
        expected = by_record(state)
        assert in_columns(state, kernels, chunk_rows) == expected, seed
        differences += expected != by_record(state_of(folder))
    assert differences > 1


def write_random(folder: Path, dice: Random, batches: int) -> None:
    """Write a log of few groups and producers, so that they meet often; committed offsets regress now and then."""
    parts, records, at = {0: list[str]()}, dict[int, list[Content]](), 0
    for number in range(batches):
        if number == batches // 2:
            parts[at] = []  # the second segment
        kind, producer = dice.choice("TTTTPMMM"), dice.randrange(1, 5)
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
    """Return a record: mostly an intact commit, at times a tombstone, another version, or a broken one."""
    fields = {"group": dice.choice("gh"), "topic": "in", "partition": dice.randrange(2)}
    key = dice.choice((b"\x00\x01",) * 9 + (b"\x00\x00",)) + encode(OFFSET_COMMIT_KEY, 1, fields)
    chance = dice.random()
    if chance < 0.1:
        return key, None
    if chance < 0.13:
        return b"\x00\x02" + encode(GROUP_METADATA_KEY, 2, {"group": dice.choice("gik")}), b"\x00\x00"
    if chance < 0.23:
        return random_group(dice)
    return (damaged(key, dice) if chance > 0.97 else key), random_offset(dice, key)


def random_group(dice: Random) -> Content:
    """Return a record of a group: members join and leave, or the group is removed."""
    group, value = dice.choice("gh"), None
    if dice.random() < 0.7:
        version = dice.choice((0, 1, 2, 3, 4))
        fields = random_value(GROUP_METADATA_VALUE, version, dice)
        fields["members"] = fields["members"][: dice.randrange(3)]
        value = version.to_bytes(2, "big") + encode(GROUP_METADATA_VALUE, version, fields)
    if dice.random() < 0.6:
        return b"\x00\x02" + encode(GROUP_METADATA_KEY, 2, {"group": group}), value
    member = {"groupId": group, "memberId": dice.choice("mn")}
    if dice.random() < 0.3:
        epoch = b"\x00\x00" + encode(CONSUMER_GROUP_METADATA_VALUE, 0, {"epoch": dice.randrange(9), "metadataHash": 0})
        return b"\x00\x03" + encode(CONSUMER_GROUP_METADATA_KEY, 0, member), epoch if dice.random() < 0.6 else None
    joined = random_value(CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0, dice)
    encoded = b"\x00\x00" + encode(CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0, joined)
    key = b"\x00\x05" + encode(CONSUMER_GROUP_MEMBER_METADATA_KEY, 0, member)
    return key, encoded if dice.random() < 0.6 else None


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
    """Return bytes truncated, followed by more, or with one of them changed."""
    at = dice.randrange(len(data) + 1)
    kind = dice.randrange(3)
    if kind == 0:
        return data[:at]
    return data + dice.randbytes(3) if kind == 1 else data[:at] + dice.randbytes(1) + data[at + 1 :]


def test_logs_of_all_sizes_are_read_in_columns(tmp_path: Path) -> None:
    for count in (10, 2_000):
        folder = tmp_path / str(count)
        write_random(folder, Random(count), count)  # noqa: S311  # dice for a log
        state = state_of(folder)
        chunks: list[object] = []
        assert commits_of(state, chunks.append, no_kernels) == commits_by_record(state)
        assert {type(chunk) for chunk in chunks} == {CommitColumns}


def test_commits_in_force_take_no_object_each(tmp_path: Path) -> None:
    """What remains of a commit is a row, its key and where its group is first, all in columns; so is their reading."""
    traced_commits(tmp_path / "first", 1)  # what is loaded once
    (few, _), (many, commits) = (traced_commits(tmp_path / str(count), count) for count in (1000, GROUPS))
    assert len(commits.last) == GROUPS
    assert commits.last["group-0000007", "orders", 3].committed == 7
    assert ("group-0000007", "orders", 4) not in commits.last
    assert many - few < (GROUPS - 1000) * MOST_BYTES


def traced_commits(folder: Path, count: int) -> tuple[int, Commits]:
    """Return the committed offsets of many groups, and the bytes of memory that they take."""
    write_group_offsets(folder, count)
    (partition,) = partitions_under(folder)
    state = examine(partition, Rules(NOW))
    tracemalloc.start()
    commits = commits_of(state)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size, commits
