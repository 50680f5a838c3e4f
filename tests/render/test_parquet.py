"""Parquet files have the types of the table, row groups and statistics."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.parsers.tables import arrow
from kforensics.parsers.tables.arrow import arrow_table
from kforensics.parsers.tables.schemas import TABLES, arrow_schema
from kforensics.render.formats import Format
from kforensics.render.writers import ColumnWriter, open_writer
from tests.render.rows import rows_of

RECORDS = TABLES["records"]


def written(count: int) -> tuple[bytes, pa.Table]:
    """Return a file of several parts, rows and record batches in turn, and the expected table."""
    out = io.BytesIO()
    writer = open_writer(Format.PARQUET, out)
    assert isinstance(writer, ColumnWriter)
    parts = [rows_of(RECORDS) * number for number in range(1, count + 1)]
    batches = [arrow_table(RECORDS, part).to_batches(max_chunksize=3) for part in parts]
    writer.write_parts(
        RECORDS, (item for index, part in enumerate(parts) for item in ([part] if index % 2 else batches[index]))
    )
    writer.close()
    expected = [arrow_schema("records").empty_table(), *(arrow_table(RECORDS, part) for part in parts)]
    return out.getvalue(), pa.concat_tables(expected)


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_rows_and_batches_are_read_back_in_order(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups may end anywhere; dictionary-encoded text is read as text."""
    monkeypatch.setattr(arrow, "GROUP_ROWS", 7)
    data, expected = written(count)
    table = pq.read_table(io.BytesIO(data))
    assert table.schema.remove_metadata() == arrow_schema("records")
    assert table.equals(expected)
    assert (pq.ParquetFile(io.BytesIO(data)).num_row_groups > 1) == (count == 20)


def test_offsets_have_statistics() -> None:
    metadata = pq.read_metadata(io.BytesIO(written(2)[0]))
    columns = {metadata.row_group(0).column(index).path_in_schema: index for index in range(metadata.num_columns)}
    statistics = metadata.row_group(0).column(columns["offset"]).statistics
    assert (statistics.min, statistics.max) == (-(2**63), 2**63 - 1)
    assert metadata.row_group(0).column(columns["value"]).compression == "SNAPPY"
