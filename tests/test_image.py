"""What `docker build` gets of the checkout is enough to build the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kforensics
from tests.command import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.repository]

# The backend of uv itself, which pip installs for the build: whatever is imported from it is there.
UV_BUILD = """
import shutil
def __getattr__(name): return lambda *_: name
def build_sdist(folder, settings): return shutil.copy("pyproject.toml", folder)
"""
BACKEND = """
import importlib, sys
backend = importlib.import_module(sys.argv[1])
print(backend.__file__, *backend.get_requires_for_build_wheel({"platform": "linux-x86_64"}), sep="\\n")
"""

SDIST = "import importlib, sys; importlib.import_module(sys.argv[1]).build_sdist(sys.argv[2])"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the first stage of the Dockerfile copies, as far as .dockerignore lets it."""
    folder = tmp_path_factory.mktemp("src")
    for *names, target in copied():
        place = folder / target
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=ignored, dirs_exist_ok=True)
            else:
                assert not is_ignored(name), f".dockerignore leaves {name} out"
                shutil.copy(ROOT / name, place)
    return folder


def copied() -> Iterator[list[str]]:
    """Yield sources and target of each COPY from the checkout."""
    for words in re.findall(r"^COPY (.*)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE):
        if not words.startswith("--from="):
            yield words.split()


def is_ignored(name: str) -> bool:
    """Return whether .dockerignore leaves out a file or folder: the last pattern for it or a folder above it counts."""
    above = [name, *(parent.as_posix() for parent in Path(name).parents if parent != Path())]
    is_left_out = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, each) for each in above):
            is_left_out = not line.startswith("!")
    return is_left_out


def ignored(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if is_ignored((Path(folder) / name).relative_to(ROOT).as_posix())}


@pytest.fixture(scope="module")
def backend(source: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the file of the build backend and what it asks for, on a machine without programs."""
    return from_backend(source, tmp_path_factory.mktemp("uv"), BACKEND)


def from_backend(source: Path, folder: Path, code: str, *arguments: str) -> list[str]:
    """Return what code prints that has the name of the build backend as its first argument."""
    system = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["build-system"]
    (folder / "uv_build.py").write_text(UV_BUILD)
    places = [*(str(source / path) for path in system["backend-path"]), str(folder)]
    command = [sys.executable, "-P", "-c", code, system["build-backend"], *arguments]
    variables = {"PYTHONPATH": os.pathsep.join(places), "PATH": ""}
    done = subprocess.run(command, cwd=source, env=variables, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_build_backend_is_among_the_files(source: Path, backend: list[str]) -> None:
    assert Path(backend[0]).is_relative_to(source)


def test_the_version_that_is_packed_is_that_of_the_package(source: Path, tmp_path: Path) -> None:
    """It is stated in no second place; no file of the checkout is changed for that."""
    module, before = source / "kforensics" / "version.py", (source / "pyproject.toml").read_text("utf-8")
    stated = module.read_text("utf-8")
    module.write_text(stated.replace(kforensics.__version__, "7.6.5"), "utf-8")
    try:
        from_backend(source, tmp_path, SDIST, str(tmp_path))
    finally:
        module.write_text(stated, "utf-8")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["version"], "dynamic" in project) == ("7.6.5", False)
    assert (source / "pyproject.toml").read_text("utf-8") == before


def test_kernels_are_linked_without_the_compiler_of_the_machine(backend: list[str]) -> None:
    """Small images of Python have none, and a package brings one."""
    assert {re.split(r"\W", requirement)[0] for requirement in backend[1:]} >= {"numba", "ziglang"}


def test_files_that_the_metadata_names_are_there(source: Path) -> None:
    document = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))
    project, build = document["project"], document["tool"]["uv"]["build-backend"]
    named = [project["readme"], *project["license-files"], *build["source-include"], "constraints.txt"]
    assert [name for name in named if not (source / name).is_file()] == []


def test_package_is_whole(source: Path) -> None:
    package = {path.relative_to(ROOT) for path in (ROOT / "kforensics").rglob("*") if path.is_file()}
    files = {path.relative_to(source) for path in (source / "kforensics").rglob("*") if path.is_file()}
    assert files == {path for path in package if "__pycache__" not in path.parts}
