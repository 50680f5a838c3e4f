"""Values that are pickled by the million are restored unchanged, without the slow path of ``dataclasses``."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

from kforensics.forensics.core.record_types import Portable


@dataclass(frozen=True, slots=True)
class _Pair(Portable):
    one: int
    other: tuple[str, ...] = ()


def test_it_arrives_as_it_was() -> None:
    pair = replace(_Pair(1), other=("a", "b"))
    assert pickle.loads(pickle.dumps(pair)) == pair  # noqa: S301  # it was made in this line


def test_it_is_a_call_of_its_class() -> None:
    assert _Pair(1, ("a",)).__reduce__() == (_Pair, (1, ("a",)))
