"""The build backend of pyproject.toml: that of uv, which packs, and a wheel has the kernels compiled for a platform.

The version is that of ``kforensics/version.py``. As uv_build takes it from pyproject.toml alone, it packs a copy of the
project whose pyproject.toml has it; so has that of an sdist.

``--config-setting platform=linux-aarch64`` builds a wheel for another platform than this one. Where nothing can be
compiled, a wheel for any platform results, and a sentence says so; it reads logs in pure Python or, with the extra
``kernels``, compiles when they are large.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import uv_build
from uv_build import get_requires_for_build_editable, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None
ROOT = Path(__file__).resolve().parent.parent
KERNELS = "kforensics/parsers/kernels"
# What pyproject.toml of the checkout says instead of a version.
DYNAMIC = re.compile(r'^dynamic = \["version"\].*$', re.MULTILINE)
# What importing kforensics.parsers.kernels.build takes.
COMPILER = ["numba>=0.61", "numpy>=2", "construct>=2.10.70", "google-crc32c>=1.6"]
LINKER = ["ziglang>=0.13"]
# Libraries need nothing but memcpy and its kin, whatever the version of the C library.
TAGS = {
    "linux-x86_64": "manylinux_2_17_x86_64",
    "linux-aarch64": "manylinux_2_17_aarch64",
    "darwin-arm64": "macosx_11_0_arm64",
}
HERE = f"{sys.platform}-{platform.machine()}"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return what compiles kernels for the platform; nothing for a platform without compiled kernels."""
    wanted = _platform(config_settings)
    if wanted not in TAGS:
        return []
    # A small image of Python has no C compiler, which would link.
    return COMPILER if wanted == HERE and shutil.which("cc") else COMPILER + LINKER


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings = None) -> str:
    """Write the metadata of a wheel; return the name of their folder."""
    with _project_with_version():
        return str(uv_build.prepare_metadata_for_build_wheel(directory, config_settings))


def prepare_metadata_for_build_editable(directory: str, config_settings: Settings = None) -> str:
    """Write the metadata of an editable installation; return the name of their folder."""
    with _project_with_version():
        return str(uv_build.prepare_metadata_for_build_editable(directory, config_settings))


def build_sdist(directory: str, config_settings: Settings = None) -> str:
    """Build an sdist; return its name."""
    with _project_with_version():
        return str(uv_build.build_sdist(directory, config_settings))


def build_editable(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel of an editable installation, which leads to the checkout; return its name."""
    with _project_with_version() as project:
        name = uv_build.build_editable(directory, config_settings, metadata_directory)

    def changed(member: str, data: bytes) -> bytes:
        return f"{ROOT}\n".encode() if member.endswith(".pth") else data

    plain = Path(directory, name)
    return name if project == ROOT else _rewritten(plain, plain, changed).name


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build a wheel with compiled kernels if possible; return its name."""
    with _project_with_version():
        plain = Path(directory, uv_build.build_wheel(directory, None, metadata_directory))
    wanted = _platform(config_settings)
    with tempfile.TemporaryDirectory() as folder:
        try:
            libraries = _libraries(wanted, Path(folder))
        except RuntimeError as error:
            if wanted != HERE:
                raise
            sys.stderr.write(f"This wheel has no compiled kernels ({error}), so it reads large logs slowly.\n")
            return plain.name
        tag = TAGS[wanted]
        if wanted.startswith("linux") and wanted == HERE and platform.libc_ver()[0] != "glibc":
            tag = f"linux_{platform.machine()}"
        return _with_libraries(plain, libraries, tag).name


@contextmanager
def _project_with_version() -> Iterator[Path]:
    """Go to a folder with all that is packed and a pyproject.toml that has the version, and yield it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    if not DYNAMIC.search(text):
        yield ROOT
        return
    module = (ROOT / "kforensics" / "version.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', module, re.MULTILINE)
    document = tomllib.loads(text)
    project, build = document["project"], document["tool"]["uv"]["build-backend"]
    with tempfile.TemporaryDirectory() as folder:
        for name in (project["readme"], *project["license-files"], *build["source-include"]):
            Path(folder, name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, Path(folder, name))
        shutil.copytree(ROOT / "kforensics", Path(folder, "kforensics"), ignore=shutil.ignore_patterns("__pycache__"))
        stated = DYNAMIC.sub(f'version = "{version}"', text)
        Path(folder, "pyproject.toml").write_text(stated, encoding="utf-8")
        with chdir(folder):
            yield Path(folder)


def _platform(config_settings: Settings) -> str:
    return str((config_settings or {}).get("platform", HERE))


def _libraries(wanted: str, folder: Path) -> list[Path]:
    """Return the libraries for a platform, compiled in a folder.

    Raises:
        RuntimeError: the platform is not supported, or compiler or linker are missing or fail.
    """
    if wanted not in TAGS:
        raise RuntimeError(f"there are none for {wanted}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-P", "-m", "kforensics.parsers.kernels.build", *wanted.split("-"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = done.stderr.splitlines() or ["the compiler ended without a word"]
        raise RuntimeError(lines[-1])
    return sorted(folder.iterdir())


def _with_libraries(plain: Path, libraries: list[Path], tag: str) -> Path:
    """Replace a wheel for any platform by one with libraries for a platform."""

    def changed(member: str, data: bytes) -> bytes:
        if not member.endswith(".dist-info/WHEEL"):
            return data
        text = data.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        return text.replace("Tag: py3-none-any", f"Tag: py3-none-{tag}").encode()

    added = []
    for library in libraries:
        member = zipfile.ZipInfo(f"{KERNELS}/{library.name}")
        member.external_attr, member.compress_type = 0o100755 << 16, zipfile.ZIP_DEFLATED
        added.append((member, library.read_bytes()))
    return _rewritten(plain, plain.with_name(plain.name.replace("-none-any.whl", f"-none-{tag}.whl")), changed, added)


def _rewritten(
    plain: Path,
    path: Path,
    changed: Callable[[str, bytes], bytes],
    added: list[tuple[zipfile.ZipInfo, bytes]] | None = None,
) -> Path:
    """Replace a wheel by one whose files are changed and to which some are added."""
    with zipfile.ZipFile(plain) as archive:
        members = [(member, archive.read(member)) for member in archive.infolist()]
    plain.unlink()
    rows: list[str] = []
    with zipfile.ZipFile(path, "w") as archive:
        # The list of files comes last.
        ordered = sorted([*members, *(added or [])], key=lambda entry: entry[0].filename.endswith(".dist-info/RECORD"))
        for member, data in ordered:
            content = changed(member.filename, data)
            if member.filename.endswith(".dist-info/RECORD"):
                content = "".join([*rows, f"{member.filename},,\n"]).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            if not member.is_dir():
                rows.append(f"{member.filename},sha256={digest},{len(content)}\n")
            archive.writestr(member, content)
    return path
