from __future__ import annotations

import tracemalloc
from random import Random

import numpy as np
import pytest

from kforensics.forensics.keys.murmur2 import murmur2, pack_keys
from tests.forensics.keys.topics import murmur2_of, truth

# From UtilsTest.testMurmur2 of Kafka, as signed 32-bit numbers.
OF_KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_the_hash_is_that_of_kafka() -> None:
    hashes, _ = murmur2(pack_keys([*OF_KAFKA]))
    assert hashes.tolist() == [signed & 0x7FFFFFFF for signed in OF_KAFKA.values()]


def test_real_producers_put_keys_where_the_hash_says() -> None:
    """Compares with the partitions that the clients were sent, not with the files."""
    sent = [row for row in truth()["sent"]["keyed"] if row["key"] is not None and row["producer"] == "keyed 4"]
    hashes, _ = murmur2(pack_keys([row["key"].encode() for row in sent]))
    assert len(sent) > 20
    assert (hashes % 4).tolist() == [row["partition"] for row in sent]


@pytest.mark.parametrize("longest", [3, 4, 9, 40, 700])
@pytest.mark.parametrize("count", [1, 5, 300])
def test_many_keys_at_once_have_the_hashes_of_single_keys(longest: int, count: int) -> None:
    dice = Random(longest * count)  # noqa: S311  # dice for tests
    keys = [dice.randbytes(dice.randrange(longest + 1)) for _ in range(count)]
    hashes, others = murmur2(pack_keys(keys))
    assert hashes.tolist() == [murmur2_of(key) & 0x7FFFFFFF for key in keys]
    alone = [murmur2(pack_keys([key]))[1][0] for key in keys]
    assert others.tolist() == alone


def test_the_identity_hash_is_distinct_for_distinct_keys() -> None:
    """Also if one key is another one followed by zeros, for which Kafka's hash may be the same."""
    keys = [b"", *(bytes(size) for size in range(1, 40)), *(b"key-%d" % number for number in range(20_000))]
    _, others = murmur2(pack_keys(keys))
    assert len(np.unique(others)) == len(keys)


def test_without_keys_there_are_no_hashes() -> None:
    assert [len(hashes) for hashes in murmur2(pack_keys([]))] == [0, 0]


def test_a_long_key_is_hashed_in_little_memory() -> None:
    """Not as a list of all its words: that took twenty times its size."""
    keys = pack_keys([bytes(range(256)) * 4096])
    tracemalloc.start()
    murmur2(keys)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(keys.data)
