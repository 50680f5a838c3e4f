"""A coordinator's history in columns is what it is record by record, row for row and value for value."""

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
from kforensics.forensics.coordinators.record_rows import StateRows
from kforensics.forensics.coordinators.transactions.history import history_of
from kforensics.forensics.coordinators.transactions.history_records import history_by_record
from kforensics.forensics.coordinators.transactions.history_replay import history_in_columns
from kforensics.forensics.coordinators.transactions.history_types import History
from kforensics.forensics.coordinators.transactions.record_issues import Said
from kforensics.forensics.coordinators.transactions.transitions import LAST_EPOCH, Step
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import SOON, forge_coordinator, key_of, value_of
from tests.forensics.events import NOW
from tests.forensics.forge import Content, forge

TRANSACTION_STATE = "__transaction_state"
TOPICS = ("p", "q")


def with_kernels(_size: int) -> Any:
    return kernels()


# Kernels make one chunk of a small log; plain Python makes chunks of a batch or two, so that much is carried over.
WAYS = {"plain-1": (no_kernels, 1), "plain-7": (no_kernels, 7), "plain": (no_kernels, 1 << 16)}
WAYS |= {"kernels": (with_kernels, 1 << 16)}
EACH_WAY = pytest.mark.parametrize(("choice", "rows"), list(WAYS.values()), ids=list(WAYS))


def told(case: Case, read: Callable[..., History], **options: Any) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """Return everything that a reading says, arrays as what they hold."""
    parts: list[Rows] = []
    rows = StateRows(case.partition, parts.append)
    found = read(case, rows.take, **options)
    rows.finish()
    values = {one.name: getattr(found, one.name) for one in fields(History)}
    values |= {name: (one.dtype, one.tolist()) for name, one in values.items() if isinstance(one, np.ndarray)}
    arrow = [row for part in parts for row in part.record_batch().to_pylist()]
    return values, [row for part in parts for row in part], arrow


@EACH_WAY
def test_samples(choice: Choice, rows: int) -> None:
    """Real brokers' logs and damaged ones; of the large ones not in the smallest chunks."""
    cases = 0
    for path in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        for partition in partitions_under(path):
            if partition.place.topic == TRANSACTION_STATE and (rows > 7 or partition.size < 1 << 12):
                case = examine(partition, Rules(SOON))
                expected = told(case, history_by_record)
                assert told(case, history_in_columns, kernels=choice, chunk_rows=rows) == expected, partition.folder
                cases += 1
    assert cases > 20


@EACH_WAY
def test_random_logs(choice: Choice, rows: int, tmp_path: Path) -> None:
    seen = Counter[object]()
    for seed in range(7):
        dice = Random(seed)  # noqa: S311  # for a log
        case = write_random(tmp_path / str(seed), dice, 60 + 12 * seed, loops=seed % 3 == 0)
        expected = told(case, history_by_record)
        assert told(case, history_in_columns, kernels=choice, chunk_rows=rows) == expected, seed
        seen.update(expected[0]["counts"])
        seen.update(row["step"] for row in expected[2])
        seen.update({"superseded": sum(row[6] for row in expected[0]["instances"][1])})
    assert min(seen[said] for said in Said) > 0
    assert min(seen[str(step)] for step in Step) > 2
    assert seen["superseded"] > 2


@dataclass
class Life:
    """A transactional id as its coordinator has it."""

    producer_id: int
    status: int = 0
    epoch: int = 0
    start: int = -1
    version: int = 0
    listed: list[tuple[str, int]] = field(default_factory=list)
    is_begun: bool = False

    def go_on(self, dice: Random, now: int) -> None:
        """Take a step that is right more often than not."""
        if not self.is_begun:
            self.is_begun = True
        elif self.status in {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}:
            if dice.random() < 0.4:
                self.status, self.epoch, self.listed, self.start = State.EMPTY, self.epoch + 1, [], -1
            else:
                self.status, self.start, self.listed = State.ONGOING, now, [(dice.choice(TOPICS), 0)]
        elif self.status == State.ONGOING:
            if dice.random() < 0.3:
                self.listed = [*self.listed, (dice.choice(TOPICS), dice.randrange(3))]
            else:
                self.status, self.version = (
                    dice.choice((State.PREPARE_COMMIT, State.PREPARE_ABORT)),
                    dice.choice((0, 2)),
                )
                self.epoch += self.version == 2
        elif dice.random() < 0.25:
            self.status = State.PREPARE_COMMIT + State.PREPARE_ABORT - self.status
        else:
            self.status, self.listed = self.status + 2, []
        self.epoch = self.epoch % (1 << 15)

    def go_wrong(self, dice: Random) -> None:
        """Let something be otherwise than it should."""
        match dice.randrange(6):
            case 0:
                self.status = dice.randrange(9)
            case 1:
                self.epoch = dice.choice((0, 1, LAST_EPOCH - 1, LAST_EPOCH))
            case 2:
                self.producer_id = dice.randrange(1, 4)
            case 3:
                self.start = dice.choice((-1, NOW, self.start + 1))
            case 4:
                self.listed = [("q", 7)]

    def value(self, dice: Random, now: int) -> bytes:
        """Return the value of its record."""
        topics: list[dict[str, Any]] = [{"topic": topic, "partitionIds": [number]} for topic, number in self.listed]
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


