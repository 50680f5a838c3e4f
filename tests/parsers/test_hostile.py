"""Bounded work: files made to cost time or memory are read in seconds, with the right rows and limited memory."""

from __future__ import annotations

import pytest

from tests.parsers.hostile import CASES, measured

# A walk needs a window and the candidates of a chunk. A batch needs the default budget of 128 MB, twice while it is
# assembled, plus the input and the state of the codec.
MOST_MEGABYTES_TO_WALK, MOST_MEGABYTES = 120, 560
# Files of a few MB; a reader that checksums every corrupt length reads 60 GB and more.
MOST_MEGABYTES_READ = 512
RECORDS = ("bomb", "batch of", "lie", "flood", "very many")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_needs_seconds_and_little_memory(name: str) -> None:
    """The time limit is that of the process, far above what is needed: an unbounded reader takes hours."""
    answer = measured(name)
    assert answer["kinds"] == CASES[name][1]
    assert answer["read"] < MOST_MEGABYTES_READ
    assert answer["grown"] < (MOST_MEGABYTES if any(part in name for part in RECORDS) else MOST_MEGABYTES_TO_WALK)
