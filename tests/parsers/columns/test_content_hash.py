from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.format.rows import Header, Record

ALL = (1 << 64) - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

texts = st.binary(max_size=40)
contents = st.builds(
    lambda key, value, headers: Record(0, 0, -1, key, value, tuple(headers)),
    texts | st.none(),
    texts | st.none(),
    st.lists(st.tuples(texts, texts | st.none()), max_size=3),
)


def _mixed(word: int) -> int:
    word = (word ^ word >> 30) * FIRST & ALL
    word = (word ^ word >> 27) * SECOND & ALL
    return word ^ word >> 31


def by_definition(record: Record) -> tuple[int, int]:
    """Return the hash as the module's docstring defines it, computed with Python's integers."""
    parts = [record.key, record.value, *(part for header in record.headers for part in header)]
    words: list[int] = []
    for part in parts:
        words.append(ALL if part is None else len(part))
        words.extend(int.from_bytes((part or b"")[at : at + 8], "little") for at in range(0, len(part or b""), 8))
    places = [(index + 1) * STEP & ALL for index in range(len(words))]
    mixed = [_mixed(word ^ place) for word, place in zip(words, places, strict=True)]
    low = _mixed((sum(mixed) + len(words) * STEP) & ALL)
    high = sum(word * (place | 1) for word, place in zip(mixed, places, strict=True))
    return low, _mixed((high + low) & ALL)


@given(st.lists(contents, max_size=5))
def test_many_records_are_hashed_like_each_of_them(records: list[Record]) -> None:
    low, high = content_hashes(records)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [by_definition(record) for record in records]


def test_offset_timestamp_and_sequence_are_not_in_the_hash() -> None:
    low, high = content_hashes([Record(1, 2, 3, b"k", b"v"), Record(4, 5, 6, b"k", b"v")])
    assert (low[0], high[0]) == (low[1], high[1])


def test_different_contents_have_different_hashes() -> None:
    """Null and empty, and equal bytes that are split differently between keys, values and headers."""
    parts: list[bytes | None] = [None, b"", b"\0", b"\0\0", b"a", b"aa", b"a\0", b"12345678", b"123456780", b"1" * 16]
    names: list[tuple[Header, ...]] = [(), ((b"", None),), ((b"", b""),), ((b"a", b"a"),), ((b"a", b"a"),) * 2]
    records = [Record(0, 0, -1, key, value, headers) for key in parts for value in parts for headers in names]
    low, high = content_hashes(records)
    assert len(set(low.tolist())) == len(records)
    assert len(set(high.tolist())) == len(records)


def test_counters_spread_over_all_first_bits() -> None:
    """Records that differ in one digit are spread evenly over buckets."""
    low, high = content_hashes([Record(0, 0, -1, b"key-%d" % n, b"value-%d" % n) for n in range(1 << 14)])
    for half in (low, high):
        counts = np.bincount((half >> np.uint64(58)).astype("i8"), minlength=64)
        assert counts.min() > 150
        assert counts.max() < 370
    assert all(len(set(pair)) == 2 for pair in combinations(low[:50].tolist(), 2))
