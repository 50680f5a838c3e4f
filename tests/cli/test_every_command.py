"""Every command in every format with every shared option: it ends as documented, and writes what can be read again."""

from __future__ import annotations

import csv
import io
import json
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from kforensics.cli import app
from kforensics.render.formats import ONE_TABLE, Format
from tests.command import Ended, run, sentence
from tests.forensics.coordinators.clusters import forge_coordinator, forge_offsets
from tests.forensics.forge import file_of, forge, patch
from tests.thorough import some

AS_OF = ("--as-of", "1700009000000")
COMMANDS: dict[str, tuple[str, ...]] = {
    "lso": ("lso",),
    "lso-history": ("lso", "--history"),
    "transactions": ("transactions",),
    "transaction-costs": ("transactions", "--cost"),
    "producers": ("producers",),
    "duplicates": ("duplicates",),
    "explain-producer": ("explain", "--producer-id", "9"),
    "explain-range": ("explain", "--topic", "orders", "--partition", "0", "--offset", "0:9"),
    "explain-id": ("explain", "--transactional-id", "payments"),
    "explain-group": ("explain", "--group", "billing"),
    "keys": ("keys",),
    "cluster": ("cluster",),
    "ids": ("ids",),
    "ids-life": ("ids", "--transactional-id", "payments"),
    "ids-where": ("ids", "--where", "payments"),
    "groups": ("groups",),
    "groups-history": ("groups", "--group", "billing"),
    "settings": ("settings",),
    "scan": ("scan", "--processes", "1"),
    "verify": ("verify", "--processes", "1"),
    "audit": ("audit", "--processes", "1"),
}
# What selects rows, what changes how they are shown, and when they are evaluated.
FILTERS: dict[str, tuple[str, ...]] = {
    "--topic": ("--topic", "or*", "--topic", "!x*"),
    "--partition": ("--partition", "0-0"),
    "--severity": ("--severity", "error"),
    "--code": ("--code", "lso-stuck"),
    "--since": ("--since", "2h"),
}
SHOWN: dict[str, tuple[str, ...]] = {
    "--tz": ("--tz", "Europe/Berlin"),
    "--wide": ("--wide", "--all", "--color", "always"),
    "-q": ("-q", "--no-progress"),
    "-vv": ("-vv", "--log-format", "json"),
}
EVALUATED: dict[str, tuple[str, ...]] = {"--as-of": ("--as-of", "now"), "--alone": ("--alone",)}
NO_FINDINGS, NO_TIMES = {"--severity", "--code"}, {"--since"}
REFUSED: dict[str, set[str]] = {
    "lso": NO_TIMES,
    "lso-history": NO_TIMES,
    "transactions": set(),
    "transaction-costs": NO_FINDINGS | NO_TIMES,
    "producers": set(),
    "duplicates": NO_TIMES,
    **dict.fromkeys(("explain-producer", "explain-range", "explain-group"), NO_FINDINGS | NO_TIMES),
    "explain-id": NO_FINDINGS | NO_TIMES | {"--topic", "--partition"},
    "keys": NO_FINDINGS | NO_TIMES | {"--partition"},
    "cluster": NO_TIMES,
    **dict.fromkeys(("ids", "ids-life", "ids-where"), NO_FINDINGS | NO_TIMES | {"--topic", "--partition"}),
    **dict.fromkeys(("groups", "groups-history"), NO_FINDINGS | NO_TIMES),
    "settings": NO_FINDINGS | NO_TIMES | {"--partition"},
    **{name: set() for name in ("scan", "verify", "audit")},
}
# Rows that state the selection: how many incidents or partitions there are, with what findings, or with what offsets.
SUMMED_UP = {
    "audit": ("--code", "--severity", "--since", "--partition", "--topic"),
    "scan": ("--code", "--severity", "--since"),
    "keys": ("--topic",),
    "transaction-costs": ("--topic", "--partition"),
    "groups": ("--topic",),
}
SUMMED_UP |= {"verify": ()}
# Commands whose rows no filter that they take leaves out, in the evidence below.
UNSELECTED = ("explain-producer", "explain-range", "explain-id", "settings", "ids", "ids-life", "ids-where")


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with a stuck transaction, a retry, a damaged batch and two topics."""
    folder = tmp_path_factory.mktemp("e") / "o"
    at = "ts 1700000000000"
    forge(folder, f"D 1 0 0-4 @0-4 T {at}; M 1 0 C 3 @5; D 9 2 0-1 @6-7 T {at}; plain @8-9", topic="orders")
    forge(folder, f"D 2 0 0-1 @0-1 N {at}; D 2 0 0-1 @2-3 N {at}; plain @4-5", topic="orders", partition=1)
    damaged = forge(folder, f"D 9 1 0-1 @0-1 T {at}; M 9 1 A 3 @2; plain @3-5; plain @6-8", topic="x")
    patch(file_of(damaged), 3, crc=1)
    offsets = {
        0: ("billing", "orders-0", 2),
        1: ("billing", "x-0", 9),
        2: ("billing", "x-0", 3),
        3: ("other", "x-0", 1),
    }
    forge_offsets(folder, f"plain @0-0 {at}; plain @1-1 {at}; plain @2-2 {at}; plain @3-3 {at}", offsets)
    ended = "ended Ongoing 3 0 {y-0} t 3; ended PrepareCommit 3 0 {y-0} t 4; ended CompleteCommit 3 0 {} t 5"
    open_one = "payments Empty 1 0 t 0; payments Ongoing 1 0 {orders-0} t 1; other Empty 2 0 t 2"
    forge_coordinator(folder, f"{open_one}; {ended}")
    return folder


def _run(name: str, output_format: str, evidence: Path, *options: str) -> Ended:
    return run(*COMMANDS[name], *AS_OF, "--format", output_format, *options, evidence)


def _rows(ended: Ended, output_format: str) -> list[dict[str, Any]]:
    """Return the rows of an output, which fails if the output is not one of its format."""
    if output_format in ("csv", "csv-safe"):
        return [*csv.DictReader(io.StringIO(ended.text), strict=True)]
    if output_format == "ndjson":
        return ended.objects
    if output_format == "json":
        tables = json.loads(ended.text)["tables"]
        return [{"table": name, **row} for name, rows in tables.items() for row in rows]
    if output_format in ("parquet", "arrow"):
        reader = pa.BufferReader(ended.out)
        table = pq.read_table(reader) if output_format == "parquet" else pa.ipc.open_stream(reader).read_all()
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    assert ended.text.endswith("\n")
    return [{"line": line} for line in ended.lines]


@pytest.mark.parametrize(("name", "output_format"), some([*product(COMMANDS, Format)], 3))
def test_every_option(name: str, output_format: str, evidence: Path) -> None:
    plain = _run(name, output_format, evidence)
    assert plain.code in (0, 1)
    every = _rows(plain, output_format)
    assert every
    is_text, fewer = output_format in ("text", "table"), False
    for option, words in (FILTERS | SHOWN | EVALUATED).items():
        ended = _run(name, output_format, evidence, *words)
        assert "Traceback" not in ended.err
        if option in REFUSED[name]:
            assert (ended.code, ended.out) == (2, b""), option
            continue
        assert ended.code in (0, 1), (option, ended.err)
        rows = _rows(ended, output_format)
        if option in SHOWN and not is_text:
            assert rows == every, option
        fewer |= option in FILTERS and len(rows) < len(every)
        if option in FILTERS and not is_text and option not in SUMMED_UP.get(name, ()):
            # An incident of fewer findings is another row.
            assert [row for row in rows if row not in every and row.get("table") != "incidents"] == [], option
        if option == "-q":
            assert ended.err == ""
        if option == "-vv":
            sentences = [json.loads(line)["message"] for line in ended.err.splitlines()]
            assert any(sentence.startswith("evidence: ") for sentence in sentences)
    assert fewer or is_text or name in UNSELECTED


@pytest.fixture(scope="module")
def files(evidence: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return what the words below stand for."""
    folder = tmp_path_factory.mktemp("f")
    second = forge(folder / "second", "plain @0-2", topic="orders").parent
    assert run("audit", "-q", *AS_OF, "--records", "--output", folder / "store", evidence).code == 1
    (folder / "key").write_text("secret", encoding="utf-8")
    (folder / "k.toml").write_text("[options]\nquiet = true\n", encoding="utf-8")
    (folder / "server.properties").write_text("transaction.max.timeout.ms=60000\n", encoding="utf-8")
    names = {"SECOND": second, "STORE": folder / "store", "KEY": folder / "key", "CONFIG": folder / "k.toml"}
    return {**names, "EVIDENCE": evidence, "PROPERTIES": folder / "server.properties"}


