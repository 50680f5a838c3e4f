"""Notebooks run from top to bottom, in the environment of the tests, and end with the answer to their question."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# kforensics is imported as a whole: `import kforensics`, never one of its modules.
PRIVATE = re.compile(r"^kforensics\.")
# How Altair's own charts, those that are not of kforensics.plots, get at what draws them.
LOADED = re.compile(r"https?://cdn\.")

# Lines that a screen shows.
SCREEN = 50
# A time in milliseconds, and names of columns on lines of their own.
MILLISECONDS = re.compile(r"\b1[67]\d{11}\b")
LONG_LIST = re.compile(r"(?:^ +\"\w+\",\n){4,}", re.MULTILINE)


def _read(notebook: Path) -> Any:
    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]  # it ships half its types


def _shown(notebook: Any) -> Iterator[str]:
    """Yield what cells show as HTML."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield output.get("data", {}).get("text/html", "")


def _texts(notebook: Any) -> Iterator[str]:
    """Yield what cells show as text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield output.get("text") or output.get("data", {}).get("text/plain", "")


notebooks = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
# One that begins with Spark needs Java.
runs = pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(path, marks=[pytest.mark.spark] if "pyspark" in path.read_text("utf-8") else [])
        for path in NOTEBOOKS
    ],
    ids=lambda notebook: notebook.stem,
)


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@runs
# ipykernel and its event loop leave sockets to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_notebook_runs_and_ends_with_an_answer(notebook: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It runs without what earlier runs left in the user's configuration, and prints something at the end."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    read = _read(notebook)
    # The kernel flushes what a cell prints five times a second, and a slow cell prints in several parts.
    client = NotebookClient(
        read,
        timeout=300,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    assert not LOADED.search("".join(_shown(read))), "it shows something that needs a network"
    (output,) = read.cells[-1].outputs
    verdict, _, comparison = output.text.partition("as the live broker's own consumer saw it")
    assert verdict
    assert re.search("live (consumer received|leader said|broker said)", comparison)
    assert max(text.count("\n") for text in _texts(read)) < SCREEN, "it fills more than a screen"


@notebooks
def test_notebook_asks_first_and_answers_last(notebook: Path) -> None:
    cells = _read(notebook).cells
    assert cells[0].cell_type == "markdown"
    assert "?" in cells[0].source.splitlines()[0]
    assert cells[-2].source.startswith("## The answer")


@notebooks
def test_notebook_is_readable(notebook: Path) -> None:
    source = "\n".join(cell.source for cell in _read(notebook).cells)
    assert not MILLISECONDS.search(source), "it has a time in milliseconds"
    assert not LONG_LIST.search(source), "it has a long list of columns"


@notebooks
def test_notebook_is_listed_with_its_question(notebook: Path) -> None:
    question = _read(notebook).cells[0].source.splitlines()[0].removeprefix("# ")
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"| [`{notebook.name}`]({notebook.name}) | {question} |" in page
    document = (FOLDER.parent / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert f"| [`{notebook.stem}`](../notebooks/{notebook.name}) | {question} |" in document


@notebooks
def test_notebook_is_kept_without_outputs(notebook: Path) -> None:
    cells = [cell for cell in _read(notebook).cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


@notebooks
def test_notebook_uses_the_public_library_only(notebook: Path) -> None:
    source = "\n".join(cell.source for cell in _read(notebook).cells if cell.cell_type == "code")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [f"{node.module}."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert "kforensics" in imported
    assert not [name for name in imported if PRIVATE.match(name)]
