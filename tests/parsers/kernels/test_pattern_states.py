"""Tables of patterns, compared with what ``re`` finds."""

from __future__ import annotations

import re
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.kernels.pattern_states import (
    ASCII,
    END,
    LAST_LINE_FEED,
    MATCH,
    NO_MATCH,
    START,
    SYMBOLS,
    compile_states,
)

ATOMS = [
    *"ab01 K",
    r"\n",
    ".",
    r"\d",
    r"\W",
    r"\s",
    r"\S",
    "[0-4]",
    "[^a]",
    r"[^\d-]",
    "[Z-a]",
    "",
    "(?s:.)",
    "(?i:ab)",
]
POSITIONS = ["^", "$", r"\A", r"\Z", r"\b", r"\bk", "a$b", "(?:^|b)"]
REPEATS = ["{}*", "{}+?", "{}?", "{}{{2}}", "{}{{0,2}}", "{}{{1,}}"]


def _larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = parts.map("(?:{})".format)
    return st.one_of(
        st.lists(parts, min_size=2, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(st.sampled_from(REPEATS), groups).map(lambda pair: pair[0].format(pair[1])),
    )


PATTERNS = st.recursive(st.sampled_from(ATOMS + POSITIONS), _larger, max_leaves=8)
TEXTS = st.text("aAbB0159zZ_-\n \x1fkK", max_size=8)
FLAGS = st.sampled_from([0, re.IGNORECASE, re.DOTALL, re.ASCII, re.VERBOSE])


def finds(states: array[int], text: str) -> bool:
    """Follow a table through a text."""
    state = START
    for index, letter in enumerate(text):
        is_last_line_feed = letter == "\n" and index == len(text) - 1
        state = states[SYMBOLS * state + (LAST_LINE_FEED if is_last_line_feed else ord(letter))]
    state = states[SYMBOLS * state + END]
    assert state in (MATCH, NO_MATCH)
    return state == MATCH


@settings(max_examples=1000, deadline=None)
@given(PATTERNS, FLAGS, st.lists(TEXTS, min_size=10, max_size=10))
def test_a_table_finds_what_re_finds(text: str, flags: int, keys: list[str]) -> None:
    pattern = re.compile(text, flags)
    states = compile_states(pattern)
    assert states, "small patterns have a table"
    for key in ["", "\n", "a\n", *keys]:
        assert finds(states, key) == bool(pattern.search(key)), key


@pytest.mark.parametrize("category", [r"\d", r"\D", r"\s", r"\S", r"\w", r"\W", ".", "[^x]", "[ -~]", "[k-q]"])
@pytest.mark.parametrize("flags", [0, re.ASCII, re.IGNORECASE])
def test_every_letter_is_in_the_right_class(category: str, flags: int) -> None:
    pattern = re.compile(category, flags)
    states = compile_states(pattern)
    assert states
    for code in range(ASCII):
        assert finds(states, chr(code)) == bool(pattern.search(chr(code))), chr(code)


@pytest.mark.parametrize(
    "text",
    [r"\Bkey", r"(a)\1", "(?=a)b", "(?<!a)b", "(?>a)b", "a++", "(?m)^a", "(?i)\u017f", "(?(1)a|b)(c)", "a{1,3000}"],
)
def test_what_a_table_cannot_express_has_none(text: str) -> None:
    assert compile_states(re.compile(text)) is None


def test_a_large_pattern_has_no_table() -> None:
    assert compile_states(re.compile("a.{12}b.{12}$")) is None
    assert compile_states(re.compile("(?:(?:){4000000}a{60}){60}")) is None


def test_a_repeated_nothing_takes_no_nodes() -> None:
    assert compile_states(re.compile("(?:){4000000000}b"))