# Commands that have other options, with formats and without.
SQL = "SELECT topic, count(*) AS batches FROM batches GROUP BY topic ORDER BY topic"
WITH_FORMATS: dict[str, tuple[str, ...]] = {
    "dump": ("dump", "EVIDENCE"),
    "dump-batches": ("dump", "--batches", "EVIDENCE"),
    "dump-records": ("dump", "--records", "EVIDENCE"),
    "dump-damage": ("dump", "--damage", "EVIDENCE"),
    "forecast": ("forecast", "EVIDENCE"),
    "forecast-elect": ("forecast", "--elect", "EVIDENCE", "SECOND"),
    "mirror": ("mirror", "SECOND", "EVIDENCE"),
    "query": ("query", "STORE", "SELECT code, severity FROM findings ORDER BY ALL"),
    "query-logs": ("query", "--logs", "EVIDENCE", SQL),
}
WITHOUT_FORMATS: dict[str, tuple[str, ...]] = {
    "plot-svg": ("plot", "sequences", "--topic", "orders", "--partition", "0", "--output", "OUT.svg", "EVIDENCE"),
    "plot-png": ("plot", "damage", "--output", "OUT.png", "EVIDENCE"),
    "plot-html": ("plot", "timeline", "--output", "OUT.html", "EVIDENCE"),
    "report": ("report", "STORE", "--output", "OUT.html"),
    "collect-tar": ("collect", "EVIDENCE", "--output", "OUT.tar"),
    "collect-zst": ("collect", "EVIDENCE", "--output", "OUT.tar.zst"),
    "collect-folder": ("collect", "EVIDENCE", "--output", "OUT"),
}
# A value of each option; none for a flag.
VALUES: dict[str, tuple[str, ...]] = {
    "--tz": ("Europe/Berlin",),
    "--topic": ("or*",),
    "--partition": ("0-0",),
    "--as-of": ("now",),
    "--set": ("transaction.max.timeout.ms=60000",),
    "--server-properties": ("PROPERTIES",),
    "--bootstrap-server": ("broker:9092",),
    "--color": ("always",),
    "--fail-on": ("never",),
    "--log-format": ("json",),
    "--config": ("CONFIG",),
    "--output": ("OUT",),
    "--limit": ("1",),
    "--logs": ("EVIDENCE",),
    "--release": ("4.0",),
    "--mirror-topic": ("orders",),
    "--redact-key-file": ("KEY",),
    "--files": ("EVIDENCE",),
    "--max-message-size": ("1000000",),
    "--max-bytes": ("1000000",),
    "--key-decoder-class": ("kafka.serializer.StringDecoder",),
    "--value-decoder-class": ("kafka.serializer.StringDecoder",),
    "--style": ("4.3",),
    "--formatter": ("transaction-log",),
    "--key-format": ("hex",),
    "--value-format": ("utf8",),
    "--offset": ("0:5",),
    "--time": ("2020-01-01:",),
    "--producer-id": ("1",),
    "--producer-epoch": ("0",),
    "--leader-epoch": ("0",),
    "--key": (".*",),
    "--isolation": ("read_committed",),
    "--max-decompressed-bytes": ("1000000",),
}
# What is tried for itself.
NOT_ADDED = ("--format", "--help", "--elect", "--batches", "--records", "--damage")
# Options that a command refuses whatever the format is, and those it refuses for rows.
NO_KEY, NOT_STYLED = {"--redact-key-file"}, {"--style", "--formatter"}
NOT_REDACTED = {"--redact-names", "--redact-key-file"}
OF_LOGS = {"--topic", "--partition", "--as-of", "--alone", "--set", "--server-properties", "--logs"}
OTHERS_REFUSE: dict[str, set[str]] = {
    "dump": NO_KEY | {"--key"},
    "dump-batches": NO_KEY | NOT_STYLED | {"--key"},
    "dump-records": NO_KEY | NOT_STYLED,
    "dump-damage": NO_KEY | NOT_STYLED | {"--key"},
    "forecast-elect": {"--release"},
    "mirror": {"--mirror-topic"},
    "query": OF_LOGS | NOT_REDACTED,
    "query-logs": NOT_REDACTED,
    "report": NOT_REDACTED,
}
REFUSED_WITH_ROWS = {
    "dump": NOT_STYLED
    | {"--skip-record-metadata", "--verify-index-only", "--index-sanity-check"}
    | {"--key-decoder-class", "--value-decoder-class"}
}
# These write rows alone, and rows of several tables need a format with room for them.
NO_TEXT, SEVERAL_TABLES = ("dump-batches", "dump-records"), ("dump",)


