"""What a command loads before it does its work, and how it reads its words without loading more."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperArgument, TyperOption

from kforensics.cli import app
from tests.command import CLASSIC

# What a broker host must not pay for, and pydantic, which typer loads to convert a value.
HEAVY = ("llvmlite", "numba", "numpy", "pandas", "pyarrow", "pydantic", "pyspark")
# What only other outputs, other files or errors need.
NOT_FOR_LINES = (
    "email",
    "importlib.metadata",
    "json",
    "kforensics.kafka_dump.decoders.internal",
    "kforensics.kafka_dump.index_lines",
    "kforensics.kafka_dump.snapshot_lines",
    "kforensics.kafka_dump.time_index_lines",
    "kforensics.kafka_dump.topic_rows",
    "kforensics.kafka_dump.transaction_index_lines",
    "kforensics.parsers.messages.codec",
    "kforensics.parsers.messages.registry",
    "kforensics.parsers.tables.state_rows",
    "kforensics.parsers.tables.schemas",
    "kforensics.render.terminal",
    "kforensics.render.values",
    "kforensics.render.writers",
    "rich",
    "secrets",
)
NOT_FOR_BATCHES = ("kforensics.kafka_dump.decoders.classes", "kforensics.parsers.messages")
SCRIPT = """
import sys
from kforensics.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(*words: object) -> set[str]:
    """Run a command in a process of its own and return the modules it loaded."""
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["dump", "--help"]], ids=" ".join)
def test_help_loads_nothing_of_a_dump(words: list[str]) -> None:
    modules = loaded(*words)
    assert modules.isdisjoint(HEAVY)
    assert {name for name in modules if name.startswith("kforensics")} == {
        "kforensics",
        "kforensics.cli",
        "kforensics.cli.judging",
        "kforensics.cli.options",
        "kforensics.cli.questions",
        "kforensics.cli.values",
        "kforensics.errors",
        "kforensics.version",
    }


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
def test_lines_load_what_they_need_only(words: list[str]) -> None:
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
def test_a_value_is_read_as_typer_reads_it(value: str | None) -> None:
    """Most values do not get as far as typer's own conversion; that must not show."""
    command: Any = typer.main.get_command(app)
    with command.commands["dump"].make_context("dump", []) as context:
        for parameter in context.command.get_params(context):
            if parameter.name == "help":
                continue
            made = TyperOption if isinstance(parameter, TyperOption) else TyperArgument
            words = value if value is None or made is TyperOption else (value,)
            expected = _outcome(made, parameter, context, words)
            assert _outcome(type(parameter), parameter, context, words) == expected, parameter.name


@pytest.mark.parametrize("mode", [0o600, 0o000], ids=["readable", "forbidden"])
def test_a_path_is_read_as_typer_reads_it(tmp_path: Path, mode: int) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(mode)
    file.chmod(mode)
    link.symlink_to(tmp_path / "nothing")
    command: Any = typer.main.get_command(app)
    with command.commands["dump"].make_context("dump", []) as context:
        (parameter,) = (each for each in context.command.get_params(context) if each.name == "output")
        for path in (file, link, tmp_path, tmp_path / "no" / "file"):
            expected = _outcome(TyperOption, parameter, context, str(path))
            assert _outcome(type(parameter), parameter, context, str(path)) == expected


def _outcome(made: Any, parameter: Any, context: Any, value: object) -> object:
    """Return what a class of options makes of a value: what it means, or what is wrong with it."""
    try:
        found = made.process_value(parameter, context, value)
    except typer.BadParameter as error:
        return str(error)
    # A list of words may come as a tuple; nobody changes it.
    return list(found) if isinstance(found, list | tuple) else (type(found), found)
