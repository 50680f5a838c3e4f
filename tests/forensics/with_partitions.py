"""Runs a test with many partitions, those of a sample together: thousands of tests take longer than what they do."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def with_partitions(partitions: Iterable[tuple[str, Any]]) -> Callable[[Test], Test]:
    """Return a decorator that runs a test with each ``partition``; all partitions of a sample are one test.

    A note of the exception names the partition of a failure.

    Args:
        partitions: path of each below the samples, and what the test gets.
    """
    by_sample = defaultdict[str, list[tuple[str, Any]]](list)
    for path, partition in partitions:
        by_sample[path.partition("/")[0]].append((path, partition))

    def decorate(test: Test) -> Test:
        def run(sample: str, **fixtures: Any) -> None:
            for path, partition in by_sample[sample]:
                try:
                    test(partition=partition, **fixtures)
                except BaseException as error:
                    error.add_note(f"partition {path}")
                    raise

        asked = [each for each in inspect.signature(test).parameters.values() if each.name != "partition"]
        sample = inspect.Parameter("sample", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([sample, *asked])  # type: ignore[attr-defined]  # pytest reads it
        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__ = test.__module__
        return cast("Test", pytest.mark.parametrize("sample", sorted(by_sample))(run))

    return decorate
