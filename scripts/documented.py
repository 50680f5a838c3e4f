"""Makes the generated parts of the documents: console blocks, tables, layouts, findings. `make docs` calls it with cog.

A test lets cog check every page, so that no document is out of date. Each part starts and ends
with an empty line, because it is between two comments.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition_checks import CHECK_GROUPS
from kforensics.forensics.core.cluster_tables import COST_TABLES, GROUP_TABLES, ID_TABLES
from kforensics.forensics.core.findings import Code
from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.explain.story_tables import EXPLAIN_TABLES
from kforensics.forensics.forecast.elections import ELECTIONS
from kforensics.forensics.forecast.forecast_rows import FORECAST
from kforensics.forensics.mirrors.mirror_rows import MIRROR
from kforensics.parsers.format import layouts
from kforensics.parsers.format.derived import FixedLayout, fixed_layout
from kforensics.parsers.format.integers import SizedBytes, VarInt, VarLong
from kforensics.parsers.tables.schemas import PLACE, TABLES, Column, Table

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = "…"
PROMPT = "$ "
# Prefixes of commands that can be run on their own, in any checkout.
RUNNABLE = ("kforensics ", "echo ", "rm -rf out/")
# Literal text: commands, options, placeholders, settings, names of files and topics.
LITERAL = (
    r"`[^`]*`",
    r"kafka-[a-z-]+\.sh(?: (?:abort|describe|find-hanging))*",
    r"(?<!\S)--[a-z-]+",
    r"<[a-z:_ ]+>",
    r"\{[a-z_]+\}(?:-\{[a-z_]+\})?",
    r"\b[a-z]+(?:\.[a-z]+)+\b(?:=\w+)?",
    r"(?<!\w)(?:\.[a-z_]+|__[a-z_]+|[a-z]+(?:_[a-z0-9]+)+)\b",
)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def console(*commands: str, lines: int | None = None) -> str:
    """Return a block with commands and their output, both streams as a terminal shows them.

    Args:
        commands: the commands, one line each, run in one shell in the root of the checkout.
        lines: how many lines of each output to show; ``…`` replaces the rest.
    """
    shown = []
    for command, output in zip(commands, run(commands), strict=True):
        kept = output if lines is None or len(output) <= lines else [*output[:lines], LEFT_OUT]
        shown += [PROMPT + command, *kept]
    return "\n".join(["", "```console", *shown, "```", "", ""])


def demo(lines: int) -> str:
    """Return a block with the output of `make demo`: the whole dump, and this many lines of the report."""
    (dump, audit), (dumped, report) = zip(*demo_output(), strict=True)
    shown = [PROMPT + "make demo", LEFT_OUT, dump, *dumped, audit, *report[:lines], LEFT_OUT]
    return "\n".join(["", "```console", *shown, "```", "", ""])


def demo_output() -> list[tuple[str, list[str]]]:
    """Return the lines that `make demo` echoes after the set-up, each with the output of its command.

    Raises:
        ValueError: a command fails.
    """
    recipe = re.findall(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    (sample,) = ROOT.glob("sample_logs/classic-transaction/*/classic-0/00000000000000000000.log")
    values = {"RUN": ".venv/bin/python -m", "BIN": ".venv/bin", "CLASSIC": str(sample.relative_to(ROOT))}
    echoed = [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], line) for line in recipe[0].split("\n")[:-1]]
    echoed = [line.strip() for line in echoed]
    outputs = run(tuple(part for line in echoed for part in (line.replace(".venv/bin/", ""), "echo $?")))
    if any(code != ["0"] for code in outputs[1::2]):
        raise ValueError(f"make demo fails: {outputs}")
    return list(zip(echoed, outputs[::2], strict=True))


def run(commands: tuple[str, ...]) -> list[list[str]]:
    """Return the lines that each command prints; ``echo $?`` prints the exit code of the previous command."""
    mark = "---- end of a command ----"
    (ROOT / "out").mkdir(exist_ok=True)  # commands on pages write there, and git ignores it
    # The mark after each command must not change ``$?`` for the next one.
    script = "\n".join(f"{command}\ncode=$?; echo '{mark}'; (exit $code)" for command in commands)
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    parts = done.stdout.split(f"{mark}\n")[:-1]
    return [[line.rstrip() for line in part.splitlines()] for part in parts]


def environment() -> dict[str, str]:
    """Return an environment in which commands print the same output on every machine."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "SYSTEMROOT", "TMPDIR")}
    return {**kept, "PATH": path, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}


