"""The build backend of pyproject.toml: that of uv, which packs, and a wheel has the kernels compiled for a platform.

``--config-setting platform=linux-aarch64`` builds a wheel for another platform than this one. Where nothing can be
compiled, a wheel for any platform results, and a sentence says so; it reads logs in pure Python or, with the extra
``kernels``, compiles when they are large.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uv_build
from uv_build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

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


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build a wheel with compiled kernels if possible; return its name."""
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
    with zipfile.ZipFile(plain) as archive:
        members = [(member, archive.read(member)) for member in archive.infolist()]
    plain.unlink()
    path = plain.with_name(plain.name.replace("-none-any.whl", f"-none-{tag}.whl"))
    for library in libraries:
        member = zipfile.ZipInfo(f"{KERNELS}/{library.name}")
        member.external_attr, member.compress_type = 0o100755 << 16, zipfile.ZIP_DEFLATED
        members.append((member, library.read_bytes()))
    rows: list[str] = []
    with zipfile.ZipFile(path, "w") as archive:
        # The list of files comes last.
        for member, data in sorted(members, key=lambda entry: entry[0].filename.endswith(".dist-info/RECORD")):
            content = data
            if member.filename.endswith(".dist-info/WHEEL"):
                text = data.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
                content = text.replace("Tag: py3-none-any", f"Tag: py3-none-{tag}").encode()
            if member.filename.endswith(".dist-info/RECORD"):
                content = "".join([*rows, f"{member.filename},,\n"]).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            rows.append(f"{member.filename},sha256={digest},{len(content)}\n")
            archive.writestr(member, content)
    return path
