"""Makes the generated parts of the documents: console blocks, tables, layouts, findings. `make docs` calls it with cog.

The tests run the same functions and compare, so that no document says what is no longer so. Each part begins and ends
with an empty line, for it stands between two comments.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kforensics.forensics.checks.all_checks import EVERY_FAMILY
from kforensics.forensics.checks.partition_checks import GROUPS
from kforensics.forensics.core.findings import Code
from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.explain.story_tables import EXPLAIN_TABLES
from kforensics.parsers.format import layouts
from kforensics.parsers.format.derived import Fixed, fixed
from kforensics.parsers.format.varint import SizedBytes, VarInt, VarLong
from kforensics.parsers.tables.schemas import PLACE, TABLES, Column, Table

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = "…"
PROMPT = "$ "
# How a command begins that may be run by itself, in any checkout.
RUNNABLE = ("kforensics ", "echo ", "rm -rf out/")
# What is typed or stands in files: commands, options, places to fill in, settings, names of files and topics.
LITERAL = (
    r"kafka-[a-z-]+\.sh(?: (?:--[a-z-]+(?: (?:<[^>]*>|\{[a-z_]+\}))?|abort|describe|find-hanging))*",
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
        commands: what is typed, one line each, in one shell, at the root of the checkout.
        lines: how many lines of each output to show; ``…`` stands for the rest.
    """
    shown = []
    for command, output in zip(commands, run(commands), strict=True):
        kept = output if lines is None or len(output) <= lines else [*output[:lines], LEFT_OUT]
        shown += [PROMPT + command, *kept]
    return "\n".join(["", "```console", *shown, "```", "", ""])


def demo(lines: int) -> str:
    """Return a block with what `make demo` prints: the whole dump, and so many lines of the report."""
    (dump, audit), (dumped, report) = zip(*demo_output(), strict=True)
    shown = [PROMPT + "make demo", LEFT_OUT, dump, *dumped, audit, *report[:lines], LEFT_OUT]
    return "\n".join(["", "```console", *shown, "```", "", ""])


def demo_output() -> list[tuple[str, list[str]]]:
    """Return the lines that `make demo` echoes behind the set-up, each with what its command prints.

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
    """Return the lines each command prints, ``echo $?`` being able to ask for the exit code of the one before."""
    mark = "---- end of a command ----"
    # A mark behind each command must not change what ``$?`` is for the next.
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
    """Return an environment in which commands print the same on every machine."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "SYSTEMROOT", "TMPDIR")}
    return {**kept, "PATH": path, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}


def blocks(page: Path) -> Iterator[list[tuple[str, list[str]]]]:
    """Yield the console blocks of a page, each as commands with the lines shown below them."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        commands: list[tuple[str, list[str]]] = []
        for line in block.splitlines():
            if line.startswith(PROMPT):
                commands.append((line.removeprefix(PROMPT), []))
            else:
                commands[-1][1].append(line)
        yield commands


def is_shown(output: list[str], shown: list[str]) -> bool:
    """Whether lines shown are the lines of an output, ``…`` standing for any number of them."""
    if LEFT_OUT not in shown:
        return output == shown
    cut = shown.index(LEFT_OUT)
    head, tail = shown[:cut], shown[cut + 1 :]
    rest = range(cut, len(output) + 1)
    return output[:cut] == head and any(is_shown(output[start:], tail) for start in rest)


def place() -> str:
    """Return the columns that every table begins with."""
    return _columns(PLACE)


def tables() -> str:
    """Return a section for every table of decoded files, without the columns of the place."""
    return _sections(TABLES)


def verdict_tables() -> str:
    """Return a section for every table of verdicts, likewise."""
    return _sections(RESULTS)


def explain_tables() -> str:
    """Return a section for every table of stories, likewise."""
    return _sections(EXPLAIN_TABLES)


def key_tables() -> str:
    """Return a section for every table on keys, likewise."""
    return _sections(KEY_RESULTS)


def _sections(statements: Mapping[str, Table]) -> str:
    return f"\n{''.join(map(section, statements.values()))}"


def section(table: Table) -> str:
    """Return the heading of a table, what a row of it is, and its columns but for those of the place."""
    return f"## {table.name}\n\nOne row per {table.row}.\n{_columns(table.columns[len(PLACE) :])}"


def findings() -> str:
    """Return a section for every family of findings, with a paragraph for each of its codes."""
    known = {name for family in EVERY_FAMILY for name in family.CODES}
    sections = (
        f"## {_title(family)}\n\n{_asks(family)}\n\n{''.join(_told(code, known) for code in family.CODES.values())}"
        for family in EVERY_FAMILY
    )
    return f"\n{''.join(sections)}"


def families(group: str) -> str:
    """Return a list of the families in a group, each with a link to its findings."""
    return "\n" + "".join(_item(_title(family), _asks(family)) for family in GROUPS[group]) + "\n"


def _item(title: str, asks: str) -> str:
    return f"- [{title}](findings.md#{title.lower().replace(' ', '-')}): {asks[0].lower()}{asks[1:]}\n"


def _title(family: ModuleType) -> str:
    return family.__name__.rpartition(".")[2].replace("_", " ").capitalize()


def _asks(family: ModuleType) -> str:
    return (family.__doc__ or "").partition("\n")[0].replace("``", "`")


def _told(code: Code, known: set[str]) -> str:
    says = f"**{code.severity}**: {code.meaning} {code.why}".rstrip()
    parts = [f"### `{code.name}`", says, f"*What to do:* {code.remedy or 'Nothing.'}"]
    if code.innocent:
        parts.insert(2, f"*Innocent explanations:* {code.innocent}")
    return "".join(f"{part if part.startswith('#') else literal(part, known - {code.name})}\n\n" for part in parts)


def literal(text: str, known: set[str]) -> str:
    """Return a text with what is typed or stands in files set as code, and codes of findings with a link to them.

    Args:
        text: sentences.
        known: the codes that have a heading on the same page.
    """

    def marked(found: re.Match[str]) -> str:
        return f"[`{found[0]}`](#{found[0]})" if found[0] in known else f"`{found[0]}`"

    codes = "|".join(sorted(known, reverse=True))  # the longer of two that begin alike comes first
    return re.sub("|".join((*LITERAL, rf"\b(?:{codes})\b")), marked, text)


def _columns(columns: tuple[Column, ...]) -> str:
    return _markdown(("column", "type", "meaning"), [(f"`{each.name}`", each.type, each.doc) for each in columns])


def layout(name: str) -> str:
    """Return the fields of a layout: where they are known to stand, how wide they are, and what they mean."""
    struct = getattr(layouts, name)
    try:
        return _fixed_layout(fixed(struct))
    except TypeError:
        rows = [(f"`{field.name}`", _width(field), field.docs) for field in struct.subcons]
        return _markdown(("field", "bytes", "meaning"), rows)


def _fixed_layout(form: Fixed) -> str:
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
