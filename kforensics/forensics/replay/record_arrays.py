"""Records picked, placed, chosen and joined whole.

Numpy goes through a record field by field, and through the rules of type promotion, wherever it is not told that both
sides are of one type. As plain bytes of fixed size records move 15 to 60 times faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kforensics.forensics.replay.results import Records

__all__ = ["are_same", "chosen", "joined_records", "picked", "placed"]


def picked(records: Records, at: Any) -> Records:
    """Return some of the records, by indexes or by a mask."""
    found: Records = _bare(records)[at].view(records.dtype)
    return found


def placed(records: Records, at: Any, values: Records) -> None:
    """Put values in the place of some of the records, which are of the same type."""
    _bare(records)[at] = _bare(values)


def chosen(where: Records, one: Records, other: Records) -> Records:
    """Return the records of ``one`` where a mask holds, else those of ``other``."""
    return np.where(where, _bare(one), _bare(other)).view(one.dtype)


def joined_records(parts: Sequence[Records]) -> Records:
    """Return the records of all parts, of which there is at least one; all are of one type."""
    found = [part for part in parts if len(part)]
    if len(found) < 2:
        return found[0] if found else parts[0]
    return np.concatenate([_bare(part) for part in found]).view(parts[0].dtype)


def are_same(one: Records, other: Records) -> bool:
    """Whether records of one type, which has no gaps between its fields, are byte for byte the same."""
    return len(one) == len(other) and one.tobytes() == other.tobytes()


def _bare(records: Records) -> Records:
    return records.view(_bytes_of_size(records.dtype.itemsize))


@cache
def _bytes_of_size(size: int) -> np.dtype[np.void]:
    return np.dtype((np.void, size))
