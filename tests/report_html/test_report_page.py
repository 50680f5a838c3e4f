"""The page is complete and reproducible, and a browser loads and runs nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.errors import InputError, install_line
from kforensics.forensics.core.findings import Severity
from kforensics.report_html.incident_rows import MAX_INCIDENTS
from kforensics.report_html.page_rows import page_value
from kforensics.report_html.report_page import report_page
from kforensics.report_html.sections import verdict_header
from kforensics.report_html.store_reader import open_store
from kforensics.report_html.store_verdict import StoreVerdict
from tests.api.views.page import HOSTILE, seen
from tests.report_html.stores import forged, write_manifest
from tests.report_html.unpacked import block
from tests.thorough import some

SECTIONS = (
    *(
        "incidents",
        "findings",
        "partitions",
        "timeline",
        "lso",
        "transactions",
        "producers",
        "batches",
        "cluster",
        "replicas",
        "duplicates",
        "damage",
    ),
    "provenance",
)
# What the page consists of; images, frames, forms and links to elsewhere are not among it.
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "script", "noscript", "a", "header", "nav", "main", "section"),
    *("h1", "h2", "h3", "p", "ul", "li", "b", "strong", "code", "span", "div", "button", "details", "summary"),
    *("dl", "dt", "dd", "figure", "figcaption", "svg", "rect", "article"),
}


@pytest.fixture(scope="module")
def page(store: Path) -> str:
    """Return the report of the sample."""
    return report_page(open_store(str(store)))[1]


def _data(page: str) -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = json.loads(block(page, "data"))
    return data


def _rows(store: Path, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        open_store(str(store)).table(table, columns, lambda batch: [True] * len(batch)).to_pylist()
    )
    return rows


def test_sections_are_in_order(page: str) -> None:
    parsed = seen(page)
    ids = [value for element, name, value in parsed.attributes if (element, name) == ("section", "id")]
    assert [name for name in ids if name in SECTIONS] == list(SECTIONS)
    links = [value for _, name, value in parsed.attributes if name == "href"]
    assert links[: len(SECTIONS) + 1] == ["#incidents", *(f"#{name}" for name in SECTIONS)]
    places = {value for _, name, value in parsed.attributes if name == "id"}
    assert {link.removeprefix("#") for link in links} <= places
    text = "".join(parsed.texts)
    assert text.index("CRITICAL, ") < text.index("Incidents, worst first") < text.rindex("SHA-256 of manifest.json")


def test_the_worst_findings_have_evidence_and_remedy(page: str) -> None:
    text = "".join(seen(page).texts)
    at = text.index("lso-stuck")
    assert at < text.index("txn-late")
    for text_part in ("LSO stuck at 3 (log end 9, 6 offsets hidden)", "No coordinator waits for it"):
        assert text_part in text[at:]
    for text_part in (
        "offsets3 to 8",
        "producer12, epoch 1",
        "byte 0xe5",
        "exactnessexact",
        "high watermark stuck",
    ):
        assert text_part in text[at:], text_part


def test_the_worst_incident_is_told_in_a_sentence(page: str) -> None:
    text = "".join(seen(page).texts)
    assert re.search(r"[0-9]+ incidents need action\. The worst: [a-z ']+, in [0-9]+ partitions?( since |\. )", text)
    assert text.index("need action") < text.index("Incidents, worst first")


def test_the_number_of_incidents_includes_those_without_a_card(tmp_path: Path) -> None:
    store = forged(tmp_path, {"incidents": 250})
    severities = _rows(store, "incidents", ("severity",))
    urgent = sum(row["severity"] != "info" for row in severities)
    assert urgent > MAX_INCIDENTS
    _, page = report_page(open_store(str(store)))
    assert f"{urgent} incidents need action." in "".join(seen(page).texts)


def test_every_incident_has_one_card_and_every_finding_a_row_that_names_it(page: str, store: Path) -> None:
    rows = _rows(store, "incidents", ("incident", "findings", "partition_count"))
    cards = [value for name, key, value in seen(page).attributes if (name, key) == ("article", "id")]
    assert len(rows) > 5
    assert sorted(cards) == sorted(f"incident-{row['incident']}" for row in rows)
    table = _data(page)["tables"]["findings"]
    names = [column["name"] for column in table["columns"]]
    shown = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    findings = _rows(store, "findings", ("code", "message", "topic", "first_offset"))
    assert sorted((row["code"], page_value(row["message"])) for row in findings) == sorted(
        (row["code"], row["message"]) for row in shown
    )
    # An incident counts what a row stands for; none of these rows stands for more than one finding.
    assert Counter(row["incident"] for row in shown) == {row["incident"]: row["findings"] for row in rows}


def test_the_lso_names_the_blocking_transaction_and_the_state_of_its_coordinator(page: str) -> None:
    table = _data(page)["tables"]["lso"]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    told = {row["topic-partition"]: (row["transactional_id"], row["coordinator_state"]) for row in rows}
    assert told["hanging-0"] == ("hanging", "CompleteCommit")
    assert told["open-0"] == ("open-first", "Ongoing")
    assert told["transactions-append-time-0"] == (
        None,
        None,
    )  # of another cluster, whose coordinator's log is not there


def test_a_store_without_incidents_says_so_and_shows_its_findings(store: Path, tmp_path: Path) -> None:
    older = Path(shutil.copytree(store, tmp_path / "older"))
    shutil.rmtree(older / "incidents")
    manifest = json.loads((older / "manifest.json").read_text("utf-8"))
    del manifest["rows"]["incidents"]
    (older / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    _, page = report_page(open_store(str(older)))
    assert "This store has no table of incidents; an older version of kforensics wrote it." in "".join(seen(page).texts)
    table = _data(page)["tables"]["findings"]
    assert table["total"] == manifest["rows"]["findings"]
    assert "incident" not in {column["name"] for column in table["columns"]}


@pytest.mark.parametrize("column", ["codes", "evidence", "brokers", "severity"])
@pytest.mark.parametrize("value", ["no JSON", "7", '["a"]', '{"a": 1}', "[" * 99_999])
def test_a_damaged_column_of_incidents_is_named(column: str, value: str, tmp_path: Path) -> None:
    store = forged(tmp_path, {})
    path = store / "incidents" / "part-0.parquet"
    table = pq.read_table(path)
    position = table.schema.get_field_index(column)
    pq.write_table(table.set_column(position, column, pa.array([value] * len(table))), path)
    if (column, value) in {("codes", '{"a": 1}'), ("brokers", '["a"]')}:
        report_page(open_store(str(store)))
    else:
        with pytest.raises(InputError, match=rf"incidents: the column '{column}' is damaged; run the audit again"):
            report_page(open_store(str(store)))


def test_the_report_of_a_thousand_partitions_has_less_than_a_megabyte(tmp_path: Path) -> None:
    """Every partition has findings and transactions, and texts of the length that they have, with different numbers."""

    def texts(column: str, row: int) -> str:
        digest = hashlib.sha256(f"{column} {row}".encode()).hexdigest()
        long = {"message": 3, "remedy": 4, "what": 3, "benign": 1, "evidence": 1}.get(column, 0)
        sentence = " ".join(
            f"offsets {int(digest[n : n + 5], 16)} to {int(digest[-n - 6 : -n - 1], 16)} are" for n in range(5)
        )
        text = f"{column}-{digest[:12]}" + f" {sentence}" * long
        return json.dumps({"offset": text, "records": digest}) if column == "evidence" else text

    names = ("partitions", "findings", "transactions", "producers", "lso", "files", "distributed_transactions")
    store = forged(tmp_path, {**dict.fromkeys(names, 1000), "incidents": 100}, texts)
    _, page = report_page(open_store(str(store)))
    assert len(_data(page)["tables"]["partitions"]["rows"]) > 500
    assert 300_000 < len(page.encode()) < 1_000_000


def test_every_chart_with_data_is_there(page: str) -> None:
    parsed = seen(page)
    places = [value for _, name, value in parsed.attributes if name == "data-chart"]
    charts = _data(page)["charts"]
    assert sorted(places) == sorted(charts)
    titles = [
        text for text in parsed.texts if text.split(":")[0] in ("Last stable offset", "Transactions", "Sequences")
    ]
    assert {title.split(":")[0] for title in titles} == {"Last stable offset", "Transactions", "Sequences"}
    assert "Atomicity" in parsed.texts


def test_damage_has_a_map(tmp_path: Path) -> None:
    store = forged(tmp_path, {}, lambda column, row: f"/logs/{row}.log" if column == "path" else f"{column} {row}")
    _, page = report_page(open_store(str(store)))
    text = "".join(seen(page).texts)
    assert "3 of 3 files have damage; the worst 3 are shown." in text


def test_provenance_names_command_and_inputs(page: str, store: Path) -> None:
    text = "".join(seen(page).texts)
    manifest = (store / "manifest.json").read_bytes()
    assert hashlib.sha256(manifest).hexdigest() in text
    assert "2026-11-21 13:00:00 UTC (1795266000000 ms)" in text
    inputs = _data(page)["tables"]["inputs"]
    rows = inputs["rows"]
    listed = json.loads(manifest)["inputs"]
    assert inputs["total"] == len(listed)
    assert isinstance(rows, list)
    assert [row[0] for row in rows] == [file["path"] for file in listed][: len(rows)]
    assert rows[0][-1] == listed[0]["sha256"]


def test_the_same_store_gives_the_same_bytes(page: str, store: Path) -> None:
    assert report_page(open_store(str(store)))[1] == page


def test_the_policy_allows_only_the_scripts_of_the_page(page: str) -> None:
    parsed = seen(page)
    assert set(parsed.elements) <= ELEMENTS
    (policy,) = [value for _, name, value in parsed.attributes if name == "content" and "default-src" in value]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    scripts = [block(page, "library"), *re.findall(r"<script>(.*?)</script>", page, re.DOTALL)]
    assert rules["script-src"].split() == [_hash(text) for text in scripts]
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert rules["style-src"] == _hash(style)
    # A policy applies only to what comes after it.
    assert page.index("Content-Security-Policy") < page.index("<title>")
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name in ("src", "srcdoc", "style")]
    assert not [value for _, name, value in parsed.attributes if name == "href" and not value.startswith("#")]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_script_and_style_never_parse_text_as_html() -> None:
    from importlib.resources import files

    text = files("kforensics.report_html").joinpath("report.js").read_text(encoding="utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http"):
        assert word not in text
    assert "url(" not in files("kforensics.report_html").joinpath("report.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", some([*HOSTILE.values()], 3), ids=some([*HOSTILE], 3))
def test_untrusted_text_stays_text(text: str, tmp_path: Path) -> None:
    """In every column of every table, in the manifest, and in the names of the evidence."""

    def texts(column: str, row: int) -> str:
        return json.dumps({text: text}) if column == "evidence" else f"{text}{row}"

    store = forged(tmp_path, {}, texts)
    counts = json.loads((store / "manifest.json").read_text("utf-8"))["rows"]
    write_manifest(store, rows=counts, command=["audit", text], options={text: text}, version=text, seconds={text: 1})
    _, page = report_page(open_store(str(store)))
    parsed = seen(page)
    assert set(parsed.elements) <= ELEMENTS
    assert parsed.unclosed == []
    assert parsed.other == ["DOCTYPE html"]
    assert len(re.findall("<script", page.split("<body>")[0])) == 0
    assert parsed.elements.count("script") == 3
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name in ("src", "srcdoc", "style")]
    bare = seen(re.sub("<(script|style)[^>]*>.*?</(script|style)>", "", page, flags=re.DOTALL))
    assert "".join((*bare.texts, *(value for _, _, value in bare.attributes))).replace("\n", "").isprintable()
    assert _data(page)["tables"]["partitions"]["total"] == 3


def test_a_notice_says_that_charts_are_left_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("kforensics.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("kforensics.plots", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name, _package=None: None)
    verdict, page = report_page(open_store(str(store)))
    text = "".join(seen(page).texts)
    assert f"Charts are left out: altair is not installed. Install it with: {install_line('plots')}" in text
    assert verdict.sentence in text
    assert _data(page)["charts"] == {}
    assert "data-chart" not in page.split("<script", maxsplit=1)[0]


def test_one_critical_partition_of_a_thousand_is_visible_in_the_bar() -> None:
    """And no verdict that no partition has."""
    verdict = StoreVerdict(
        "critical", "CRITICAL", (), Severity.CRITICAL, True, {"critical": 1, "clean": 999}, {}, {}
    )  # complete
    header = verdict_header(verdict, [])
    bars = {
        name: int(width) for width, name in re.findall(r'<rect x="[0-9]+" width="([0-9]+)" .*?class="(.*?)"', header)
    }
    assert bars.keys() == {"critical", "clean"}
    assert 0.015 < bars["critical"] / sum(bars.values()) < 0.05
