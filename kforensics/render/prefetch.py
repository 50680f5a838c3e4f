"""An iterator that runs ahead of its consumer, in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["ahead"]

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items while the next one is being made; what making it raises is raised here."""
    source = iter(items)

    def made() -> list[Item]:
        return list(islice(source, 1))

    with ThreadPoolExecutor(1) as pool:
        coming: Future[list[Item]] = pool.submit(made)
        while item := coming.result():
            coming = pool.submit(made)
            yield item[0]
