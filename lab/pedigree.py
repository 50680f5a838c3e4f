"""``sample_logs/README.md`` and ``sample_logs/SHA256SUMS``, made from the pedigree of every folder."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.driver import CLIENT_VERSION
from lab.places import SAMPLES, SOURCES


def write_pedigree() -> None:
    """Rewrite both files from the folders in ``sample_logs/``."""
    template = (SOURCES / "sample_logs.md").read_text(encoding="utf-8")
    folders = sorted(path.parent for path in SAMPLES.glob("*/pedigree.json"))
    table = "\n".join(_row(folder) for folder in folders)
    details = "\n".join(_section(folder) for folder in folders)
    text = template.replace("@CLIENTS@", CLIENT_VERSION).replace("@TABLE@", table).replace("@DETAILS@", details)
    (SAMPLES / "README.md").write_text(text, encoding="utf-8")
    files = [path for folder in folders for path in _files(folder)]
    sums = "".join(f"{_sha256(path)}  {path.relative_to(SAMPLES).as_posix()}\n" for path in files)
    (SAMPLES / "SHA256SUMS").write_text(sums, encoding="utf-8")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(folder: Path) -> dict[str, Any]:
    pedigree: dict[str, Any] = json.loads((folder / "pedigree.json").read_text(encoding="utf-8"))
    return pedigree


def _row(folder: Path) -> str:
    pedigree = _read(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1024
    link = f"[`{folder.name}`](#{folder.name.replace('.', '')})"
    return f"| {link} | {pedigree['kafka']} | {len(files)} | {size:.0f} KB | {pedigree['shows']} |"


def _section(folder: Path) -> str:
    pedigree = _read(folder)
    settings = [f"{key}={value}" for key, value in pedigree.get("config", {}).items()]
    parts = [f"### {folder.name}\n", f"{pedigree['shows']}\n"]
    parts.append(_list("Broker settings beyond the lab's own:", settings))
    parts.append(_list("Options of `kafka-storage format`:", pedigree.get("format_options", [])))
    parts.append(_list("Left out of the copy (all zero but for the valid entries):", pedigree.get("dropped", [])))
    count = len(pedigree.get("commands", []))
    command = f"`python -m lab samples {pedigree.get('scenario', folder.name)}`"
    link = f"[`pedigree.json`]({folder.name}/pedigree.json)"
    parts.append(f"Command: {command}; its {count} steps, one by one: {link}.\n")
    return "\n".join(part for part in parts if part)


def _list(title: str, lines: list[str]) -> str:
    return f"{title} " + ", ".join(f"`{line}`" for line in lines) + "\n" if lines else ""
