"""The libraries of a wheel: they run without a compiler, print the same on every processor, and can lie in a zip."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import kforensics
from kforensics.parsers.kernels.target import TARGETS
from tests.command import ROOT
from tests.once import once

pytestmark = pytest.mark.slow

HERE = (sys.platform, platform.machine())
NAMES = list(TARGETS.get(HERE, {}))
PACKAGE = Path(kforensics.__file__).parent
KERNELS = "kforensics/parsers/kernels"
# Prints which library is there, what it has loaded besides, and lines of samples.
DUMP = """
import sys
from pathlib import Path
from kforensics.parsers.kernels.library import load_kernels
assert load_kernels(print) is not None
maps = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "r-xp" in line]
print([Path(name).name for name in maps if "/kernels-" in name], sorted({"numba", "llvmlite"} & sys.modules.keys()))
from tests.kafka_dump.test_optimized_text import DATA, LOGS, dumped, forced_kernels
for path in LOGS[::23]:
    dump, _ = dumped(path.read_bytes(), DATA, forced_kernels, str(path))
    print(path.name, dump)
"""
# The instruction in machine code: F2, optionally a prefix for wide registers, 0F 38 and F0 or F1.
CRC_CODE = re.compile(rb"\xf2[\x40-\x4f]?\x0f\x38[\xf0\xf1]")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a package with the libraries of a wheel; compiled here if this is a checkout."""
    if not NAMES:
        pytest.skip("wheels have no libraries for this platform")
    if (PACKAGE.parent / KERNELS / NAMES[0]).exists():
        return PACKAGE.parent
    if not shutil.which("cc"):
        pytest.skip("there is no linker")
    return once(tmp_path_factory, "installed", _install)


def _install(folder: Path) -> None:
    shutil.copytree(PACKAGE, folder / "kforensics", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-P", "-m", "kforensics.parsers.kernels.build", *HERE, str(folder / KERNELS)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True, timeout=600)


def printed(package: Path, tmp_path: Path, **variables: str) -> list[str]:
    """Return the lines that a process prints that has the package, but no compiler; nothing may be cached."""
    for name in ("numba", "llvmlite"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('no such thing here')\n")
    places = [str(tmp_path), str(package), str(ROOT), *sys.path]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KFORENSICS_")}
    cache = tmp_path / "cache"
    settings = kept | {"PYTHONPATH": os.pathsep.join(places), "KFORENSICS_CACHE_DIR": str(cache)} | variables
    done = subprocess.run(
        [sys.executable, "-P", "-c", DUMP], env=settings, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not cache.exists()
    return done.stdout.splitlines()


def test_every_library_prints_the_same_without_a_compiler(installed: Path, tmp_path: Path) -> None:
    """That for any processor is chosen on request."""
    first, *expected = printed(installed, tmp_path)
    assert len(expected) > 40
    portable = printed(installed, tmp_path, KFORENSICS_PORTABLE_KERNELS="1")
    assert portable == [f"{NAMES[-1:]} []", *expected]
    assert first in [f"{[name]} []" for name in NAMES]


def test_a_zip_with_libraries_needs_no_compiler_and_no_cache(installed: Path, tmp_path: Path) -> None:
    """The library is loaded from memory."""
    path = tmp_path / "kforensics.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in (installed / "kforensics").rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(installed))
    first, *lines = printed(path, tmp_path)
    assert first == "[] []"
    assert lines == printed(installed, tmp_path)[1:]


@pytest.mark.skipif(len(NAMES) < 2, reason="one library is for all processors of this kind")
def test_only_the_library_for_newer_processors_has_the_instruction(installed: Path) -> None:
    newer, portable = (bool(CRC_CODE.search((installed / KERNELS / name).read_bytes())) for name in NAMES)
    assert (newer, portable) == (True, False)


def test_a_library_that_cannot_be_loaded_is_reported_once(installed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(installed / "kforensics", copy / "kforensics", ignore=shutil.ignore_patterns("__pycache__"))
    for name in NAMES:
        (copy / KERNELS / name).write_bytes(b"no library")
    script = """
from kforensics.parsers.kernels.library import load_kernels
print([load_kernels(print), load_kernels(print, compile_missing=False), load_kernels(print)])
"""
    settings = os.environ | {"PYTHONPATH": os.pathsep.join([str(copy), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env=settings, capture_output=True, text=True, check=True
    )
    sentence, last = done.stdout.splitlines()
    assert sentence.startswith("the fast kernels are unavailable (")
    assert NAMES[0] in sentence or NAMES[-1] in sentence
    assert last == "[None, None, None]"
