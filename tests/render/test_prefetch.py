"""Prefetching keeps the items and their order, and stops with its consumer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kforensics.render.writers import prefetch


def test_items_keep_their_order() -> None:
    assert list(prefetch(range(100))) == list(range(100))
    assert list(prefetch([])) == []
    assert list(prefetch([None, 0, ""])) == [None, 0, ""]


def test_the_next_item_is_produced_ahead() -> None:
    second = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    for _ in prefetch(items()):
        assert second.wait(10)


def test_errors_are_raised_after_the_items_before_them() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    running = prefetch(items())
    assert next(running) == 1
    with pytest.raises(ValueError, match="broken"):
        next(running)


def test_closing_early_leaves_no_thread() -> None:
    before = threading.active_count()
    items = prefetch(iter(int, 1))
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() == before
