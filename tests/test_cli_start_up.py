"""Which modules a command imports, and how it converts its arguments without pydantic."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperCommand
from typer.main import get_command

from kforensics.cli import COMMANDS, app
from kforensics.cli.command import Command
from tests.command import CLASSIC

pytestmark = pytest.mark.slow

GROUP: Any = get_command(app).commands  # type: ignore[attr-defined]  # typer names no class for a group
# Modules that are slow to import; pydantic is what typer converts values with.
HEAVY = ("llvmlite", "numba", "numpy", "pandas", "pyarrow", "pydantic", "pyspark")
# Modules for other outputs, other files or errors.
NOT_FOR_LINES = (
    "email",
    "importlib.metadata",
    "json",
    "kforensics.cli.config_file",
    "kforensics.kafka_dump.decoders.framed",
    "kforensics.kafka_dump.index_lines",
    "kforensics.kafka_dump.snapshot_lines",
    "kforensics.kafka_dump.topic_rows",
    "kforensics.parsers.files.file_systems",
    "kforensics.parsers.log.resync",
    "kforensics.parsers.messages.codec",
    "kforensics.parsers.messages.registry",
    "kforensics.parsers.tables.state_rows",
    "kforensics.parsers.tables.schemas",
    "kforensics.render.payloads",
    "kforensics.render.terminal",
    "kforensics.render.writers",
    "rich",
    "secrets",
    "tomllib",
)
NOT_FOR_BATCHES = (
    "kforensics.kafka_dump.decoders",
    "kforensics.kafka_dump.file_records",
    "kforensics.parsers.log.legacy_format",
    "kforensics.parsers.log.records",
    "kforensics.parsers.messages",
)
SCRIPT = """
import sys
from kforensics.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(*words: object) -> set[str]:
    """Run a command in its own process and return the imported modules."""
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout
    return set(done.stderr.split())


# The modules of every command, and those of its help.
ROOT_MODULES = {"kforensics", "kforensics.errors", *(f"kforensics.cli{name}" for name in ("", ".command", ".messages"))}
HELP_MODULES = ROOT_MODULES | {"kforensics.cli.help"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--version"], ROOT_MODULES | {"kforensics.version"}),
        (["--help"], HELP_MODULES | {f"kforensics.cli.{name}" for name in (*COMMANDS, "redact_options")}),
        (["dump", "--help"], HELP_MODULES | {"kforensics.cli.dump"}),
        (["lso", "--help"], HELP_MODULES | {"kforensics.cli.lso"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_loads_no_analysis(words: list[str], expected: set[str]) -> None:
    modules = loaded(*words)
    assert modules.isdisjoint(HEAVY)
    assert {name for name in modules if name.startswith("kforensics")} == expected


# Modules for other questions, other formats and checks across partitions.
NOT_FOR_LSO = (
    "llvmlite",
    "numba",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "kforensics.analyses.audit",
    "kforensics.analyses.dump",
    "kforensics.analyses.duplicates",
    "kforensics.cli.config_file",
    "kforensics.forensics.audit.partition_result",
    "kforensics.forensics.checks.partition_checks",
    "kforensics.forensics.coordinators",
    "kforensics.forensics.duplicates",
    "kforensics.forensics.keys",
    "kforensics.kafka_dump",
    "kforensics.parsers.messages",
    "kforensics.render.writers",
    "rich",
    "tomllib",
)


def test_lso_loads_only_what_it_needs() -> None:
    modules = loaded("lso", CLASSIC.parent)
    assert modules.isdisjoint(NOT_FOR_LSO)
    assert sum(name.startswith("kforensics") for name in modules) <= 132


def test_dump_loads_only_what_it_needs() -> None:
    modules = loaded("dump", CLASSIC.parent)
    assert modules.isdisjoint(HEAVY)
    assert sum(name.startswith("kforensics") for name in modules) <= 61


@pytest.mark.parametrize(
    "words",
    [
        ["--print-data-log"],
        ["--style", "4.3"],
        ["--style", "2.7", "--print-data-log"],
        ["--limit", "5", "--offset", "0:9", "--producer-id", "0"],
    ],
    ids=" ".join,
)
def test_lines_load_only_what_they_need(words: list[str]) -> None:
    assert loaded("dump", *words, CLASSIC).isdisjoint((*HEAVY, *NOT_FOR_LINES))


def test_batch_lines_load_no_decoder() -> None:
    assert loaded("dump", CLASSIC).isdisjoint((*HEAVY, *NOT_FOR_LINES, *NOT_FOR_BATCHES))


@pytest.mark.parametrize("wanted", ["table", "json", "ndjson", "csv"])
def test_rows_load_nothing_heavy(wanted: str) -> None:
    assert loaded("dump", "--records", "--format", wanted, CLASSIC).isdisjoint(HEAVY)


def test_an_output_file_loads_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, "dump", "--output", str(tmp_path / "lines"), str(CLASSIC)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stderr.split()).isdisjoint(HEAVY)
    assert (tmp_path / "lines").read_text().startswith("Dumping")


NUMBERS = ("0", "1", "5", "007", "-1", "+3", " 5 ", "1_0", "5.0", "1.5", "x", "", "٣", "²", "9" * 18, "9" * 30)
WORDS = ("a", "true", "é")


@pytest.mark.parametrize("value", [*NUMBERS, *WORDS, None], ids=repr)
def test_a_value_is_converted_as_typer_converts_it(value: str | None) -> None:
    """Most values are converted without typer, and the result must be the same."""
    tested = set()
    for command in GROUP.values():
        for parameter in command.params:
            if parameter.name not in tested:
                tested.add(parameter.name)
                arguments = [] if value is None else _arguments(parameter, value)
                assert _outcome(command, arguments, Command) == _outcome(command, arguments, TyperCommand), arguments


@pytest.mark.parametrize("mode", [0o600, 0o000], ids=["readable", "forbidden"])
def test_a_path_is_converted_as_typer_converts_it(tmp_path: Path, mode: int) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(mode)
    file.chmod(mode)
    link.symlink_to(tmp_path / "nothing")
    for path in (file, link, tmp_path, tmp_path / "no" / "file"):
        arguments = ["--output", str(path)]
        assert _outcome(GROUP["dump"], arguments, Command) == _outcome(GROUP["dump"], arguments, TyperCommand)


def _arguments(parameter: Any, value: str) -> list[str]:
    """Return the arguments that give a parameter a value."""
    if parameter.param_type_name == "argument":
        return ["--", value]
    if parameter.is_flag or parameter.count:
        return [*parameter.opts, *parameter.secondary_opts]
    return [f"{parameter.opts[0]}={value}"]


def _outcome(command: Any, arguments: list[str], parser: type[TyperCommand]) -> object:
    """Return the values of all parameters when a class parses the arguments, or the error message."""
    context = typer.Context(command)
    try:
        parser.parse_args(command, context, [*arguments])
    except typer.BadParameter as error:
        return str(error)
    values = {each.name: context.params.get(each.name, each.default) for each in command.params}
    # An empty list is the same as None, and a list the same as a tuple.
    return {name: list(value) or None if isinstance(value, list | tuple) else value for name, value in values.items()}
