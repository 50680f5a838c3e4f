"""Compiles a regular expression into a table of states, which kernels follow byte by byte through the key of a record.

The table answers for ASCII text only, as the letters of other text span bytes, and only for patterns without
references, multiple lines and looking around. Python's :mod:`re` answers for everything else and defines what is right.
The tree that it parses a pattern into becomes a nondeterministic automaton, and that one a deterministic automaton by
the subset construction (Rabin and Scott).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]  # not public: the tests compare the result with re
from typing import Any

ASCII = 128
# Two more symbols after those of ASCII: a line feed that is the last character, where ``$`` matches too, and the end.
LAST_LINE_FEED, END = ASCII, ASCII + 1
SYMBOLS = ASCII + 2
# The first states of a table. No state is the number of a key that is not ASCII.
NO_MATCH, MATCH, START = range(3)
# Patterns that need more are left to Python; a table then takes at most 260 kB.
MAX_STATES = 1000
MAX_NODES = 2000
EVERYTHING = (1 << ASCII) - 1
LINE_FEED = ord("\n")
WORD = sum(1 << code for code in range(ASCII) if chr(code).isalnum() or chr(code) == "_")
UNSUPPORTED_FLAGS = re.MULTILINE | re.LOCALE
ANYWHERE, AT_START, BEFORE_END, AT_END, AT_BOUNDARY = range(5)
POSITIONS = {
    _constants.AT_BEGINNING: AT_START,
    _constants.AT_BEGINNING_STRING: AT_START,
    _constants.AT_END: BEFORE_END,
    _constants.AT_END_STRING: AT_END,
    _constants.AT_BOUNDARY: AT_BOUNDARY,
}
CATEGORIES = {
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
}


class _UnsupportedError(Exception):
    """The pattern contains something that a table cannot express."""


@lru_cache(maxsize=8)  # a command searches many logs for the same pattern
def compile_states(pattern: re.Pattern[str]) -> array[int] | None:
    """Return the table of a pattern, None if the pattern cannot be expressed by one.

    Args:
        pattern: what to search for in a text.

    Returns:
        ``SYMBOLS`` unsigned 16-bit numbers for each state: the state that follows it at each symbol.
    """
    try:
        return _Table(_Automaton(pattern)).numbers
    except _UnsupportedError:
        return None


class _Automaton:
    """A nondeterministic automaton.

    Attributes:
        moves: for each node, the nodes that follow a character, with all these characters as the bits of a number.
        jumps: for each node, the nodes that follow without a character, with the position where they do.
        start: the first node; node 0 is the last one.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.moves: list[list[tuple[int, int]]] = []
        self.jumps: list[list[tuple[int, int]]] = []
        self.start = self._sequence(_parser.parse(pattern.pattern, pattern.flags), pattern.flags, self._node())

    def _node(self) -> int:
        if len(self.moves) == MAX_NODES:
            raise _UnsupportedError
        self.moves.append([])
        self.jumps.append([])
        return len(self.moves) - 1

    def _jump(self, *targets: int, position: int = ANYWHERE) -> int:
        node = self._node()
        self.jumps[node] = [(position, target) for target in targets]
        return node

    def _sequence(self, items: Iterable[Any], flags: int, target: int) -> int:
        """Add nodes for the items of a sequence, and return the first one; after them comes the target."""
        if flags & UNSUPPORTED_FLAGS:
            raise _UnsupportedError
        for operation, argument in reversed(list(items)):
            target = self._item(operation, argument, flags, target)
        return target

    def _item(self, operation: Any, argument: Any, flags: int, target: int) -> int:
        if operation is _constants.AT and argument in POSITIONS:
            return self._jump(target, position=POSITIONS[argument])
        if operation is _constants.BRANCH:
            return self._jump(*(self._sequence(branch, flags, target) for branch in argument[1]))
        if operation is _constants.SUBPATTERN:
            _, added, removed, items = argument
            return self._sequence(items, (flags | added) & ~removed, target)
        if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            least, most, items = argument
            return self._repeat(least, most, list(items), flags, target)
        node = self._node()
        self.moves[node] = [(_characters(operation, argument, flags), target)]
        return node

    def _repeat(self, least: int, most: int, items: list[Any], flags: int, target: int) -> int:
        if most is _constants.MAXREPEAT:
            end = self._jump(target)
            self.jumps[end].append((ANYWHERE, self._sequence(items, flags, end)))
        else:
            end = target
            for _ in range(most - least):
                end = self._jump(target, self._sequence(items, flags, end))
        for _ in range(least):
            end, after = self._sequence(items, flags, end), end
            if end == after:  # nothing is repeated, which has no nodes and thus no limit
                break
        return end

    def reachable(self, nodes: Iterable[int], positions: set[int]) -> set[int]:
        """Return the nodes that can be reached without a character at a position that is all of those given."""
        reached, open_nodes = set(nodes), list(nodes)
        while open_nodes:
            for position, target in self.jumps[open_nodes.pop()]:
                if target not in reached and (position == ANYWHERE or position in positions):
                    reached.add(target)
                    open_nodes.append(target)
        return reached


