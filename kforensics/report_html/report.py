"""From an evidence store to a report on disk."""

from __future__ import annotations

from pathlib import Path

from kforensics.render.output import check_beside, open_output
from kforensics.report_html.page import report_page
from kforensics.report_html.stored_evidence import open_store
from kforensics.report_html.verdict import Verdict

__all__ = ["write_report"]


def write_report(store: str, output: Path) -> Verdict:
    """Write the report of a store, and return the verdict it gives.

    Args:
        store: its folder, a path or a URI.
        output: the file; it appears whole or not at all.

    Raises:
        InputError: the store cannot be read.
        UsageError: the folder is no store, or the file cannot be written, or would stand in the store.
    """
    check_beside(output, (store,))
    verdict, page = report_page(open_store(store))
    with open_output(output) as out:
        out.write(page.encode())
    return verdict
