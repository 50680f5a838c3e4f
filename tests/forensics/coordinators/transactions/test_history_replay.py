"""The history of a coordinator in columns equals the reference, row for row and value for value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.record_issues import StateIssueKind
from kforensics.forensics.coordinators.record_rows import state_record_rows
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.history_replay import StateTransitions, history_of
from kforensics.forensics.coordinators.transactions.transitions import MAX_PRODUCER_EPOCH, StateStep
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, forge_coordinator, key_of, value_of
from tests.forensics.forge import Content, forge
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.reference.coordinator_history import history_by_record

TRANSACTION_STATE = "__transaction_state"
TOPICS = ("p", "q")

Result = tuple[dict[str, Any], list[Any], list[Any]]


def with_kernels(_size: int) -> Any:
    return load_kernels()


# Kernels make one chunk of a small log. Pure Python makes chunks of a batch or two, so that much is carried over.
VARIANTS = {"python-1": (no_kernels, 1), "python-7": (no_kernels, 7), "python": (no_kernels, 1 << 16)}
VARIANTS |= {"kernels": (with_kernels, 1 << 16)}
EACH_VARIANT = pytest.mark.parametrize(("kernels", "chunk_rows"), list(VARIANTS.values()), ids=list(VARIANTS))


def result(read: Callable[[Callable[[Rows], None]], History]) -> Result:
    """Return everything a reading returns, with arrays as their contents."""
    parts: list[Rows] = []
    history = read(parts.append)
    values = {attribute.name: getattr(history, attribute.name) for attribute in fields(History)}
    values |= {name: (value.dtype, value.tolist()) for name, value in values.items() if isinstance(value, np.ndarray)}
    arrow = [row for part in parts for row in part.record_batch().to_pylist()]
    return values, [row for part in parts for row in part], arrow


def in_columns(state: PartitionState, kernels: KernelPolicy, chunk_rows: int) -> Result:
    def read(keep: Callable[[Rows], None]) -> History:
        return history_of(state, lambda chunk: keep(state_record_rows(state.partition, chunk)), kernels, chunk_rows)

    return result(read)


def by_record(state: PartitionState) -> Result:
    return result(lambda keep: history_by_record(state, keep))


@EACH_VARIANT
def test_a_copy_that_lacks_segments_which_a_cleaner_merged(
    kernels: KernelPolicy, chunk_rows: int, tmp_path: Path
) -> None:
    """The first was not cleaned: an id has two records. From the second the cleaner may have removed the end."""
    log = {
        0: "a Empty 1 0 t 0; b Empty 2 0 t 1; a Ongoing 1 0 {p-0} t 2",
        20: "a Ongoing 1 0 {p-0} t 30; b Ongoing 2 0 {p-1} t 40",
        40: "c Empty 3 0 t 50; c Ongoing 3 0 {p-0} t 60",
        42: "c PrepareAbort 3 0 {p-0} t 70",
    }
    forge_coordinator(tmp_path, log, clean_shutdown=False)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__transaction_state 0 40\n")
    (partition,) = partitions_under(tmp_path)
    state = examine(partition, Rules(SOON))
    values, *_ = read = in_columns(state, kernels, chunk_rows)
    assert read == by_record(state)
    assert values["lacking"] == ((2, NOW + 2, NOW + 30),)


@EACH_VARIANT
def test_samples(kernels: KernelPolicy, chunk_rows: int) -> None:
    """Logs of real brokers and damaged ones; large ones not in the smallest chunks."""
    logs = 0
    for path in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        for partition in partitions_under(path):
            if partition.place.topic == TRANSACTION_STATE and (chunk_rows > 7 or partition.size < 1 << 12):
                state = examine(partition, Rules(SOON))
                assert in_columns(state, kernels, chunk_rows) == by_record(state), partition.folder
                logs += 1
    assert logs > 20


@pytest.mark.slow
@EACH_VARIANT
def test_random_logs(kernels: KernelPolicy, chunk_rows: int, tmp_path: Path) -> None:
    seen = Counter[object]()
    for seed in range(7):
        dice = Random(seed)  # noqa: S311  # for a log
        state = write_random(tmp_path / str(seed), dice, 60 + 12 * seed, loops=seed % 3 == 0)
        expected = by_record(state)
        assert in_columns(state, kernels, chunk_rows) == expected, seed
        seen.update(expected[0]["issue_counts"])
        seen.update(row["step"] for row in expected[2])
        seen.update({"superseded": sum(row[6] for row in expected[0]["transactions"][1])})
    assert min(seen[kind] for kind in StateIssueKind) > 0
    assert min(seen[str(step)] for step in StateStep) > 2
    assert seen["superseded"] > 2


@dataclass
class IdState:
    """A transactional id as its coordinator has it."""

    producer_id: int
    status: int = 0
    epoch: int = 0
    start: int = -1
    version: int = 0
    partitions: list[tuple[str, int]] = field(default_factory=list)
    has_begun: bool = False

    def go_on(self, dice: Random, now: int) -> None:
        """Make a transition, legal more often than not."""
        if not self.has_begun:
            self.has_begun = True
        elif self.status in {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}:
            if dice.random() < 0.4:
                self.status, self.epoch, self.partitions, self.start = State.EMPTY, self.epoch + 1, [], -1
            else:
                self.status, self.start, self.partitions = State.ONGOING, now, [(dice.choice(TOPICS), 0)]
        elif self.status == State.ONGOING:
            if dice.random() < 0.3:
                self.partitions = [*self.partitions, (dice.choice(TOPICS), dice.randrange(3))]
            else:
                self.status, self.version = (
                    dice.choice((State.PREPARE_COMMIT, State.PREPARE_ABORT)),
                    dice.choice((0, 2)),
                )
                self.epoch += self.version == 2
        elif dice.random() < 0.25:
            self.status = State.PREPARE_COMMIT + State.PREPARE_ABORT - self.status
        else:
            self.status, self.partitions = self.status + 2, []
        self.epoch = self.epoch % (1 << 15)

    def go_wrong(self, dice: Random) -> None:
        """Make something wrong."""
        match dice.randrange(6):
            case 0:
                self.status = dice.randrange(9)
            case 1:
                self.epoch = dice.choice((0, 1, MAX_PRODUCER_EPOCH - 1, MAX_PRODUCER_EPOCH))
            case 2:
                self.producer_id = dice.randrange(1, 4)
            case 3:
                self.start = dice.choice((-1, NOW, self.start + 1))
            case 4:
                self.partitions = [("q", 7)]

    def value(self, dice: Random, now: int) -> bytes:
        """Return the value of the record."""
        topics: list[dict[str, Any]] = [{"topic": topic, "partitionIds": [number]} for topic, number in self.partitions]
        return value_of(
            dice.choice((0, 1, 1, 1)),
            producerId=self.producer_id,
            previousProducerId=dice.choice((-1, -1, self.producer_id, 9)),
            nextProducerId=dice.choice((-1, -1, -1, 8)),
            nextProducerEpoch=dice.choice((-1, 3)),
            producerEpoch=self.epoch,
            transactionStatus=self.status,
            transactionPartitions=topics or (None if dice.random() < 0.5 else []),
            transactionLastUpdateTimestampMs=now,
            transactionStartTimestampMs=self.start,
            clientTransactionVersion=self.version,
        )


def write_random(folder: Path, dice: Random, count: int, *, loops: bool = False) -> PartitionState:
    """Write the log of a coordinator; some logs are compacted, some have offset gaps, and all have broken records."""
    ids = {name: IdState(number) for number, name in enumerate(("a", "b", "c"), 1)}
    offset_gap = 0.02 if dice.random() < 0.3 else 0.0
    batches, records, now, at = list[str](), dict[int, list[Content]](), NOW, 0
    for _ in range(count):
        size = dice.choice((1, 1, 1, 3))
        now += dice.choice((1, 10, 1_000, 30_000)) if not loops else 1
        batches.append(f"plain @{at}-{at + size - 1} ts {now}")
        records[at] = [random_record(ids, dice, now, loops) for _ in range(size)]
        at += size + (dice.random() < offset_gap)
    options: dict[str, Any] = {"first_dirty": dice.randrange(at)} if dice.random() < 0.4 else {}
    # Two segments, and in some logs a control batch, which coordinators do not write.
    half = list(records)[count // 2]
    if len(records[half]) == 1:
        batches[count // 2] = f"M 1 0 C 0 @{half} ts {now}"
    segments = {0: "; ".join(batches[: count // 2]), half: "; ".join(batches[count // 2 :])}
    forge(folder, segments, topic=TRANSACTION_STATE, records=records, **options)
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(SOON))


def random_record(ids: dict[str, IdState], dice: Random, now: int, loops: bool) -> Content:
    name = dice.choice("abc")
    id_state, key = ids[name], key_of(name)
    chance = dice.random()
    if chance < 0.03:
        ids[name] = IdState(dice.randrange(1, 6))
        return key, None
    if chance < 0.05:
        return damaged(key, dice), None
    if loops and chance < 0.8:
        id_state.status, id_state.partitions = State.EMPTY, []
    else:
        id_state.go_on(dice, now)
    if chance > 0.9:
        id_state.go_wrong(dice)
    value = id_state.value(dice, now)
    return key, damaged(value, dice) if 0.87 < chance < 0.9 else value


def damaged(data: bytes, dice: Random) -> bytes:
    """Return bytes truncated, followed by more, or with one of them changed."""
    at = dice.randrange(len(data) + 1)
    kind = dice.randrange(3)
    if kind == 0:
        return data[:at]
    return data + dice.randbytes(3) if kind == 1 else data[:at] + dice.randbytes(1) + data[at + 1 :]


@pytest.mark.parametrize("chunk_rows", [1, 2])
def test_a_log_that_begins_in_the_middle(chunk_rows: int, tmp_path: Path) -> None:
    """Its first record follows nothing, and the second one has nothing before that either."""
    forge_coordinator(tmp_path, "a Ongoing 1 0 {t-0} t 0; a Empty 1 0 t 1")
    (partition,) = partitions_under(tmp_path)
    state = examine(partition, Rules(SOON))
    expected = by_record(state)
    assert [row["step"] for row in expected[2]] == ["illegal", "illegal"]
    assert in_columns(state, no_kernels, chunk_rows) == expected


def test_logs_of_all_sizes_are_read_in_columns(tmp_path: Path) -> None:
    for count in (10, 600):
        state = write_random(tmp_path / str(count), Random(count), count)  # noqa: S311  # dice for a log
        chunks: list[object] = []
        history = history_of(state, chunks.append, no_kernels)
        assert history.issues == history_by_record(state).issues
        assert {type(chunk) for chunk in chunks} == {StateTransitions}