def _characters(operation: Any, argument: Any, flags: int) -> int:
    """Return the characters of ASCII that one item of a pattern means, as the bits of a number."""
    if operation is _constants.ANY:
        return EVERYTHING if flags & re.DOTALL else EVERYTHING & ~(1 << LINE_FEED)
    if operation is _constants.NOT_LITERAL:
        return EVERYTHING & ~_range(argument, argument, flags)
    if operation is not _constants.IN:
        return _member(operation, argument, flags)
    is_negated = argument[0][0] is _constants.NEGATE
    characters = 0
    for member, value in argument[is_negated:]:
        characters |= _member(member, value, flags)
    return EVERYTHING & ~characters if is_negated else characters


def _member(operation: Any, argument: Any, flags: int) -> int:
    if operation is _constants.LITERAL:
        return _range(argument, argument, flags)
    if operation is _constants.RANGE:
        first, last = argument
        return _range(first, last, flags)
    if operation is _constants.CATEGORY:
        category = re.compile(CATEGORIES[argument], flags & re.ASCII)
        return sum(1 << code for code in range(ASCII) if category.match(chr(code)))
    raise _UnsupportedError


def _range(first: int, last: int, flags: int) -> int:
    if not flags & re.IGNORECASE:
        return sum(1 << code for code in range(first, min(last, ASCII - 1) + 1))
    if last >= ASCII:  # the case of some other letters is ASCII
        raise _UnsupportedError
    both = {code for letter in range(first, last + 1) for code in (ord(chr(letter).lower()), ord(chr(letter).upper()))}
    return sum(1 << code for code in both)


class _Table:
    """The deterministic automaton that searches for what an automaton matches.

    A state is a set of nodes, with the word character before it if the pattern has boundaries of words.
    """

    def __init__(self, automaton: _Automaton) -> None:
        self._automaton = automaton
        self._states: dict[tuple[frozenset[int], bool], int] = {}
        self._open: list[tuple[frozenset[int], bool]] = []
        self.numbers = array("H", [NO_MATCH] * SYMBOLS + [MATCH] * SYMBOLS)
        self._symbols = self._equivalent_symbols()
        positions = {position for jumps in automaton.jumps for position, _ in jumps}
        self._has_boundaries = AT_BOUNDARY in positions
        start = frozenset([automaton.start])
        # A match may begin later, too, unless the pattern begins with the start of the text.
        reached = automaton.reachable(start, positions - {AT_START})
        self._later = start if 0 in reached or any(automaton.moves[node] for node in reached) else frozenset[int]()
        self._append(start, is_after_word=False, position=AT_START)
        while self._open:
            self._append(*self._open.pop(0))

    def _equivalent_symbols(self) -> list[list[int]]:
        """Return groups of characters that the pattern treats alike."""
        masks = {WORD, *(mask for moves in self._automaton.moves for mask, _ in moves)}
        groups: dict[tuple[bool, ...], list[int]] = {}
        for code in range(ASCII):
            groups.setdefault(tuple(bool(mask >> code & 1) for mask in masks), []).append(code)
        return list(groups.values())

    def _append(self, nodes: frozenset[int], is_after_word: bool, position: int = ANYWHERE) -> None:
        """Append the row of a state."""
        row = array("H", [NO_MATCH] * SYMBOLS)
        before_word, elsewhere = {position}, {position}
        (elsewhere if is_after_word else before_word).add(AT_BOUNDARY)
        for codes in self._symbols:
            is_word = bool(WORD >> codes[0] & 1)
            state = self._after(nodes, before_word if is_word else elsewhere, codes[0])
            for code in codes:
                row[code] = state
        row[LAST_LINE_FEED] = self._after(nodes, elsewhere | {BEFORE_END}, LINE_FEED)
        is_found = 0 in self._automaton.reachable(nodes, elsewhere | {BEFORE_END, AT_END})
        row[END] = MATCH if is_found else NO_MATCH
        self.numbers.extend(row)

    def _after(self, nodes: frozenset[int], positions: set[int], code: int) -> int:
        """Return the state after a character."""
        reached = self._automaton.reachable(nodes, positions)
        if 0 in reached:
            return MATCH
        moves = self._automaton.moves
        following = self._later | {target for node in reached for mask, target in moves[node] if mask >> code & 1}
        if not following:
            return NO_MATCH
        state = following, self._has_boundaries and bool(WORD >> code & 1)
        if state not in self._states:
            if len(self._states) == MAX_STATES:
                raise _UnsupportedError
            self._states[state] = START + 1 + len(self._states)
            self._open.append(state)
        return self._states[state]
