import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.kafka_dump.java import (
    JavaError,
    hash_map_order,
    scala_map_order,
    scala_set_order,
    string_hash,
    topic_partition_hash,
)
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.json_render import double_text


def test_an_error_is_printed_without_stack_frames() -> None:
    error = JavaError("a.B", "why", JavaError("c.D", None, JavaError("e.F", "root")))
    assert error.stderr_lines() == [
        'Exception in thread "main" a.B: why',
        "Caused by: c.D",
        "Caused by: e.F: root",
    ]
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert copy.stderr_lines() == error.stderr_lines()


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("__consumer_offsets", -970371369), ("\U0001f600", 1772899), ("Aa", 2112), ("BB", 2112)],
)
def test_hash_codes_are_javas(text: str, value: int) -> None:
    assert string_hash(text) == value


def test_the_hash_of_a_partition_is_kafkas() -> None:
    assert topic_partition_hash("t", 0) == 31 * 31 + string_hash("t")


def test_texts_are_javas() -> None:
    assert java_utf8(b"\xed\xa0\x80a") == "\ufffda"
    assert double_text(1e7) == "1.0E7"


def test_a_hash_map_is_iterated_by_bucket() -> None:
    """A Java 17 VM printed this order for a map filled with `computeIfAbsent`."""
    keys = [f"/kafka/t-{number}/00000000000000000000.log" for number in range(14)]
    assert [key[9:].split("/")[0] for key in hash_map_order(keys)] == GOLDEN_HASH_MAP


GOLDEN_HASH_MAP = ["13", "12", "8", "2", "6", "0", "11", "1", "9", "5", "10", "4", "3", "7"]


def test_a_small_hash_map_is_enlarged_when_a_bucket_is_full() -> None:
    """A Java 17 VM printed this order for a map filled with `computeIfAbsent`."""
    keys = [chr(0x2031 + 16 * number) for number in range(9)]
    assert [keys.index(key) for key in hash_map_order(keys)] == GOLDEN_FULL_BUCKET


GOLDEN_FULL_BUCKET = [7, 5, 3, 1, 8, 6, 4, 2, 0]


def test_equal_hashes_keep_the_order_of_insertion() -> None:
    assert scala_map_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert scala_set_order([[("x", 5), ("y", 5)]]) == ["x", "y"]


def test_a_hash_map_inserts_a_new_entry_before_the_others_of_its_bucket() -> None:
    assert hash_map_order(["BB", "Aa", "BB"]) == ["Aa", "BB"]


@given(keys=st.lists(st.text(max_size=4)), rng=st.randoms(use_true_random=False))
def test_tables_have_each_key_once(keys: list[str], rng: random.Random) -> None:
    for order in (hash_map_order, scala_map_order):
        assert sorted(order(keys)) == sorted(set(keys))
    groups = [[(key, string_hash(key)) for key in rng.sample(keys, rng.randrange(len(keys) + 1))] for _ in range(3)]
    assert sorted(scala_set_order(groups)) == sorted({key for group in groups for key, _ in group})
