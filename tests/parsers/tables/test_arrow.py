from collections.abc import Iterator

import pyarrow as pa
import pytest

from kforensics.parsers.tables import arrow
from kforensics.parsers.tables.arrow import (
    arrow_table,
    batches_of_parts,
    chunked,
    row_groups,
    table_of_parts,
    with_dictionaries,
    without_dictionaries,
)
from kforensics.parsers.tables.schemas import TABLES, Table, arrow_schema
from tests.render.rows import rows_of


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10])
def test_chunks_contain_all_rows_in_order(count: int) -> None:
    rows = [(number,) for number in range(count)]
    chunks = list(chunked(rows, 5))
    assert [row for chunk in chunks for row in chunk] == rows
    assert all(0 < len(chunk) <= 5 for chunk in chunks)


def test_large_rows_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values, also in headers, must not exceed the memory."""
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 1000)
    rows = [(1, b"k" * 300, [{"key": "h", "value": b"v" * 300}, {"key": "h", "value": None}])] * 10
    assert max(len(chunk) for chunk in chunked(rows)) == 2


def test_records_of_ten_megabytes_come_two_at_a_time() -> None:
    """Some chunks are in memory at the same time: as Python values, as Arrow, and as written."""
    rows = [(1, bytes(5 << 20), bytes(5 << 20))] * 5
    assert [len(chunk) for chunk in chunked(rows)] == [2, 2, 1]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_text_is_dictionary_encoded_and_decoded(table: Table) -> None:
    batch = arrow_table(table, rows_of(table)).to_batches()[0]
    encoded = with_dictionaries(batch)
    assert not any(pa.types.is_string(kind) for kind in encoded.schema.types)
    assert without_dictionaries(encoded, arrow_schema(table.name)).equals(batch)


def test_columns_and_rows_between_them_are_one_table() -> None:
    table = TABLES["batches"]
    rows = rows_of(table)
    columns = with_dictionaries(arrow_table(table, rows).to_batches()[0])
    parts = [iter(rows), columns, columns, iter([]), iter(rows[:1]), iter(rows[1:]), columns]
    assert table_of_parts(table, parts).equals(arrow_table(table, rows * 5))
    assert table_of_parts(table, []).equals(arrow_table(table, []))


def test_rows_are_read_before_the_next_part_is_requested() -> None:
    """The next part may reuse the same memory."""
    table, seen = TABLES["properties"], list[str]()

    def rows(name: str) -> Iterator[tuple[object, ...]]:
        seen.append(name)
        yield (None, None, None, None, "path", name, "")

    def parts() -> Iterator[Iterator[tuple[object, ...]]]:
        for name in "abc":
            yield rows(name)
            seen.append(f"after {name}")

    assert len(list(batches_of_parts(table, parts()))) == 1
    assert seen == ["a", "after a", "b", "after b", "c", "after c"]


@pytest.mark.parametrize(("rows", "size"), [(4, 1 << 30), (1 << 30, 100)])
def test_groups_contain_all_batches_and_end_when_they_are_large(
    rows: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "GROUP_ROWS", rows)
    monkeypatch.setattr(arrow, "GROUP_BYTES", size)
    batches = [pa.record_batch({"a": list(range(number, number + 3))}) for number in range(9)]
    groups = list(row_groups(batches))
    assert [batch for group in groups for batch in group] == batches
    assert {len(group) for group in groups[:-1]} == {2 if rows == 4 else 5}
