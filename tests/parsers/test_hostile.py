"""Bounded work: files made to cost time or memory end, with the right word, in seconds and some hundred megabytes."""

from __future__ import annotations

import pytest

from tests.parsers.hostile import CASES, measured

# To walk takes a window and a piece's candidates. A batch takes the default budget of 128 MB, twice while it is put
# together, beside the input and what a codec keeps.
MOST_MEGABYTES_TO_WALK, MOST_MEGABYTES = 120, 560
# Files of a few MB; a reader that sums every wild length reads sixty thousand MB and more.
MOST_MEGABYTES_READ = 512
RECORDS = ("bomb", "batch of", "lie", "flood", "very many")


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_ends_in_seconds_and_little_memory(name: str) -> None:
    """The bound on time is that of the process, far above what is needed: a reader without bounds takes hours."""
    answer = measured(name)
    assert answer["words"] == CASES[name][1]
    assert answer["read"] < MOST_MEGABYTES_READ
    assert answer["grown"] < (MOST_MEGABYTES if any(word in name for word in RECORDS) else MOST_MEGABYTES_TO_WALK)
