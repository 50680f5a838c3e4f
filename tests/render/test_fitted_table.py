"""Tables that fit the width of a screen."""

from __future__ import annotations

import pytest

from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.screen import Screen

COLUMNS = (TableColumn("offset"), TableColumn("change", is_text=True), TableColumn("leader"), TableColumn("epoch", 1))
ROWS = [
    ("27", "created", "2", "0"),
    ("64", "unclean election, isr expanded by 3, elr changed", "3", "2"),
]


@pytest.mark.parametrize("width", [120, 60, 45])
def test_the_rows_fit_the_width(width: int) -> None:
    table = FittedTable(COLUMNS, Screen(width=width))
    lines = list(map(str, table.lines(ROWS)))
    assert max(map(len, lines)) <= width
    assert [*table.dropped] == (["epoch"] if width < 120 else [])
    shown = ROWS if width == 120 else [row[:3] for row in ROWS]
    assert sorted(" ".join(lines[1:]).split()) == sorted(" ".join(cell for row in shown for cell in row).split())


def test_a_word_is_not_torn() -> None:
    path = "/var/lib/kafka/data/orders-0/00000000000000000000.log"
    lines = list(map(str, FittedTable(COLUMNS[:2], Screen(width=40)).lines([("1", f"in {path}"), ("2", "created")])))
    assert any(line.strip() == path for line in lines)
