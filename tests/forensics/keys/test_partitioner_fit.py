from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kforensics.forensics.keys.partitioner_fit import CountSource, Placing, Sample, placing_of
from kforensics.forensics.metadata.topic_metadata import PartitionCount, TopicMetadata
from tests.forensics.keys.topics import topic, truth


def _placed(*eras: tuple[int, int], astray: int = 0, seed: int = 1) -> Sample:
    """Return so many keys placed with each count, and some placed anywhere with the last one."""
    dice = Random(seed)  # noqa: S311  # dice for tests
    rows = [(number, number % count) for count, many in eras for number in (dice.getrandbits(31) for _ in range(many))]
    rows += [(dice.getrandbits(31), dice.randrange(eras[-1][0])) for _ in range(astray)]
    murmur, partition = zip(*rows, strict=True)
    return Sample(np.array(murmur), np.array(partition))


def _of(sample: Sample, given: int | None = None, metadata: TopicMetadata | None = None) -> Placing:
    return placing_of(sample, sorted(set(sample.partition.tolist())), given, metadata)


@pytest.mark.parametrize("name", ["keyed", "grown-twice", "compacted", "late-writer"])
def test_counts_that_nobody_told_are_those_the_broker_had(name: str) -> None:
    """Of ``compacted`` and ``late-writer`` the truth has only the growth: both began with two partitions."""
    told = [row["partitions"] for row in truth()["growth"][name]]
    before = [] if len(told) > 1 else [2]
    placing = topic(name, with_metadata=False).placing
    assert placing.numbers == (*before, *told)
    assert placing.source is CountSource.PARTITIONS
    assert placing.follows is True


@pytest.mark.parametrize("name", ["by-hand", "round-robin"])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_keys_that_real_producers_placed_otherwise_follow_another_rule(name: str, with_metadata: bool) -> None:
    placing = topic(name, with_metadata=with_metadata).placing
    assert (placing.numbers, placing.follows) == ((3,), False)


@pytest.mark.parametrize("counts", [(3,), (2, 4), (3, 5), (1, 6), (1, 3, 5), (4, 6, 12), (7, 64)])
def test_counts_are_found_by_the_keys(counts: tuple[int, ...]) -> None:
    placing = _of(_placed(*((count, 200) for count in counts)))
    assert (placing.numbers, placing.follows, placing.share) == (counts, True, 1.0)


@pytest.mark.parametrize("count", [2, 6, 12, 1000])
def test_more_partitions_than_are_here_are_found_by_the_keys(count: int) -> None:
    sample = _placed((count, 30 * count))
    placing = placing_of(sample.taken(sample.partition == 0), [0])
    assert (placing.numbers, placing.source) == ((count,), CountSource.KEYS)


def test_few_keys_do_not_tell_of_partitions_that_are_not_here() -> None:
    sample = _placed((12, 60))
    placing = placing_of(sample.taken(sample.partition == 0), [0])
    assert (placing.numbers, placing.source, placing.follows) == ((1,), CountSource.PARTITIONS, None)


def test_what_the_user_says_counts() -> None:
    placing = _of(_placed((4, 100)), given=8)
    assert (placing.numbers, placing.source) == ((4, 8), CountSource.GIVEN)


def test_the_metadata_tells_all_counts_unless_the_user_says_otherwise() -> None:
    metadata = TopicMetadata("t", "id", (PartitionCount(2, 10), PartitionCount(3, 20)))
    sample = _placed((3, 100))
    assert _of(sample, None, metadata).counts == metadata.partition_counts
    assert _of(sample, 3, metadata).source is CountSource.METADATA
    assert _of(sample, 4, metadata).source is CountSource.GIVEN


def test_some_keys_anywhere_are_no_earlier_count_and_no_other_rule() -> None:
    placing = _of(_placed((4, 400), astray=60))
    assert (placing.numbers, placing.follows) == ((4,), True)
    assert 0.85 < placing.share < 1


@pytest.mark.parametrize("count", [2, 3, 12])
def test_keys_that_lie_anywhere_follow_another_rule(count: int) -> None:
    """With two partitions half of them are right by chance."""
    placing = _of(_placed((count, 0), astray=600))
    assert (placing.numbers, placing.follows) == ((count,), False)
    assert placing.by_chance == pytest.approx(1 / count, abs=0.03)


def test_no_earlier_count_is_made_up_where_very_many_keys_lie_anywhere() -> None:
    """They come partition by partition, and those of the first one alone would go with a single partition."""
    sample = _placed((2, 0), astray=6_000)
    placing = _of(sample.taken(np.argsort(sample.partition, kind="stable")))
    assert (placing.numbers, placing.follows) == ((2,), False)


@pytest.mark.parametrize("astray", [0, 30])
@pytest.mark.parametrize("counts", [(3, 5), (2, 4), (4, 12), (1, 3, 5), (2, 4, 8)])
def test_keys_astray_hide_no_earlier_count_and_bring_no_other(counts: tuple[int, ...], astray: int) -> None:
    placing = _of(_placed(*((count, 200) for count in counts), astray=astray))
    assert (placing.numbers, placing.follows) == (counts, True)


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("keys", [12, 30, 200])
def test_another_partitioner_is_taken_for_no_growth(count: int, keys: int) -> None:
    found = [_of(_placed((count, 0), astray=keys, seed=seed)) for seed in range(30)]
    assert sum(placing.has_grown for placing in found) <= 1


@pytest.mark.parametrize(("astray", "follows"), [(7, None), (40, False)])
def test_a_few_keys_anywhere_may_be_anything(astray: int, follows: bool | None) -> None:
    """Seven of them, with six partitions: the one that lies right does so by chance."""
    assert _of(_placed((6, 0), astray=astray), given=6).follows is follows


def test_with_one_partition_every_key_is_right() -> None:
    assert _of(_placed((1, 50))).follows is None
