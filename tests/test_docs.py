"""The documents say what is so: commands are run, tables and words compared."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import kforensics
from kforensics.analyses.dump import TAILS
from kforensics.cli import app
from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.format import layouts
from kforensics.parsers.tables.schemas import TABLES
from scripts import documented

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PACKAGE = Path(kforensics.__file__).parent
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]  # typer names no class for a group
# Positions of the reason among the arguments of what makes damage.
REASON_ARGUMENT = {"Damage": 2, "Failure": 0, "_Refusal": 0, "invalid_record": 0, "damage": 0, "premature_end": 1}
WORD = re.compile(r"[a-z]+(-[a-z]+)*")
# These have no time of evaluation, or need none: they decode bytes, or read the results of an audit.
TIMELESS = ("collect", "dump", "forecast", "mirror", "query", "report")


def _stem(page: Path) -> str:
    return page.stem


@pytest.mark.repository
@pytest.mark.parametrize("page", [page for page in PAGES if "[[[cog" in page.read_text("utf-8")], ids=_stem)
def test_generated_parts_of_the_documents_are_up_to_date(page: Path) -> None:
    """Console blocks are what the commands print now."""
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"run make docs\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", [page for page in PAGES if "```python\n" in page.read_text("utf-8")], ids=_stem)
def test_python_in_the_documents_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    Path("out").mkdir(exist_ok=True)  # pages write there, and git ignores it
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), {})  # noqa: S102  # it is ours


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_shows_the_command_and_its_output(command: str) -> None:
    shown_in_page = [line for block in documented.blocks(DOCS / f"{command}.md") for line in block]
    assert any(line.startswith(f"kforensics {command} ") and output for line, output in shown_in_page)


def test_documented_commands_state_the_time_of_evaluation() -> None:
    """The files of a fresh checkout are as old as the checkout, so results would differ without it."""
    lines = [line for page in PAGES for block in documented.blocks(page) for line, _ in block]
    evaluating = [line for line in lines if re.match(r"kforensics (\S+)", line) and line.split()[1] not in TIMELESS]
    assert evaluating
    assert [line for line in evaluating if "--as-of " not in line] == []


@pytest.mark.parametrize(
    ("output", "lines", "verdict"),
    [
        (["a", "b", "c"], ["a", "b", "c"], True),
        (["a", "b", "c"], ["a", "…", "c"], True),
        (["a", "b", "c"], ["a", "…"], True),
        (["a", "b", "c"], ["…", "b", "…"], True),
        (["a", "b", "c"], ["a", "…", "b"], False),
        (["a", "b", "c"], ["a", "b"], False),
        (["a"], ["a", "…", "a"], False),
    ],
    ids=["all", "middle", "end", "both", "wrong-end", "too-few", "twice"],
)
def test_an_ellipsis_matches_lines_left_out(output: list[str], lines: list[str], verdict: bool) -> None:
    assert documented.is_shown(output, lines) is verdict


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_function_a_help_with_an_example_and_a_manual_page(command: str) -> None:
    assert callable(getattr(kforensics, command))
    assert command in kforensics.__all__
    (text,) = documented.run((f"kforensics {command} --help",))
    assert any(f"kforensics {command} " in line for line in text if "Usage" not in line)
    manual = (DOCS / f"{command}.md").read_text(encoding="utf-8")
    assert manual.startswith(f"# kforensics {command}\n")
    assert f"kforensics.{command}(" in manual


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_names_every_option(command: str) -> None:
    manual = (DOCS / f"{command}.md").read_text(encoding="utf-8")
    options = [
        option
        for parameter in get_command(app).commands[command].params  # type: ignore[attr-defined]  # typer names no class for a group
        for option in parameter.opts
        if option.startswith("--")
    ]
    if "](options.md)" in manual:  # the options of every command have a page of their own
        manual += (DOCS / "options.md").read_text(encoding="utf-8")
    assert [option for option in options if f"`{option}" not in manual] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_explains_every_exit_code(command: str) -> None:
    manual = (DOCS / f"{command}.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ([0-9]+) \|", manual, re.MULTILINE) == ["0", "1", "2", "3", "130"]


@pytest.mark.parametrize("name", layouts.__all__)
def test_every_layout_is_in_the_page_on_formats(name: str) -> None:
    assert documented.layout(name) in (DOCS / "formats.md").read_text(encoding="utf-8"), "run make docs"


def test_every_table_is_in_the_page_on_tables() -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    assert documented.place() in page, "run make docs"
    assert documented.tables() in page, "run make docs"
    assert documented.verdict_tables() in page, "run make docs"
    assert re.findall("^## (.*)$", page, re.MULTILINE) == [*TABLES, *RESULTS]


def test_every_finding_has_its_paragraph_in_the_page_on_findings() -> None:
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert documented.findings() in page, "run make docs"
    codes = [code for check in ALL_CHECKS for code in check.codes]
    assert len(codes) == len(set(codes))
    assert re.findall(r"^### `([a-z-]+)`$", page, re.MULTILINE) == codes
    assert all(f"| `{severity}` |" in page for severity in Severity)


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.name)
def test_a_finding_says_how_it_comes_about_and_what_else_it_may_be_and_a_bad_one_what_to_do(
    check: Check[Any, Any],
) -> None:
    codes = check.codes.values()
    assert [code.name for code in codes if not (code.why and code.benign)] == []
    assert [code.name for code in codes if code.severity >= Severity.WARNING and not code.remedy] == []


def test_words_that_are_typed_are_set_as_code_in_a_paragraph() -> None:
    text = (
        "See seq-gap-old or seq-gap; run `tool.sh abort --topic {topic}`, not kafka-topics.sh, for <id>. Set a.b.c=x."
    )
    assert documented.literal(text, {"seq-gap", "seq-gap-old"}) == (
        "See [`seq-gap-old`](#seq-gap-old) or [`seq-gap`](#seq-gap); "
        "run `tool.sh abort --topic {topic}`, not `kafka-topics.sh`, for `<id>`. Set `a.b.c=x`."
    )


def test_the_manual_of_verify_lists_what_is_compared() -> None:
    assert documented.checks("evidence") in (DOCS / "verify.md").read_text(encoding="utf-8"), "run make docs"


def test_the_page_on_damage_lists_every_reason_in_the_code_and_no_other() -> None:
    page = (DOCS / "damage.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {reason for module in _modules() for reason in _reasons(ast.parse(module.read_text("utf-8")))}


def test_the_reasons_of_torn_and_unused_tails_are_in_the_page() -> None:
    page = (DOCS / "damage.md").read_text(encoding="utf-8")
    assert all(f"`{reason}`" in page for reason in TAILS)


def test_reasons_in_code_are_found_wherever_they_stand() -> None:
    """The search for reasons would be worth nothing if it found none."""
    code = """
