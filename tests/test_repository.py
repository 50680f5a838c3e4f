"""The rules of the house that no linter knows."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kforensics
from kforensics.errors import PUBLISHED

PACKAGE = Path(kforensics.__file__).parent
LONGEST_FUNCTION, LONGEST_MODULE = 40, 400
HEAVY = {"numba", "pandas", "pyarrow", "pyspark"}
# The names are put together here, so that this file may hold itself to the rule.
ADDRESSES = re.compile(
    "|".join(
        [
            r"\bpypi\." + "org",
            "python" + r"hosted\.org",
            r"\brepo1?\.maven\.",
            r"\bconda\." + "anaconda",
            r"\bregistry\.\w+\." + "org",
            r"--(extra-)?index-" + "url",
            r"--find-" + "links",
            r"(?<![\w.])/(root|work|home/\w+|Users/\w+|opt/wheels)" + r"/",
        ]
    )
)
# Left by tools and never committed; see .gitignore.
LEFT_BY_TOOLS = re.compile(
    r"^(\.git|\.venv|\.lab|dist|out|build)$|^\.\w+_cache$|^__pycache__$|^\.hypothesis$|\.egg-info$"
)

modules = pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda module: module.relative_to(PACKAGE).as_posix()
)


@pytest.mark.repository
@pytest.mark.parametrize("name", ["parsers", "forensics"])
def test_root_link_is_relative_and_leads_into_the_package(root: Path, name: str) -> None:
    link = root / name
    assert link.is_symlink()
    assert link.readlink() == Path("kforensics", name)
    assert (link / "__init__.py").is_file()


@pytest.mark.repository
def test_launcher_prints_the_help_from_any_folder(root: Path, tmp_path: Path) -> None:
    shown = _run(str(root / "cli.py"), "--help", cwd=tmp_path)
    assert "dump" in shown.stdout
    assert (shown.returncode, shown.stderr) == (0, "")


def test_module_prints_the_help(tmp_path: Path) -> None:
    shown = _run("-m", "kforensics", "--help", cwd=tmp_path)
    assert "dump" in shown.stdout
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--help"], ["dump", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    shown = _run("-X", "importtime", "-m", "kforensics", *arguments, cwd=tmp_path)
    assert shown.returncode == 0
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert "typer" in loaded
    assert not loaded & HEAVY


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    shown = _run("-X", "importtime", "-c", "import kforensics", cwd=tmp_path)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert "kforensics" in loaded
    assert not loaded & HEAVY


@modules
def test_module_is_short(module: Path) -> None:
    """No module has more than 400 lines, unless its first lines say that it is generated."""
    lines = module.read_text(encoding="utf-8").splitlines()
    generated = any(re.search(r"\bgenerated\b", line, re.IGNORECASE) for line in lines[:5])
    assert generated or len(lines) <= LONGEST_MODULE


@modules
def test_functions_are_short(module: Path) -> None:
    """No function has over 40 lines besides its docstring, unless a comment `# long: why` on its first line says so."""
    source = module.read_text(encoding="utf-8")
    lines = source.splitlines()
    too_long = [
        f"{function.name} has {length} lines"
        for function, length in _function_lengths(ast.parse(source))
        if length > LONGEST_FUNCTION and "# long: " not in _signature(function, lines)
    ]
    assert too_long == []


@pytest.mark.parametrize(
    ("body", "length"),
    [
        ("    pass\n", 2),
        ('    """One."""\n    pass\n', 2),
        ('    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * 40, 41),
    ],
    ids=["plain", "docstring", "long"],
)
def test_length_of_a_function_leaves_out_its_docstring(body: str, length: int) -> None:
    ((_, counted),) = _function_lengths(ast.parse("def f():\n" + body))
    assert counted == length


@pytest.mark.repository
def test_no_file_names_a_registry_or_a_machine(root: Path) -> None:
    """What is committed works from any place and with any mirror."""
    named = [
        f"{path.relative_to(root)}:{number}: {found.group()}"
        for path, text in _texts(root)
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := ADDRESSES.search(line))
    ]
    assert named == []


@pytest.mark.repository
def test_no_install_line_names_a_package_that_is_not_published(root: Path) -> None:
    """Anyone could publish another package of that name."""
    if PUBLISHED is not None:
        pytest.skip("it is published")
    documents = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "notebooks").glob("*.ipynb")]
    named = re.compile(r"pip install[^`\n]*['\s]kforensics(?!-\d)")
    assert [path.name for path in documents if named.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.repository
def test_constraints_are_pins_and_nothing_else(root: Path) -> None:
    """Each line is `name==version`, with a marker at most: no address, no option, no path."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    odd = [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[\w.+!]+( ; [\w .<>=!'()]+)?", line)]
    assert lines
    assert odd == []


@pytest.mark.repository
def test_the_version_is_stated_once(root: Path) -> None:
    """What else names it, the changelog and names of wheels on pages, names the same."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project.get("version"), project.get("dynamic")) == (None, ["version"])
    assert f"## [{kforensics.__version__}]" in (root / "CHANGELOG.md").read_text(encoding="utf-8")
    pages = [*root.glob("*.md"), *root.glob("docs/*.md")]
    named = {found for page in pages for found in re.findall(r"kforensics-(\d[\w.]*)-", page.read_text("utf-8"))}
    assert named == {kforensics.__version__}


@pytest.mark.repository
def test_every_place_names_the_supported_releases_of_python(root: Path) -> None:
    """`requires-python` decides. What needs pandas may end earlier, and says so in the same line."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    first, end = map(int, re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups())  # type: ignore[union-attr]  # or the test fails
    listed = [entry.rpartition("3.")[2] for entry in project["classifiers"] if "Python :: 3." in entry]
    assert listed == [str(minor) for minor in range(first, end)]
    ranges = {
        (path.relative_to(root).as_posix(), *map(int, found.groups()))
        for path in (*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("scripts/*.sh"))
        for line in path.read_text(encoding="utf-8").splitlines()
        for found in re.finditer(r"Python 3\.(\d+)(?:\u2013|-| to )3\.(\d+)\b(?! \(pandas)", line)
    }
    assert {("README.md", first, end - 1), ("scripts/venv.sh", first, end - 1)} <= ranges
    assert [place for place in ranges if place[1:] != (first, end - 1)] == []
    check = f"(3, {first}) <= sys.version_info[:2] <= (3, {end - 1})"
    assert check in (root / "scripts/venv.sh").read_text(encoding="utf-8")


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


def _function_lengths(tree: ast.AST) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, _last_line(node) - node.lineno + 1 - _docstring_lines(node)


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    return _last_line(first) - first.lineno + 1 if ast.get_docstring(function) is not None else 0


def _last_line(node: ast.stmt) -> int:
    return node.lineno if node.end_lineno is None else node.end_lineno


def _signature(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> str:
    return "\n".join(lines[function.lineno - 1 : function.body[0].lineno - 1])


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.iterdir()):
        if LEFT_BY_TOOLS.search(path.name) or path.is_symlink():
            continue
        if path.is_dir():
            yield from _texts(path)
        elif (text := _text(path)) is not None:
            yield path, text


def _text(path: Path) -> str | None:
    content = path.read_bytes()
    try:
        return None if b"\x00" in content else content.decode()
    except UnicodeDecodeError:
        return None
