"""The incidents of a store have their findings, and a finding is of an incident only if it can be of no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.report_html import store_reader
from kforensics.report_html.incident_rows import (
    FINDING_COLUMNS,
    BlockingTransactions,
    IncidentsByFinding,
    StoredIncident,
    stored_incidents,
)
from kforensics.report_html.report_page import report_page
from kforensics.report_html.store_reader import open_store
from tests.command import SAMPLES
from tests.forensics.forge import forge
from tests.report_html.stores import audited, forged


def _incidents(store: Path) -> list[StoredIncident]:
    incidents = stored_incidents(open_store(str(store)), "a:9092")
    assert incidents is not None
    return incidents


def _findings(store: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        open_store(str(store)).table("findings", FINDING_COLUMNS, lambda batch: [True] * len(batch)).to_pylist()
    )
    return rows


def test_incidents_have_the_rows_of_their_findings(store: Path) -> None:
    incidents = _incidents(store)
    (first,) = (incident for incident in incidents if incident.topics == ["hanging"])
    assert first.row["severity"] == "critical"
    stuck = next(row for row in first.findings if row["code"] == "lso-stuck")
    assert stuck["evidence"]["last_stable_offset"] == 3
    assert "--bootstrap-server a:9092 " in first.row["remedy"]
    assert all(row["exactness"] for incident in incidents for row in incident.findings)


@pytest.mark.parametrize("rows_at_once", [1, 7, 1 << 16])
def test_the_batch_size_does_not_matter(rows_at_once: int, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _incidents(store)
    monkeypatch.setattr(store_reader, "BATCH_ROWS", rows_at_once)
    assert _incidents(store) == whole


def test_all_findings_of_a_large_incident_are_of_it(tmp_path: Path) -> None:
    """The incident names twenty of its findings; the others can be of no other incident."""
    store = audited(tmp_path, "damaged")
    incidents = _incidents(store)
    by_finding = IncidentsByFinding.of(incidents, len(incidents))
    large = next(incident for incident in incidents if incident.row["kind"] == "stuck-transaction")
    stuck = [row for row in _findings(store) if row["code"] == "lso-stuck"]
    assert len(stuck) > len(large.findings)
    assert {by_finding.incident_of(row) for row in stuck} == {large.name}
    # Without knowing all incidents, a finding that none names could be of one that is not known.
    partly = IncidentsByFinding.of(incidents, len(incidents) + 1)
    assert {partly.incident_of(row) for row in stuck} == {None}
    assert {partly.incident_of(row) for row in large.findings} == {large.name}


def test_a_finding_that_can_be_of_two_incidents_is_of_none(tmp_path: Path) -> None:
    """Two producers with thirty gaps each in one partition: the incidents name twenty of them."""
    gaps = (f"D {1 + n % 2} 0 {6 * (n // 2)}-{6 * (n // 2)} @{n} N" for n in range(60))
    forge(tmp_path / "logs", "; ".join(gaps))
    kforensics.audit(tmp_path / "logs", output=tmp_path / "store", as_of=1_700_000_040_000)
    incidents = _incidents(tmp_path / "store")
    by_finding = IncidentsByFinding.of(incidents, len(incidents))
    gaps_found = [row for row in _findings(tmp_path / "store") if row["code"] == "seq-gap"]
    producers = {incident.name: incident.row["producer_ids"] for incident in incidents}
    assert len(gaps_found) > 40
    # The producer of a finding decides.
    assert all(producers[by_finding.incident_of(row) or ""] == [row["producer_id"]] for row in gaps_found)
    unknown = {**gaps_found[-1], "producer_id": None, "message": "of no known producer"}
    assert by_finding.incident_of(unknown) is None


def test_a_producer_id_of_two_clusters_names_the_transaction_only_if_a_finding_does(tmp_path: Path) -> None:
    """Clusters count producer ids from 0, so a store of two may have the same one twice."""
    store = forged(tmp_path, {})
    blocked = [{"log_dir": f"/{number}", "topic": "a", "partition": 0, "producer_id": number} for number in (1, 3)]

    def named() -> list[tuple[str | None, str | None]]:
        blocking = BlockingTransactions.of(open_store(str(store)))
        return [(blocking.transactional_id(row), blocking.state(row)) for row in blocked]

    assert named() == [("transactional_id 0", "live"), ("transactional_id 2", "live")]
    _replace(store, "transactional_ids", "producer_id", pa.array([1, 1, 3], "int64"))
    assert named() == [(None, None), ("transactional_id 2", "live")]
    evidence = json.dumps({"transactional_id": "transactional_id 1"})
    for column, value in {**blocked[0], "code": "lso-stuck", "evidence": evidence}.items():
        _replace(store, "findings", column, pa.array([value] * 3))
    assert named() == [("transactional_id 1", "live"), ("transactional_id 2", "live")]


def test_a_finding_that_is_not_in_its_table_is_shown_all_the_same(tmp_path: Path) -> None:
    store = forged(tmp_path, {})
    table = pq.read_table(store / "incidents" / "part-0.parquet")
    named = [json.loads(text) for text in table["evidence"].to_pylist()]
    named[0][0]["message"] = "elsewhere"
    _replace(store, "incidents", "evidence", pa.array([json.dumps(each) for each in named]))
    assert [row["message"] for incident in _incidents(store) for row in incident.findings].count("elsewhere") == 1
    assert "elsewhere" in report_page(open_store(str(store)))[1]


def _replace(store: Path, name: str, column: str, values: pa.Array) -> None:
    """Replace a column of a table of a store."""
    path = store / name / "part-0.parquet"
    table = pq.read_table(path)
    field = table.schema.field(column)
    pq.write_table(table.set_column(table.schema.get_field_index(column), field, values.cast(field.type)), path)


def test_text_that_is_not_utf_8_is_found_as_the_findings_have_it(tmp_path: Path) -> None:
    """JSON has lone surrogates, which Arrow refuses; the findings have them escaped."""
    store = tmp_path / "store"
    kforensics.audit(SAMPLES / "transactions-v2", output=store, as_of="2026-11-22T01:00")
    for name, column in (("incidents", "evidence"), ("findings", "message")):
        path = store / name / "part-0.parquet"
        table = pq.read_table(path)
        texts = [text.replace("LSO stuck", "LSO \\udccc stuck") for text in table[column].to_pylist()]
        pq.write_table(table.set_column(table.column_names.index(column), column, pa.array(texts)), path)
    incidents = _incidents(store)
    messages = [finding["message"] for incident in incidents for finding in incident.findings if finding["remedy"]]
    assert any(message.startswith("LSO \\udccc stuck") for message in messages)