def _options(command: str) -> list[tuple[str, ...]]:
    """Return each option of a command with a value; one that is not known here is taken for a flag."""
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]  # typer names no class
    names = [parameter.opts[0] for parameter in parameters if parameter.param_type_name == "option"]
    return [(name, *VALUES.get(name, ())) for name in names if name not in NOT_ADDED]


def _tried(words: tuple[str, ...], files: dict[str, Path], out: Path) -> Ended:
    named = [out.with_name(out.name + word.removeprefix("OUT")) if word.startswith("OUT") else word for word in words]
    ended = run(*(files.get(str(word), word) for word in named))
    assert "Traceback" not in ended.err
    return ended


def _checked(ended: Ended, *, is_refused: bool) -> None:
    """Check that a command has ended as documented: with a result, or with one sentence."""
    if is_refused:
        sentence(ended)
    else:
        assert ended.code in (0, 1), ended.err


@pytest.mark.parametrize("output_format", [*Format])
@pytest.mark.parametrize("name", WITH_FORMATS)
def test_other_commands_in_every_format(name: str, output_format: str, files: dict[str, Path], tmp_path: Path) -> None:
    has_no_room = name in SEVERAL_TABLES and output_format in ONE_TABLE
    is_refused = has_no_room or (name in NO_TEXT and output_format == "text")
    ended = _tried((*WITH_FORMATS[name], "--format", output_format), files, tmp_path / "out")
    _checked(ended, is_refused=is_refused)
    assert is_refused or _rows(ended, output_format)


