"""The verdict of a report equals the text report of the audit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kforensics.forensics.core.findings import Severity
from kforensics.report_html.store_reader import open_store
from kforensics.report_html.store_verdict import store_verdict
from tests.command import SAMPLES, run
from tests.forensics.forge import forge
from tests.report_html.stores import forged

AS_OF = "2026-11-21T13:00"


@pytest.mark.parametrize(
    "sample",
    ["transactions-v2", "damaged", "deletion", "log-dirs", "crash-while-swapping", "legacy-magic-1", "replication"],
)
def test_it_equals_the_head_of_the_text_report(sample: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ended = run("audit", "--as-of", AS_OF, "--output", store, SAMPLES / sample)
    verdict = store_verdict(open_store(str(store)))
    head = ended.lines[: ended.lines.index("")] if "" in ended.lines else ended.lines
    assert [verdict.sentence, *verdict.details] == head
    assert verdict.name == re.split("[,:]", ended.lines[0])[0].lower()
    assert verdict.is_complete


def test_a_clean_log_is_clean(tmp_path: Path) -> None:
    forge(tmp_path / "logs", "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5")
    store = tmp_path / "store"
    run("audit", "--as-of", "2023-11-14T22:14", "--output", store, tmp_path / "logs")
    verdict = store_verdict(open_store(str(store)))
    assert (verdict.name, verdict.worst, verdict.findings_by_code) == ("clean", None, {})
    assert verdict.partitions == {"clean": 1}


def test_it_reports_an_unreadable_path(tmp_path: Path) -> None:
    store = tmp_path / "store"
    arguments = ["--as-of", AS_OF, "--output", store, SAMPLES / "deletion", tmp_path / "nothing"]
    ended = run("audit", *arguments)
    verdict = store_verdict(open_store(str(store)))
    assert ended.code == 3
    assert "AND NOT ALL COULD BE READ" in verdict.sentence
    assert verdict.sentence == ended.lines[0]
    assert not verdict.is_complete


def test_it_names_unread_partitions(tmp_path: Path) -> None:
    verdict = store_verdict(open_store(str(forged(tmp_path, {"partitions": 4}))))
    assert verdict.sentence.startswith("CRITICAL, AND NOT ALL COULD BE READ, 3 incidents: 4 partitions")
    assert verdict.details[0].endswith("2 critical, 1 clean, 1 unread")
    assert verdict.details[1] == "  not read: topic 2-3 on broker 3: read 2"
    assert verdict.worst is Severity.CRITICAL
    assert not verdict.is_complete


def test_findings_that_were_left_out_are_counted(tmp_path: Path) -> None:
    """The store has a row for the first thousand findings of a code; all of them count."""
    forge(tmp_path / "logs", "; ".join(f"D 1 0 {3 * n}-{3 * n} @{n} N" for n in range(1_501)))
    store = tmp_path / "store"
    ended = run("audit", "--as-of", "2023-11-14T22:14", "--output", store, tmp_path / "logs")
    verdict = store_verdict(open_store(str(store)))
    assert verdict.findings_by_code[Severity.ERROR, "seq-gap"] == 1_500
    assert any("1,500 findings" in line for line in ended.lines)
    (summary,) = open_store(str(store)).batches("partitions", ["findings"])
    assert summary["findings"].to_pylist() == [sum(verdict.findings_by_code.values())]
