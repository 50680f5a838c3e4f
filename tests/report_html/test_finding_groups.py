"""The findings that a report shows in full: the worst, a few of each code, and not too many of one partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.forensics.core.findings import Severity
from kforensics.report_html import store_reader
from kforensics.report_html.finding_groups import (
    MAX_OF_CODE,
    MAX_OF_CODE_IN_PARTITION,
    FindingGroup,
    finding_groups,
)
from kforensics.report_html.store_reader import open_store
from kforensics.report_html.store_verdict import store_verdict
from tests.report_html.stores import audited, forged


def _groups(store: Path) -> list[FindingGroup]:
    opened = open_store(str(store))
    return finding_groups(opened, store_verdict(opened).findings_by_code)


def test_every_code_has_a_group_with_its_count_worst_first(store: Path) -> None:
    groups = _groups(store)
    rows = open_store(str(store)).table("findings", ["severity", "code"], lambda batch: [True] * len(batch)).to_pylist()
    assert {(group.severity, group.code): group.count for group in groups} == Counter(
        (row["severity"], row["code"]) for row in rows
    )
    ranks = [Severity[group.severity.upper()] for group in groups]
    assert ranks == sorted(ranks, reverse=True)
    assert all(0 < len(group.shown) <= MAX_OF_CODE for group in groups)


@pytest.mark.parametrize("rows_at_once", [1, 7, 1 << 16])
def test_the_batch_size_does_not_matter(rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are dropped early would have been dropped later as well."""
    store = audited(tmp_path, "transactions-v2", "duplicates", "ghosts")
    whole = _groups(store)
    monkeypatch.setattr(store_reader, "BATCH_ROWS", rows_at_once)
    assert _groups(store) == whole
    for group in whole:
        places = Counter((row["log_dir"], row["topic"], row["partition"]) for row in group.shown)
        assert max(places.values()) <= MAX_OF_CODE_IN_PARTITION


def test_a_partition_with_many_findings_leaves_room_for_others(tmp_path: Path) -> None:
    store = forged(tmp_path, {"findings": 200}, lambda column, _row: column)
    path = store / "findings" / "part-0.parquet"
    table = pq.read_table(path)
    for name, values in (("partition", [0] * 188 + [1] * 12), ("broker_id", [1] * 200)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, "int32"))
    pq.write_table(table, path)
    for group in _groups(store):
        # Only the place differs, so without a limit the first partition would take every line.
        assert [row["partition"] for row in group.shown] == [0] * MAX_OF_CODE_IN_PARTITION + [1]


def test_evidence_is_parsed(store: Path) -> None:
    (stuck,) = (group for group in _groups(store) if group.code == "lso-stuck")
    assert stuck.shown[0]["evidence"]["last_stable_offset"] == 3
