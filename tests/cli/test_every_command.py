"""Every command in every format with every shared option: it ends as documented, and writes what can be read again."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.render.formats import Format
from tests.command import Ended, run
from tests.forensics.coordinators.clusters import forge_coordinator, forge_offsets
from tests.forensics.forge import file_of, forge, patch

AS_OF = ("--as-of", "1700009000000")
COMMANDS: dict[str, tuple[str, ...]] = {
    "lso": ("lso",),
    "lso-history": ("lso", "--history"),
    "transactions": ("transactions",),
    "transaction-costs": ("transactions", "--cost"),
    "producers": ("producers",),
    "duplicates": ("duplicates",),
    "explain-producer": ("explain", "--producer-id", "9"),
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
    "transactions": NO_FINDINGS,
    "transaction-costs": NO_FINDINGS | NO_TIMES,
    "producers": NO_FINDINGS,
    "duplicates": NO_TIMES,
    "explain-producer": NO_FINDINGS | NO_TIMES,
    "keys": NO_FINDINGS | NO_TIMES | {"--partition"},
    "cluster": NO_TIMES,
    **dict.fromkeys(("ids", "ids-life", "ids-where"), NO_FINDINGS | NO_TIMES | {"--topic", "--partition"}),
    **dict.fromkeys(("groups", "groups-history"), NO_FINDINGS | NO_TIMES),
    "settings": NO_FINDINGS | NO_TIMES | {"--partition"},
    "scan": NO_TIMES,
    "verify": NO_TIMES,
    "audit": NO_TIMES,
}
# Rows that state the selection: how many incidents or partitions there are, with what findings, or with what offsets.
SUMMED_UP = {
    "audit": ("--code", "--severity", "--partition", "--topic"),
    "scan": ("--code", "--severity"),
    "keys": ("--topic",),
    "transaction-costs": ("--topic", "--partition"),
    "groups": ("--topic",),
}
SUMMED_UP |= {"verify": ()}
# Commands whose rows no filter that they take leaves out, in the evidence below.
UNSELECTED = ("explain-producer", "settings", "ids", "ids-life", "ids-where")


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


@pytest.mark.parametrize("output_format", [*Format])
@pytest.mark.parametrize("name", COMMANDS)
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
