"""Set-up of a Python worker of Spark that lasts from one task to the next."""

from __future__ import annotations

import gc
from itertools import count

__all__ = ["settle"]

# Tasks started by this process.
STARTED = count(1)


def settle() -> None:
    """Exempt loaded modules from garbage collection; called at the start of a task.

    Spark collects garbage after every task, however short. Traversing modules, which stay, takes longer than reading
    twenty megabytes.
    """
    started = next(STARTED)
    if started & (started - 1) == 0:  # rarely, because frozen objects stay frozen
        gc.freeze()
