"""Checks that the sdist and the wheel in dist/ contain the whole package, and nothing else that is importable.

Exit 1 with one line per problem, exit 0 otherwise.
"""

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def main() -> int:
    """Compare both archives with the checkout; returns the exit code."""
    expected = package_files()
    complaints = [
        f"{archive.name}: {why} {name}"
        for archive, names in (sdist(), wheel())
        for why, odd in (("lacks", expected - names), ("has besides", importable(names) - expected))
        for name in sorted(odd)
    ]
    print("\n".join(complaints) if complaints else f"sdist and wheel hold all {len(expected)} files of the package.")
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


def wheel() -> tuple[Path, set[str]]:
    """Return the wheel and its files."""
    (path,) = DIST.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return path, set(archive.namelist())


def importable(names: set[str]) -> set[str]:
    """Return the files that an import could find, the root links included."""
    return {name for name in names if name.endswith((".py", ".pyi")) or name in {"parsers", "forensics"}}


if __name__ == "__main__":
    sys.exit(main())
