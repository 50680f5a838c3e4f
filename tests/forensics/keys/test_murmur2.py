from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kforensics.forensics.keys.murmur2 import keys_of, murmur2
from tests.forensics.keys.topics import murmur2_of, truth

# From UtilsTest.testMurmur2 of Kafka: facts about its hash, as signed 32-bit numbers.
OF_KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_the_hash_is_that_of_kafka() -> None:
    hashes, _ = murmur2(keys_of([*OF_KAFKA]))
    assert hashes.tolist() == [signed & 0x7FFFFFFF for signed in OF_KAFKA.values()]


def test_real_producers_put_keys_where_the_hash_says() -> None:
    """What the clients were told, not what lies on disk."""
    sent = [row for row in truth()["sent"]["keyed"] if row["key"] is not None and row["producer"] == "keyed 4"]
    hashes, _ = murmur2(keys_of([row["key"].encode() for row in sent]))
    assert len(sent) > 20
    assert (hashes % 4).tolist() == [row["partition"] for row in sent]


@pytest.mark.parametrize("longest", [3, 4, 9, 40, 700])
@pytest.mark.parametrize("count", [1, 5, 300])
def test_many_at_once_are_hashed_as_one_by_one(longest: int, count: int) -> None:
    dice = Random(longest * count)  # noqa: S311  # dice for tests
    keys = [dice.randbytes(dice.randrange(longest + 1)) for _ in range(count)]
    hashes, others = murmur2(keys_of(keys))
    assert hashes.tolist() == [murmur2_of(key) & 0x7FFFFFFF for key in keys]
    alone = [murmur2(keys_of([key]))[1][0] for key in keys]
    assert others.tolist() == alone


def test_the_other_hash_tells_keys_apart_that_differ_in_anything() -> None:
    """Also where one is the other with zeros behind it, which Kafka's hash alone might not tell."""
    keys = [b"", *(bytes(size) for size in range(1, 40)), *(b"key-%d" % number for number in range(20_000))]
    _, others = murmur2(keys_of(keys))
    assert len(np.unique(others)) == len(keys)


def test_of_no_keys_there_are_no_hashes() -> None:
    assert [len(found) for found in murmur2(keys_of([]))] == [0, 0]
