"""The examples in the docstrings of public functions run, from the folder of the checkout, and show what they say."""

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

import kforensics
import kforensics.plots

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (kforensics, kforensics.plots)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
}


def run_examples(item: Any, **names: Any) -> None:
    """Run the examples of a docstring; there must be one, and its output is compared."""
    (test,) = doctest.DocTestFinder(recurse=False).find(item, "example", globs={"kforensics": kforensics, **names})
    assert test.examples
    printed: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=printed.append)
    assert not failed, "".join(printed)


@pytest.mark.parametrize(
    "name", [*sorted(FUNCTIONS.keys() - {"kforensics.register", "kforensics.views"}), "kforensics.TableView"]
)
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import altair as alt

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    before = alt.renderers.active
    try:
        run_examples(FUNCTIONS.get(name, kforensics.TableView))
    finally:
        alt.renderers.enable(before)  # an example makes all charts work without a network
