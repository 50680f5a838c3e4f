"""What the attacks share: the dice of an input, the samples they begin with, and the error of a failure."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lab.places import SAMPLES

# Takes the dice of an input, and a folder in which to keep the input before it is used.
Attack = Callable[[random.Random, "Path | None"], None]
# Larger samples take too long to read a hundred thousand times.
LARGEST_SAMPLE = 1 << 16


class Weakness(Exception):  # noqa: N818  # the name of what was found
    """Something that kforensics must withstand and does not."""


def input_dice(seed: int, attack: str, number: int) -> random.Random:
    """Return the dice that decide an input."""
    return random.Random(f"{seed}/{attack}/{number}")


def require(condition: object, *facts: Any) -> None:
    """Raise a :class:`Weakness` with these facts unless a condition holds."""
    if not condition:
        raise Weakness(" ".join(fact if isinstance(fact, str) else repr(fact)[:2000] for fact in facts))


@cache
def sample_files(*endings: str) -> tuple[Path, ...]:
    """Return the samples whose names have one of these endings, without empty and large ones, sorted."""
    found = (path for path in sorted(SAMPLES.rglob("*")) if path.name.endswith(endings) and path.is_file())
    return tuple(path for path in found if 0 < path.stat().st_size <= LARGEST_SAMPLE and "golden" not in path.parts)


def keep_bytes(folder: Path | None, name: str, data: bytes) -> None:
    """Write an input to the folder of kept inputs, if there is one."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
