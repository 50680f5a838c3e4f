"""What a Python worker of Spark keeps from one task to the next."""

from __future__ import annotations

import gc
from itertools import count

__all__ = ["settle"]

# Tasks that this process has begun.
BEGUN = count(1)


def settle() -> None:
    """Have the collector leave alone what this worker has loaded; to be called as a task begins.

    Spark collects garbage behind every task, however short. To look through modules, which stay, takes it longer than
    a task takes to read twenty megabytes.
    """
    begun = next(BEGUN)
    if begun & (begun - 1) == 0:  # seldom, for what is left alone once is so for good
        gc.freeze()
