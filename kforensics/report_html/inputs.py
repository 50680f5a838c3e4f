"""The inputs of an audit, for the end of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kforensics.report_html.page_rows import Sheet, sheet_of
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.top_rows import By, first_rows

__all__ = ["inputs_sheet"]

CAPTION = "Inputs"
COLUMNS = (
    {"name": "path", "kind": "text", "doc": "file as given"},
    {"name": "size", "kind": "size", "doc": "bytes"},
    {"name": "mtime_ms", "kind": "time", "doc": "last modification"},
)
SHA256 = {
    "name": "sha256",
    "kind": "text",
    "doc": "SHA-256 of the file as it was audited; empty if it was gone by then",
}
MOST = 1000


def inputs_sheet(store: Store) -> Sheet:
    """Return the inputs as a table; with their checksums where the manifest has them.

    Raises:
        InputError: the table of files cannot be read.
    """
    named: Any = store.manifest["inputs"]
    listed = named if isinstance(named, list) else list(_files(store))
    total = len(named) if isinstance(named, list) else store.count("files")
    columns = (*COLUMNS, SHA256) if any("sha256" in one for one in listed) else COLUMNS
    rows = ([one.get(column["name"]) for column in columns] for one in listed)
    return sheet_of(CAPTION, columns, rows, lambda: total)


def _files(store: Store) -> Iterator[dict[str, Any]]:
    found = first_rows(store.batches("files", [column["name"] for column in COLUMNS]), [By("path")], MOST)
    yield from [] if found is None else found.to_pylist()
