"""Tables of plain text."""

from collections.abc import Iterable, Iterator, Sequence

_NAME_WIDTH = 42


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of equal columns: the first to the left, as wide in every table, the others to the right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  " + "  ".join([name.ljust(max(widths[0], _NAME_WIDTH)), *right])
