"""Checks that the sdist and the wheels in dist/ contain the whole package, and nothing else that is importable.

A wheel must have the compiled kernels of the platform in its name, and these nothing that its tag does not promise.

Exit 1 with one line per problem, exit 0 otherwise.
"""

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kforensics.parsers.kernels.target import TARGETS

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# How libraries begin, with the machine, and what they must not need: a version of the C library, or another library.
BEGINNINGS = {
    "x86_64": (b"\x7fELF\x02\x01\x01", 18, b"\x3e\x00"),
    "aarch64": (b"\x7fELF\x02\x01\x01", 18, b"\xb7\x00"),
    "arm64": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
}
# What builds a wheel from the sdist.
BACKEND = {"scripts/wheel_backend.py"}
UNWANTED = (b"GLIBC_", b"libc.so", b"libgcc", b"libm.so")
SYSTEMS = {"manylinux": "linux", "macosx": "darwin"}


def main() -> int:
    """Compare both archives with the checkout; returns the exit code."""
    expected = package_files()
    complaints = [
        f"{archive.name}: {why} {name}"
        for archive, names in (sdist(), *wheels())
        for why, odd in (("lacks", expected - names), ("has besides", importable(names) - expected - BACKEND))
        for name in sorted(odd)
    ]
    complaints += [f"{path.name}: {why}" for path, names in wheels() for why in kernel_complaints(path, names)]
    print("\n".join(complaints) if complaints else f"sdist and wheels hold all {len(expected)} files of the package.")
    return 1 if complaints else 0


def package_files() -> set[str]:
    """Return the files that the archives must contain, as paths relative to the root of the checkout."""
    found = (ROOT / "kforensics").rglob("*")
    return {
        path.relative_to(ROOT).as_posix()
        for path in found
        if path.is_file() and path.suffix in {".py", ".pyi", ".typed", ".properties", ".css", ".js"}
    }


def sdist() -> tuple[Path, set[str]]:
    """Return the sdist and its files, relative to its top folder."""
    (path,) = DIST.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return path, {member.name.partition("/")[2] for member in archive if not member.isdir()}


def wheels() -> list[tuple[Path, set[str]]]:
    """Return the wheels and their files."""
    found: list[tuple[Path, set[str]]] = []
    for path in (*DIST.glob("*.whl"), *DIST.glob("other/*.whl")):
        with zipfile.ZipFile(path) as archive:
            found.append((path, set(archive.namelist())))
    return found


def kernel_complaints(path: Path, names: set[str]) -> Iterator[str]:
    """Yield what is wrong with the compiled kernels of a wheel."""
    tag = path.stem.rpartition("-")[2]
    machine = next((name for name in BEGINNINGS if tag.endswith(name)), "")
    targets = TARGETS.get((SYSTEMS.get(tag.partition("_")[0], ""), machine))
    if not targets:
        yield "is not a wheel for a platform"
        return
    packed = {name.rpartition("/")[2]: name for name in names if name.endswith((".so", ".dylib"))}
    yield from (f"lacks {name}" for name in sorted(targets.keys() - packed.keys()))
    yield from (f"has besides {name}" for name in sorted(packed.keys() - targets.keys()))
    magic, place, number = BEGINNINGS[machine]
    with zipfile.ZipFile(path) as archive:
        for name in packed.values():
            code = archive.read(name)
            if not (code.startswith(magic) and code[place:].startswith(number)):
                yield f"{name} is not for {machine}"
            yield from (f"{name} needs {word.decode()}" for word in UNWANTED if word in code)
        (about,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        if f"Tag: py3-none-{tag}\n" not in archive.read(about).decode():
            yield "has another tag inside"


def importable(names: set[str]) -> set[str]:
    """Return the files that an import could find, the root links included."""
    return {name for name in names if name.endswith((".py", ".pyi")) or name in {"parsers", "forensics"}}


if __name__ == "__main__":
    sys.exit(main())
