"""A store for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report_html.stores import audited


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of an audit with rows in every section of a report except damage."""
    folder = tmp_path_factory.mktemp("report")
    return audited(folder, "transactions-v2", "replication", "duplicates", records=True, checksums=True)