def blocks(page: Path) -> Iterator[list[tuple[str, list[str]]]]:
    """Yield the console blocks of a page, each as a list of commands with their output lines."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        commands: list[tuple[str, list[str]]] = []
        for line in block.splitlines():
            if line.startswith(PROMPT):
                commands.append((line.removeprefix(PROMPT), []))
            else:
                commands[-1][1].append(line)
        yield commands


def is_shown(output: list[str], shown: list[str]) -> bool:
    """Return whether the shown lines match an output, where ``…`` matches any number of lines."""
    if LEFT_OUT not in shown:
        return output == shown
    cut = shown.index(LEFT_OUT)
    head, tail = shown[:cut], shown[cut + 1 :]
    rest = range(cut, len(output) + 1)
    return output[:cut] == head and any(is_shown(output[start:], tail) for start in rest)


def place() -> str:
    """Return the columns that every table starts with."""
    return _columns(PLACE)


def tables() -> str:
    """Return a section for every table of decoded files, without the place columns."""
    return _sections(TABLES)


def verdict_tables() -> str:
    """Return a section for every table of results, without the place columns."""
    return _sections(RESULTS)


def explain_tables() -> str:
    """Return a section for every table of stories, without the place columns."""
    return _sections(EXPLAIN_TABLES)


def id_tables() -> str:
    """Return a section for every table on transactional ids that no audit has, without the place columns."""
    return _sections(ID_TABLES)


def cost_tables() -> str:
    """Return the section of the table of what transactions cost, without the place columns."""
    return _sections(COST_TABLES)


def group_tables() -> str:
    """Return a section for every table on groups that no audit has, without the place columns."""
    return _sections(GROUP_TABLES)


def key_tables() -> str:
    """Return a section for every table on keys, without the place columns."""
    return _sections(KEY_RESULTS)


def forecast_table() -> str:
    """Return the sections of the tables of forecasts, without the place columns."""
    return _sections({FORECAST.name: FORECAST, ELECTIONS.name: ELECTIONS})


def mirror_table() -> str:
    """Return the section of the table of mirrors, without the place columns."""
    return _sections({MIRROR.name: MIRROR})


def _sections(statements: Mapping[str, Table]) -> str:
    return f"\n{''.join(map(section, statements.values()))}"


def section(table: Table) -> str:
    """Return the heading of a table, the meaning of a row, and its columns except the place columns."""
    return f"## {table.name}\n\nOne row per {table.row}.\n{_columns(table.columns[len(PLACE) :])}"


def findings() -> str:
    """Return a section for every check, with a paragraph for each of its codes."""
    known = {name for check in ALL_CHECKS for name in check.codes}
    sections = (
        f"## {_title(check)}\n\n{_question(check)}\n\n{''.join(_section(code, known) for code in check.codes.values())}"
        for check in ALL_CHECKS
    )
    return f"\n{''.join(sections)}"


def checks(group: str) -> str:
    """Return a list of the checks of a group, each with a link to its findings."""
    return "\n" + "".join(_item(_title(check), _question(check)) for check in CHECK_GROUPS[group]) + "\n"


def _item(title: str, question: str) -> str:
    return f"- [{title}](findings.md#{title.lower().replace(' ', '-')}): {question[0].lower()}{question[1:]}\n"


def _title(check: Check[Any, Any]) -> str:
    return check.name.replace("_", " ").capitalize()


def _question(check: Check[Any, Any]) -> str:
    """Return the first line of the docstring of a check's module: the question that it answers."""
    return (sys.modules[check.findings.__module__].__doc__ or "").partition("\n")[0].replace("``", "`")


def _section(code: Code, known: set[str]) -> str:
    meaning = f"**{code.severity}**: {code.meaning} {code.why}".rstrip()
    parts = [f"### `{code.name}`", meaning, f"*What to do:* {code.remedy or 'Nothing.'}"]
    if code.benign:
        parts.insert(2, f"*Benign explanations:* {code.benign}")
    return "".join(f"{part if part.startswith('#') else literal(part, known - {code.name})}\n\n" for part in parts)


def literal(text: str, known: set[str]) -> str:
    """Return a text with literals formatted as code, and with links for the codes of findings.

    Args:
        text: sentences.
        known: codes that have a heading on the same page.
    """

    def marked(found: re.Match[str]) -> str:
        word = found[0].strip("`")
        return f"[`{word}`](#{word})" if word in known else f"`{word}`"

    codes = "|".join(sorted(known, reverse=True))  # the longer of two codes with the same prefix comes first
    return re.sub("|".join((*LITERAL, rf"\b(?:{codes})\b")), marked, text)


def _columns(columns: tuple[Column, ...]) -> str:
    return _markdown(("column", "type", "meaning"), [(f"`{each.name}`", each.type, each.doc) for each in columns])


def layout(name: str) -> str:
    """Return the fields of a layout: offset if fixed, width, and meaning."""
    struct = getattr(layouts, name)
    try:
        return _fixed_layout(fixed_layout(struct))
    except TypeError:
        rows = [(f"`{field.name}`", _width(field), field.docs) for field in struct.subcons]
        return _markdown(("field", "bytes", "meaning"), rows)


def _fixed_layout(form: FixedLayout) -> str:
    rows = [
        (f"`{field.name}`", str(form.offsets[field.name]), str(form.reader(field.name).size), field.docs)
        for field in form.layout.subcons
    ]
    return _markdown(("field", "offset", "bytes", "meaning"), rows) + f"{form.size} bytes in all.\n\n"


def _width(field: Any) -> str:
    while hasattr(field, "subcon"):
        field = field.subcon
    widths = {VarInt: "varint", VarLong: "varlong", SizedBytes: "varint, and so many bytes"}
    return widths[field] if field in widths else str(field.sizeof())


def _markdown(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    return (
        "\n"
        + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
        + "\n"
    )
