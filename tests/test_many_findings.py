"""A store with very many findings: its text is one screen, its commands have limits, and every finding is reachable."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from kforensics.parsers.format.layouts import BATCH_HEADER
from tests.command import run
from tests.forensics.forge import file_of, forge
from tests.memory import COMMAND, run_measured
from tests.report_html.unpacked import block
from tests.thorough import share

PARTITIONS, OF_EACH = share(100, 10), 1_000
FINDINGS = PARTITIONS * OF_EACH
AS_OF = ("--as-of", 1_700_009_000_000)
MOST_BYTES = 700 << 20
MORE = re.compile(r"… and ([0-9,]+) more findings?, all in the table findings:\s+\$ kforensics (audit .*)")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of partitions with a thousand corrupt batches each, beside the log directory ``data``."""
    folder = tmp_path_factory.mktemp("many")
    batches = "; ".join(f"plain @{offset} ts {1_700_000_000_000 + 1_000 * offset}" for offset in range(2 * OF_EACH))
    first = file_of(forge(folder / "data", batches, topic="orders"))
    content = bytearray(first.read_bytes())
    position = 0
    for number in range(2 * OF_EACH):
        header = BATCH_HEADER.parse(content[position : position + BATCH_HEADER.sizeof()])
        position += header.length + 12
        content[position - 1] ^= number % 2
    first.write_bytes(content)
    for number in range(1, PARTITIONS):
        partition = first.parent.with_name(f"orders-{number}")
        partition.mkdir()
        for file in first.parent.iterdir():
            os.link(file, partition / file.name)
    assert run("audit", "-q", *AS_OF, "--output", folder / "store", folder / "data").code == 1
    return folder / "store"


def test_the_text_of_an_audit_is_one_screen_and_leads_to_every_finding(store: Path) -> None:
    words = ("audit", "-q", *AS_OF)
    text, peak = run_measured(COMMAND, *words, store.parent / "data")
    assert len(text.splitlines()) <= 24
    assert f"{FINDINGS:,} findings in {PARTITIONS} partitions on broker 1: orders-0 to orders-{PARTITIONS - 1}" in text
    assert peak < MOST_BYTES
    ((left_out, command),) = MORE.findall(run(*words, "--all", "--verbose", store.parent / "data").text)
    assert int(left_out.replace(",", "")) == FINDINGS - 20
    rows = run(*shlex.split(command)).rows("findings")
    assert len({(row["partition"], row["first_offset"]) for row in rows}) == len(rows) == FINDINGS


def test_a_query_and_a_report_reach_every_finding_in_bounded_memory(store: Path, tmp_path: Path) -> None:
    count, peak = run_measured(
        COMMAND, "query", "-q", "--format", "ndjson", store, "SELECT count(*) AS findings FROM findings"
    )
    assert json.loads(count)["findings"] == FINDINGS
    assert peak < MOST_BYTES
    page = tmp_path / "report.html"
    _, peak = run_measured(COMMAND, "report", "-q", store, "--output", page)
    assert peak < MOST_BYTES
    table: dict[str, Any] = json.loads(block(page.read_text(encoding="utf-8"), "data"))["tables"]["findings"]
    assert table["total"] == FINDINGS
    assert 500 < len(table["rows"]) <= 1_000
