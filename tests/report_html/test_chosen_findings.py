"""Which findings are told in full: the worst, of each code some, of no partition too many."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.forensics.core.findings import Severity
from kforensics.report_html import chosen_findings, stored_evidence
from kforensics.report_html.chosen_findings import SHOWN_ALIKE, SHOWN_OF_CODE, groups
from kforensics.report_html.stored_evidence import open_store
from kforensics.report_html.verdict import verdict_of
from tests.report_html.stores import audited, forged


def _groups(store: Path) -> list[chosen_findings.Group]:
    opened = open_store(str(store))
    return groups(opened, verdict_of(opened).codes)


def test_every_code_is_there_with_its_count_the_worst_first(store: Path) -> None:
    found = _groups(store)
    rows = open_store(str(store)).table("findings", ["severity", "code"], lambda batch: [True] * len(batch)).to_pylist()
    assert {(group.severity, group.code): group.count for group in found} == Counter(
        (row["severity"], row["code"]) for row in rows
    )
    ranks = [Severity[group.severity.upper()] for group in found]
    assert ranks == sorted(ranks, reverse=True)
    assert all(0 < len(group.told) <= SHOWN_OF_CODE for group in found)


@pytest.mark.parametrize("rows_at_once", [1, 7, 1 << 16])
def test_it_does_not_matter_how_rows_come(rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that fall out early are those that would have fallen out late."""
    store = audited(tmp_path, "transactions-v2", "duplicates", "ghosts")
    whole = _groups(store)
    monkeypatch.setattr(stored_evidence, "ROWS", rows_at_once)
    assert _groups(store) == whole
    for group in whole:
        places = Counter((row["log_dir"], row["topic"], row["partition"]) for row in group.told)
        assert max(places.values()) <= SHOWN_ALIKE


def test_a_partition_with_many_of_a_kind_leaves_room_for_others(tmp_path: Path) -> None:
    store = forged(tmp_path, {"findings": 200}, lambda column, _row: column)
    path = store / "findings" / "part-0.parquet"
    table = pq.read_table(path)
    for name, values in (("partition", [0] * 188 + [1] * 12), ("broker_id", [1] * 200)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, "int32"))
    pq.write_table(table, path)
    for group in _groups(store):
        # All but the place is alike, so that the busy partition would take every line.
        assert [row["partition"] for row in group.told] == [0] * SHOWN_ALIKE + [1]


def test_figures_are_the_json_of_the_evidence(store: Path) -> None:
    (stuck,) = (group for group in _groups(store) if group.code == "lso-stuck")
    assert stuck.told[0]["evidence"]["last_stable_offset"] == 3
