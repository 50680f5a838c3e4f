"""Every finding of a store is in the text of the audit, in the report and in JSON, or a command there leads to it."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.parsers.format.text_encoding import printable
from tests.command import SAMPLES, run
from tests.report_html.unpacked import block

MORE = re.compile(r"… and ([0-9,]+) more findings?, all in the table findings:\s+\$ kforensics (audit .*)")
IDENTITY = ("broker_id", "log_dir", "topic", "partition", "code", "severity", "first_offset", "message")


def _identities(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in IDENTITY) for row in rows)


@pytest.mark.parametrize("sample", ["transactions-v2", "replication", "damaged"])
def test_every_finding_is_in_text_report_and_json(sample: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    audit = ("audit", "--quiet", "--as-of", "2026-11-21T13:00")
    text = run(*audit, "--all", "--verbose", "--output", store, SAMPLES / sample).text
    findings = pq.read_table(store / "findings").to_pylist()
    assert len(findings) > 5
    as_json = json.loads(run(*audit, "--format", "json", SAMPLES / sample).text)
    assert _identities(as_json["tables"]["findings"]) == _identities(findings)
    as_rows = run(*audit, "--format", "ndjson", SAMPLES / sample).rows("findings")
    assert _identities(as_rows) == _identities(findings)
    page = kforensics.report(store, tmp_path / "report.html").read_text(encoding="utf-8")
    table = json.loads(block(page, "data"))["tables"]["findings"]
    at = [column["name"] for column in table["columns"]].index("message")
    assert Counter(row[at] for row in table["rows"]) == Counter(_shown(row["message"]) for row in findings)
    words = " ".join(text.split())
    absent = [row for row in findings if " ".join(printable(row["message"]).split()) not in words]
    assert len(absent) <= sum(int(count.replace(",", "")) for count, _ in MORE.findall(text))
    assert bool(absent) == (sample == "damaged")
    for _, command in MORE.findall(text)[:1]:
        assert _identities(run(*shlex.split(command)).rows("findings")).keys() >= _identities(absent).keys()


def _shown(message: str) -> str:
    """Return a message as a table of the report has it: cut after 400 characters."""
    return printable(message if len(message) <= 400 else f"{message[:400]}…")
