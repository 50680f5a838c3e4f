"""Moves a partition between the log directories of a stopped broker, as an operator does with ``mv``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from kforensics.forensics.partition.partition_files import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT


def move_by_hand(name: str, log_dir: Path) -> Path:
    """Move a partition from a log directory to a new one beside it, and return the folder of both.

    The broker has been started and stopped since: the new log directory lists the partition in all checkpoints but that
    of the cleaner, which has had nothing to do, and the old one in that of the cleaner only.

    Args:
        name: folder of the partition.
        log_dir: the log directory, which has a folder to itself.
    """
    other = log_dir.with_name(f"{log_dir.name}-moved")
    other.mkdir()
    shutil.move(log_dir / name, other)
    meta = (log_dir / "meta.properties").read_text("ascii")
    (other / "meta.properties").write_text(re.sub(r"directory\.id=.*", f"directory.id={'M' * 22}", meta), "ascii")
    line = "{} {} ".format(*name.rsplit("-", 1))
    for checkpoint in (HIGH_WATERMARK, LOG_START, RECOVERY_POINT, CLEANER):
        path = log_dir / checkpoint
        entries = path.read_text("ascii").splitlines()[2:]
        moved = [entry for entry in entries if entry.startswith(line) and checkpoint != CLEANER]
        _write(other / checkpoint, moved)
        _write(path, [entry for entry in entries if entry not in moved])
    for folder in (log_dir, other):
        (folder / ".kafka_cleanshutdown").touch()
    return log_dir.parent


def _write(path: Path, entries: list[str]) -> None:
    path.write_text("\n".join(["0", str(len(entries)), *entries, ""]), "ascii")