def read(reason="by-default"):
    yield Damage(0, 1, "positional", "x")
    yield Damage(0, 1, reason="keyword", detail="x")
    reason, detail = "assigned", "x"
    reason = "this" if detail else "that"
    yield line.damage("method", "x")
def _fault(line):
    return "returned", "x"
"""
    found = {"by-default", "positional", "keyword", "assigned", "this", "that", "method", "returned"}
    assert set(_reasons(ast.parse(code))) == found


@pytest.mark.repository
def test_readme_shows_the_end_of_make_test() -> None:
    (lines,) = [
        lines for block in documented.blocks(ROOT / "README.md") for command, lines in block if command == "make test"
    ]
    assert re.fullmatch(r"=* ?\d+ passed.* in [\d.]+s.*", lines[-1])


def _modules() -> Iterator[Path]:
    # What dump --style prints for damage is Kafka's text; its reasons are not shown.
    yield from PACKAGE.glob("parsers/**/*.py")
    yield PACKAGE / "kafka_dump" / "plain_run.py"


def _reasons(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for value in _reason_values(node):
            yield from (
                part.value
                for part in _choices(value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and WORD.fullmatch(part.value)
            )


def _reason_values(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Call():
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from node.args[REASON_ARGUMENT.get(name, len(node.args)) :][:1]
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
        case ast.Assign(targets=[ast.Name(id="reason")]):
            yield node.value
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="reason"), *_])], value=ast.Tuple(elts=[first, *_])):
            yield first
        case ast.FunctionDef():
            names = [argument.arg for argument in node.args.args][::-1]
            pairs = zip(names, node.args.defaults[::-1], strict=False)
            yield from (default for name, default in pairs if name == "reason")
            if "fault" in node.name:
                yield from (
                    part.value.elts[0]
                    for part in ast.walk(node)
                    if isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple)
                )


def _choices(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from _choices(value.body)
        yield from _choices(value.orelse)
    else:
        yield value
