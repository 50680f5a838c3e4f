import pytest

from kforensics.render import arrow
from kforensics.render.arrow import chunked


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10])
def test_chunks_hold_all_rows_in_order(count: int) -> None:
    rows = [(number,) for number in range(count)]
    chunks = list(chunked(rows, 5))
    assert [row for chunk in chunks for row in chunk] == rows
    assert all(0 < len(chunk) <= 5 for chunk in chunks)


def test_heavy_rows_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values, in headers too, must not add up to more than memory holds."""
    monkeypatch.setattr(arrow, "HEAVIEST", 1000)
    rows = [(1, b"k" * 300, [{"key": "h", "value": b"v" * 300}, {"key": "h", "value": None}])] * 10
    assert max(len(chunk) for chunk in chunked(rows)) == 2
