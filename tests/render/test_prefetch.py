"""An iterator that runs ahead gives what it was given, and stops when nobody asks any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kforensics.render.prefetch import ahead


def test_items_come_in_their_order() -> None:
    assert list(ahead(range(100))) == list(range(100))
    assert list(ahead([])) == []
    assert list(ahead([None, 0, ""])) == [None, 0, ""]


def test_the_next_item_is_made_while_one_is_looked_at() -> None:
    second = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    for _ in ahead(items()):
        assert second.wait(10)


def test_what_making_an_item_raises_is_raised_behind_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    running = ahead(items())
    assert next(running) == 1
    with pytest.raises(ValueError, match="broken"):
        next(running)


def test_who_stops_early_leaves_no_thread() -> None:
    before = threading.active_count()
    items = ahead(iter(int, 1))
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() == before