@pytest.mark.parametrize("output_format", ["text", "json"])
@pytest.mark.parametrize("name", WITH_FORMATS)
def test_every_option_of_other_commands(name: str, output_format: str, files: dict[str, Path], tmp_path: Path) -> None:
    words = WITH_FORMATS[name]
    output_format = "table" if output_format == "text" and name in NO_TEXT else output_format
    refused = OTHERS_REFUSE.get(name, set())
    if output_format != "text":
        refused = refused | REFUSED_WITH_ROWS.get(words[0], set())
    for number, option in enumerate(_options(words[0])):
        ended = _tried((*words, "--format", output_format, *option), files, tmp_path / str(number))
        _checked(ended, is_refused=option[0] in refused)
        if option[0] == "--quiet" and option[0] not in refused:
            assert ended.err == ""
        if output_format == "json" and option[0] not in (*refused, "--output"):
            _rows(ended, output_format)


@pytest.mark.parametrize("name", WITHOUT_FORMATS)
def test_every_option_of_commands_that_write_a_file(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    words = WITHOUT_FORMATS[name]
    for number, option in enumerate([(), *(each for each in _options(words[0]) if each[0] not in words)]):
        refused = OTHERS_REFUSE.get(name, set())
        out = tmp_path / str(number)
        ended = _tried((*words, *option), files, out)
        is_refused = bool(refused.intersection(option))
        _checked(ended, is_refused=is_refused)
        assert [*tmp_path.glob(f"{number}*")] != [] or is_refused
        assert ended.out == b""


@pytest.mark.parametrize("command", sorted({words[0] for words in COMMANDS.values()} - {"dump"}))
def test_help_has_the_filters_that_the_command_takes(command: str) -> None:
    """And no others, which would be a usage error."""
    variants = [REFUSED[name] for name, words in COMMANDS.items() if words[0] == command]
    taken = {option for option in FILTERS if any(option not in refused for refused in variants)}
    words = run(command, "--help").text.split()
    assert {option for option in FILTERS if option in words} == taken
