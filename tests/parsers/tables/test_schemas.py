"""Table definitions and the Arrow schemas derived from them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kforensics.parsers.tables.schemas import TABLES, arrow_schema, arrow_type

tables = pytest.mark.parametrize("name", sorted(TABLES))
PLACE = ("broker_id", "log_dir", "topic", "partition")


@tables
def test_a_table_begins_with_its_place_and_describes_each_column(name: str) -> None:
    table = TABLES[name]
    assert table.name == name
    assert table.row
    assert table.names[:4] == PLACE
    assert len(set(table.names)) == len(table.names)
    assert all(column.doc and column.name.islower() for column in table.columns)


@tables
def test_arrow_has_the_columns_in_order(name: str) -> None:
    schema = arrow_schema(name)
    assert schema.names == list(TABLES[name].names)
    assert schema.types == [arrow_type(column.type) for column in TABLES[name].columns]


def test_arrow_types() -> None:
    assert arrow_type("int8") == pa.int8()
    assert arrow_type("binary") == pa.binary()
    assert arrow_type("bool") == pa.bool_()
    assert arrow_type("headers") == pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_an_unknown_table_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        arrow_schema("nothing")
