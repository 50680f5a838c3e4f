"""Bounded work: files made to cost time or memory end, with the right word, in seconds and some hundred megabytes."""

from __future__ import annotations

import pytest

from tests.parsers.hostile import CASES, measured

# The default budget of 128 MB, twice while it is put together, the input, and what a codec keeps.
MOST_MEGABYTES = 560


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_ends_in_seconds_and_little_memory(name: str) -> None:
    """The bound on time is that of the process, far above what is needed: a reader without bounds takes hours."""
    answer = measured(name)
    assert answer["words"] == CASES[name][1]
    assert answer["grown"] < MOST_MEGABYTES