def write_random(folder: Path, dice: Random, count: int, *, loops: bool = False) -> Case:
    """Write the log of a coordinator; some logs are cleaned, some have holes, and all have records that are broken."""
    lives = {name: Life(number) for number, name in enumerate(("a", "b", "c"), 1)}
    hole = 0.02 if dice.random() < 0.3 else 0.0
    batches, records, now, at = list[str](), dict[int, list[Content]](), NOW, 0
    for _ in range(count):
        size = dice.choice((1, 1, 1, 3))
        now += dice.choice((1, 10, 1_000, 30_000)) if not loops else 1
        batches.append(f"plain @{at}-{at + size - 1} ts {now}")
        records[at] = [random_record(lives, dice, now, loops) for _ in range(size)]
        at += size + (dice.random() < hole)
    options: dict[str, Any] = {"first_dirty": dice.randrange(at)} if dice.random() < 0.4 else {}
    # Two segments, and in some logs a control batch, which coordinators do not write.
    half = list(records)[count // 2]
    if len(records[half]) == 1:
        batches[count // 2] = f"M 1 0 C 0 @{half} ts {now}"
    segments = {0: "; ".join(batches[: count // 2]), half: "; ".join(batches[count // 2 :])}
    forge(folder, segments, topic=TRANSACTION_STATE, records=records, **options)
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(SOON))


def random_record(lives: dict[str, Life], dice: Random, now: int, loops: bool) -> Content:
    name = dice.choice("abc")
    life, key = lives[name], key_of(name)
    chance = dice.random()
    if chance < 0.03:
        lives[name] = Life(dice.randrange(1, 6))
        return key, None
    if chance < 0.05:
        return damaged(key, dice), None
    if loops and chance < 0.8:
        life.status, life.listed = State.EMPTY, []
    else:
        life.go_on(dice, now)
    if chance > 0.9:
        life.go_wrong(dice)
    value = life.value(dice, now)
    return key, damaged(value, dice) if 0.87 < chance < 0.9 else value


def damaged(data: bytes, dice: Random) -> bytes:
    """Return bytes cut off, with more behind them, or with one of them changed."""
    at = dice.randrange(len(data) + 1)
    kind = dice.randrange(3)
    if kind == 0:
        return data[:at]
    return data + dice.randbytes(3) if kind == 1 else data[:at] + dice.randbytes(1) + data[at + 1 :]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_log_that_begins_in_the_middle(rows: int, tmp_path: Path) -> None:
    """Its first record follows nothing, and the second one has nothing before that either."""
    forge_coordinator(tmp_path, "a Ongoing 1 0 {t-0} t 0; a Empty 1 0 t 1")
    (partition,) = partitions_under(tmp_path)
    case = examine(partition, Rules(SOON))
    expected = told(case, history_by_record)
    assert [row["step"] for row in expected[2]] == ["illegal", "illegal"]
    assert told(case, history_in_columns, kernels=no_kernels, chunk_rows=rows) == expected


def test_what_is_small_is_read_record_by_record(tmp_path: Path) -> None:
    """And what is not, in columns: both by the same door."""
    found = {}
    for count in (10, 600):
        case = write_random(tmp_path / str(count), Random(count), count)  # noqa: S311  # dice for a log
        parts: list[object] = []
        history = history_of(case, parts.append, no_kernels)
        assert history.remarks == history_by_record(case).remarks
        found[count] = {type(part).__name__ for part in parts}
    assert found == {10: {"Seen"}, 600: {"SeenColumns"}}
