"""Reads a log with kernels and falls back to pure Python for the batches that they decline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from kforensics.parsers.kernels.engine import Block, Engine

__all__ = ["PythonReader", "read_with_fallback"]

# While kernels make no progress, pure Python takes ever more steps between the attempts, up to this number.
MAX_STEPS = 1 << 10

Row_co = TypeVar("Row_co", covariant=True)


class PythonReader(Protocol[Row_co]):
    """Reads a log in pure Python, step by step.

    Attributes:
        position: after the last byte read. It is set after kernels have read a part of the log.
        refused_sizes: bit n is set if batches whose size has a ``bit_length`` of n must not be checksummed.
    """

    position: int

    @property
    def refused_sizes(self) -> int:
        """See the class."""

    def step(self) -> Sequence[Row_co]:
        """Return the rows at the position and advance past them; nothing at the end."""


def read_with_fallback(reader: PythonReader[Row_co], engine: Engine) -> Iterator[Block | Row_co]:
    """Yield the blocks that kernels read and the rows that pure Python reads between them, in log order.

    Args:
        reader: reads in pure Python.
        engine: runs the kernels; closed at the end.
    """
    steps = 1
    try:
        while True:
            start = reader.position
            yield from engine.blocks(start, reader.refused_sizes)
            reader.position = engine.position
            steps = 1 if engine.position > start else min(2 * steps, MAX_STEPS)
            for _ in range(steps):
                rows = reader.step()
                if not rows:
                    return
                yield from rows
    finally:
        engine.close()
