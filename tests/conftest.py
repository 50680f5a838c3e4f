"""What every test may ask for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.thorough import IS_THOROUGH

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
NOT_QUICK = ("java", "spark", "browser", "exhaustive", "slow")
# A module whose tests are all left out; some compile kernels when they are imported.
NOT_QUICK_MODULE = re.compile(rf"^pytestmark = .*\b({'|'.join(NOT_QUICK)})\b", re.MULTILINE)

# A shared machine stalls now and then; a deadline would call that a failure of the code.
settings.register_profile("kforensics", deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("kforensics"), max_examples=5)
settings.load_profile("kforensics")


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples for ``--quick``, and let the commands under test know Ctrl-C.

    A test keeps the settings that hold when it is imported. What a shell runs in the background ignores Ctrl-C, what
    nohup runs the end of the terminal, and so does all that they start.
    """
    if config.getoption("--quick"):
        settings.load_profile("quick")
    os.environ.pop("PYTHONUNBUFFERED", None)  # users do not set it
    os.environ["TERM"] = "xterm"  # a dumb terminal has no progress
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and text would be wrapped
    os.environ["XDG_STATE_HOME"] = tempfile.gettempdir() + f"/kforensics-tests-{os.geteuid()}"  # the user's own stays
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--quick``, which `make quick` uses."""
    parser.addoption("--quick", action="store_true", help="without Java, Spark, browser and long tests, one case each")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what ``--quick`` leaves out."""
    is_module = config.getoption("--quick") and collection_path.match("test_*.py")
    return True if is_module and NOT_QUICK_MODULE.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need Java if there is none, with the message of scripts/with_java.sh; select for ``--quick``."""
    if config.getoption("--quick"):
        _select_quick(config, items)
    if not IS_THOROUGH:
        _leave_to_thorough(config, items)
    reason = os.environ.get("KFORENSICS_WITHOUT_JAVA")
    if not reason:
        return
    for item in items:
        if item.get_closest_marker("java") or item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _leave_to_thorough(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _select_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one case, with few examples, of every test function that runs in this process alone and is not slow."""
    seen: set[tuple[str, str]] = set()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        function = str(item.path), getattr(item, "originalname", item.name)
        is_slow = function in seen or any(map(item.get_closest_marker, NOT_QUICK))
        (left_out if is_slow else kept).append(item)
        seen.add(function)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """Return an empty folder with no others around it, because commands look there for logs of the same cluster."""
    folder = tmp_path / "o"  # short, as sockets may lie in it
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sample_logs() -> Path:
    """Return the folder of the samples."""
    return ROOT / "sample_logs"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium; without one the tests are skipped with advice."""
    from playwright.sync_api import sync_playwright  # few tests need it

    command = ["/bin/sh", str(ROOT / "scripts" / "chromium.sh"), sys.executable]
    script = subprocess.run(command, capture_output=True, text=True, check=False)
    if script.returncode:
        pytest.skip(script.stderr.strip().splitlines()[-1])
    with sync_playwright() as started:
        # Containers have no namespaces for the sandbox, and nothing but our own pages is opened.
        launched = started.chromium.launch(executable_path=script.stdout.strip(), args=["--no-sandbox"])
        yield launched
        launched.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was compared: with outputs of Kafka's own tools, with live brokers and their files, with Spark."""
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name in ("compared", "examined", "formatted", "same on Spark") and report.when == "call":
                counted[name].update(value)
    compared, examined, formatted = counted["compared"], counted["examined"], counted["formatted"]
    shared = counted["same on Spark"]
    if shared:
        figures = ", ".join(f"{count:,} {what}" for what, count in shared.items())
        terminalreporter.write_line(f"rows that Spark and one process give alike: {figures}")
    if examined:
        figures = ", ".join(f"{count} {what}" for what, count in examined.items())
        terminalreporter.write_line(f"checked against live brokers and the files they wrote: {figures}")
    if compared:
        tools = ", ".join(f"{tool}: {count}" for tool, count in sorted(compared.items()))
        terminalreporter.write_line(f"compared with Kafka's own dump tools: {sum(compared.values())} outputs ({tools})")
    if formatted:
        formatters = ", ".join(f"{formatter}: {count:,}" for formatter, count in sorted(formatted.items()))
        count = f"{sum(formatted.values()):,} texts of records"
        terminalreporter.write_line(f"compared with the formatters of kafka-console-consumer: {count} ({formatters})")
