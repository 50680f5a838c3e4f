"""The tables of an evidence store, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kforensics.render.staged_store import store_place

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StoredTables"]


class StoredTables(Mapping[str, "pa.Table"]):
    """Tables by name.

    Args:
        folder: of the store, a path or a URI.
        names: of the tables.
    """

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder, self._names = folder, tuple(names)

    def __getitem__(self, name: str) -> pa.Table:
        """Return a table, all of it in memory."""
        if name not in self._names:
            raise KeyError(name)
        from pyarrow import dataset  # who only writes stores does not read them

        system, root = store_place(self._folder)
        return dataset.dataset(f"{root}/{name}", filesystem=system, format="parquet").to_table()

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many tables there are."""
        return len(self._names)
