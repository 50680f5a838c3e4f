from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kforensics.forensics.keys.partitioner_fit import CountSource, KeySample, PartitionerFit, fit_partitioner
from kforensics.forensics.metadata.topic_metadata import PartitionCount, TopicMetadata
from tests.forensics.keys.topics import topic, truth


def _sample(*generations: tuple[int, int], misplaced: int = 0, seed: int = 1) -> KeySample:
    """Return a number of keys partitioned by each count, and some in random partitions."""
    dice = Random(seed)  # noqa: S311  # dice for tests
    hashes = ((dice.getrandbits(31), count) for count, keys in generations for _ in range(keys))
    rows = [(murmur, murmur % count) for murmur, count in hashes]
    rows += [(dice.getrandbits(31), dice.randrange(generations[-1][0])) for _ in range(misplaced)]
    murmur, partition = zip(*rows, strict=True)
    return KeySample(np.array(murmur), np.array(partition))


def _fit(sample: KeySample, given: int | None = None, metadata: TopicMetadata | None = None) -> PartitionerFit:
    return fit_partitioner(sample, sorted(set(sample.partition.tolist())), given, metadata)


@pytest.mark.parametrize("name", ["keyed", "grown-twice", "compacted", "late-writer"])
def test_estimated_counts_are_those_of_the_broker(name: str) -> None:
    """For ``compacted`` and ``late-writer`` the truth has only the growth: both started with two partitions."""
    grown_to = [row["partitions"] for row in truth()["growth"][name]]
    before = [] if len(grown_to) > 1 else [2]
    fit = topic(name, with_metadata=False).fit
    assert fit.numbers == (*before, *grown_to)
    assert fit.source is CountSource.PARTITIONS
    assert fit.uses_default is True


@pytest.mark.parametrize("name", ["by-hand", "round-robin"])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_other_partitioners_of_real_producers_are_detected(name: str, with_metadata: bool) -> None:
    fit = topic(name, with_metadata=with_metadata).fit
    assert (fit.numbers, fit.uses_default) == ((3,), False)


@pytest.mark.parametrize("counts", [(3,), (2, 4), (3, 5), (1, 6), (1, 3, 5), (4, 6, 12), (7, 64)])
def test_counts_are_estimated_from_the_keys(counts: tuple[int, ...]) -> None:
    fit = _fit(_sample(*((count, 200) for count in counts)))
    assert (fit.numbers, fit.uses_default, fit.share) == (counts, True, 1.0)


@pytest.mark.parametrize("count", [2, 6, 12, 1000])
def test_missing_partitions_are_estimated_from_the_keys(count: int) -> None:
    sample = _sample((count, 30 * count))
    fit = fit_partitioner(sample.take(sample.partition == 0), [0])
    assert (fit.numbers, fit.source) == ((count,), CountSource.KEYS)


def test_few_keys_prove_no_missing_partitions() -> None:
    sample = _sample((12, 60))
    fit = fit_partitioner(sample.take(sample.partition == 0), [0])
    assert (fit.numbers, fit.source, fit.uses_default) == ((1,), CountSource.PARTITIONS, None)


def test_nearly_all_of_a_few_keys_match_a_larger_count_by_chance() -> None:
    """Ten keys of a topic of 0.8 with two partitions: nine of them match four as well."""
    murmur = np.array([0, 1, 4, 5, 8, 9, 12, 13, 16, 2])
    fit = fit_partitioner(KeySample(murmur, murmur % 2), [0, 1])
    assert (fit.numbers, fit.source, fit.share) == ((2,), CountSource.PARTITIONS, 1.0)


@pytest.mark.parametrize(("count", "available"), [(4, [0, 1]), (12, [0]), (12, [0, 1, 2, 3])])
@pytest.mark.parametrize("misplaced", [0, 8])
def test_misplaced_keys_hide_no_missing_partitions(count: int, available: list[int], misplaced: int) -> None:
    """Some misplaced keys match the count of the available partitions by chance."""
    sample = _sample((count, 120 * count))
    left = sample.take(np.isin(sample.partition, available))
    left.partition[:misplaced] = available[-1]
    fit = fit_partitioner(left, available)
    assert (fit.numbers, fit.source) == ((count,), CountSource.KEYS)


