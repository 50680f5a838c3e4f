"""The file of `make onefile`, on a machine with Python alone: no packages, an empty home, no variables."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from tests.command import CLASSIC, ROOT, SAMPLES

pytestmark = [pytest.mark.slow, pytest.mark.repository]

LIMIT = 150_000_000
STARTS = 0.3  # seconds
LOGS = str(SAMPLES / "transactions-v2")
COMMANDS = [
    ("dump", "--print-data-log", "--files", str(CLASSIC)),
    ("lso", "--as-of", "2026-11-22T01:00", LOGS),
    ("audit", "--as-of", "2026-11-22T01:00", LOGS),
]
KERNELS = """
import sys
from kforensics.parsers.kernels.library import load_kernels
print(load_kernels(print) is not None, sorted({"numba", "llvmlite"} & sys.modules.keys()))
"""


@pytest.fixture(scope="module")
def onefile() -> Path:
    """Return the file that was built."""
    if "KFORENSICS_DIST" not in os.environ:
        pytest.skip("`make onefile` builds the file and runs these tests")
    (path,) = (ROOT / os.environ["KFORENSICS_DIST"]).glob("*.pyz")
    return path


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a Python that has no packages, and with a home."""
    folder = tmp_path_factory.mktemp("host")
    venv.create(folder / "python", with_pip=False)
    (folder / "home").mkdir()
    return folder


def on_host(host: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [str(host / "python" / "bin" / "python"), *map(str, arguments)]
    return subprocess.run(
        command, env={"HOME": str(host / "home")} | variables, cwd=host, capture_output=True, check=False
    )


def in_checkout(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.run(
        [sys.executable, "-m", "kforensics", *arguments], env=variables, capture_output=True, check=False
    )


def test_host_has_no_packages(host: Path) -> None:
    assert b"ModuleNotFoundError" in on_host(host, "-c", "import numpy").stderr


def test_file_is_small(onefile: Path) -> None:
    assert onefile.stat().st_size < LIMIT


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_prints_what_the_checkout_prints(arguments: tuple[str, ...], onefile: Path, host: Path) -> None:
    printed, expected = on_host(host, onefile, *arguments), in_checkout(*arguments)
    assert printed.stdout == expected.stdout
    assert (printed.returncode, printed.stderr) == (expected.returncode, expected.stderr)
    assert expected.stdout


def test_kernels_are_in_the_file(onefile: Path, host: Path) -> None:
    printed = on_host(host, onefile, "-c", KERNELS, SHIV_INTERPRETER="1")
    assert (printed.stdout, printed.stderr) == (b"True []\n", b"")


def test_all_it_writes_is_in_one_folder_that_can_be_chosen(onefile: Path, host: Path, tmp_path: Path) -> None:
    home, chosen = tmp_path / "home", tmp_path / "chosen"
    home.mkdir()
    printed = on_host(host, onefile, "--version", HOME=str(home), SHIV_ROOT=str(chosen))
    assert (printed.returncode, printed.stderr) == (0, b"")
    assert list(home.iterdir()) == []
    assert list(chosen.glob("*/site-packages/kforensics"))


def test_starts_soon_after_its_first_run(onefile: Path, host: Path) -> None:
    """Processor time, of the fastest of five, because other processes take theirs."""
    on_host(host, onefile, "--version")
    times = []
    for _ in range(5):
        before = getrusage(RUSAGE_CHILDREN)
        on_host(host, onefile, "--version")
        after = getrusage(RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < STARTS


def test_another_python_ends_it_with_a_sentence(tmp_path: Path) -> None:
    """The libraries in the file would fail with a traceback, which names none of both releases."""
    text = (ROOT / "scripts" / "onefile_release.py").read_text(encoding="utf-8")
    for release, code in ((f"{sys.version_info[0]}.{sys.version_info[1]}", 0), ("3.7", 1)):
        path = tmp_path / f"{release}.py"
        path.write_text(text.replace("@RELEASE@", release), encoding="utf-8")
        ended = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
        assert ended.returncode == code
        assert ended.stdout == ""
        assert ("run it with python3.7" in ended.stderr) == bool(code)
        assert len(ended.stderr.splitlines()) == code
