"""Kernels and plain Python in turns over one log: kernels as far as they go, plain Python past where they stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from kforensics.parsers.kernels.engine import Block, Engine

__all__ = ["Steps", "in_turns"]

# After kernels have come to nothing, plain Python goes more and more steps before they are tried again.
MOST_STEPS = 1 << 10

Row_co = TypeVar("Row_co", covariant=True)


class Steps(Protocol[Row_co]):
    """A walk over a log in plain Python.

    Attributes:
        position: behind the last byte walked over; who goes a part of the way sets it.
        refused_sizes: a bit for each order of size of which no batch may be summed.
    """

    position: int

    @property
    def refused_sizes(self) -> int:
        """See the class."""

    def step(self) -> Sequence[Row_co]:
        """Return what stands at the position and go behind it; nothing at the end."""


def in_turns(steps: Steps[Row_co], engine: Engine) -> Iterator[Block | Row_co]:
    """Yield blocks that kernels took and the rows of plain Python between them, in the order of the bytes.

    Args:
        steps: the walk in plain Python.
        engine: what runs the kernels; it is closed at the end.
    """
    turn = 1
    try:
        while True:
            begun = steps.position
            yield from engine.blocks(begun, steps.refused_sizes)
            steps.position = engine.position
            turn = 1 if engine.position > begun else min(2 * turn, MOST_STEPS)
            for _ in range(turn):
                rows = steps.step()
                if not rows:
                    return
                yield from rows
    finally:
        engine.close()