@pytest.mark.parametrize("keys", [8, 10, 20])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_no_key_of_a_topic_that_matches_its_partitions_is_misplaced(count: int, keys: int) -> None:
    for seed in range(50):
        assert _fit(_sample((count, keys), seed=seed)).share == 1.0


def test_a_given_count_is_used() -> None:
    fit = _fit(_sample((4, 100)), given=8)
    assert (fit.numbers, fit.source) == ((4, 8), CountSource.GIVEN)


def test_counts_come_from_the_metadata_unless_another_one_is_given() -> None:
    metadata = TopicMetadata("t", "id", (PartitionCount(2, 10), PartitionCount(3, 20)))
    sample = _sample((3, 100))
    assert _fit(sample, None, metadata).counts == metadata.partition_counts
    assert _fit(sample, 3, metadata).source is CountSource.METADATA
    assert _fit(sample, 4, metadata).source is CountSource.GIVEN


def test_some_misplaced_keys_prove_neither_an_earlier_count_nor_another_partitioner() -> None:
    fit = _fit(_sample((4, 400), misplaced=60))
    assert (fit.numbers, fit.uses_default) == ((4,), True)
    assert 0.85 < fit.share < 1


@pytest.mark.parametrize("count", [2, 3, 12])
def test_keys_in_random_partitions_prove_another_partitioner(count: int) -> None:
    """With two partitions half of them match by chance."""
    fit = _fit(_sample((count, 0), misplaced=600))
    assert (fit.numbers, fit.uses_default) == ((count,), False)
    assert fit.by_chance == pytest.approx(1 / count, abs=0.03)


def test_very_many_keys_in_random_partitions_prove_no_earlier_count() -> None:
    """Keys are ordered by partition, and those of the first one alone would match a single partition."""
    sample = _sample((2, 0), misplaced=6_000)
    fit = _fit(sample.take(np.argsort(sample.partition, kind="stable")))
    assert (fit.numbers, fit.uses_default) == ((2,), False)


@pytest.mark.parametrize("misplaced", [0, 30])
@pytest.mark.parametrize("counts", [(3, 5), (2, 4), (4, 12), (1, 3, 5), (2, 4, 8)])
def test_misplaced_keys_hide_no_earlier_count_and_add_none(counts: tuple[int, ...], misplaced: int) -> None:
    fit = _fit(_sample(*((count, 200) for count in counts), misplaced=misplaced))
    assert (fit.numbers, fit.uses_default) == (counts, True)


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("keys", [12, 30, 200])
def test_another_partitioner_is_not_mistaken_for_growth(count: int, keys: int) -> None:
    fits = [_fit(_sample((count, 0), misplaced=keys, seed=seed)) for seed in range(30)]
    assert sum(fit.has_grown for fit in fits) <= 1


@pytest.mark.parametrize(("misplaced", "uses_default"), [(7, None), (40, False)])
def test_a_few_misplaced_keys_prove_nothing(misplaced: int, uses_default: bool | None) -> None:
    """Seven keys and six partitions: one key matches by chance."""
    assert _fit(_sample((6, 0), misplaced=misplaced), given=6).uses_default is uses_default


def test_with_one_partition_the_partitioner_is_unknown() -> None:
    assert _fit(_sample((1, 50))).uses_default is None


@pytest.mark.parametrize(("keys", "placed_by_key", "proven"), [(8, False, 0), (14, True, 40)])
def test_few_keys_in_a_new_partition_prove_growth_only_if_they_belong_there(
    keys: int, placed_by_key: bool, proven: int
) -> None:
    """With one partition every key matched, so the 25 keys that are in the first one show nothing."""
    fits = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        first, second = random.integers(0, 1 << 31, 25), random.integers(0, 1 << 31, keys)
        second = second | 1 if placed_by_key else second
        fits.append(_fit(KeySample(np.concatenate([first, second]), np.repeat([0, 1], [25, keys]))))
    assert sum(fit.has_grown for fit in fits) == proven
