"""A browser for the tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.command import ROOT
from tests.report_html.stores import audited

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of an audit with rows in every section of a report except damage."""
    folder = tmp_path_factory.mktemp("report")
    return audited(folder, "transactions-v2", "replication", "duplicates", records=True, checksums=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium; without one the tests are skipped with advice."""
    from playwright.sync_api import sync_playwright  # not all tests of this folder need it

    command = ["/bin/sh", str(ROOT / "scripts" / "chromium.sh"), sys.executable]
    script = subprocess.run(command, capture_output=True, text=True, check=False)
    if script.returncode:
        pytest.skip(script.stderr.strip().splitlines()[-1])
    with sync_playwright() as started:
        # Containers have no namespaces for the sandbox, and nothing but our own pages is opened.
        launched = started.chromium.launch(executable_path=script.stdout.strip(), args=["--no-sandbox"])
        yield launched
        launched.close()
