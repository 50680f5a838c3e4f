"""Damaged files beside the log: every byte is accounted for, and every row fits its table."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from kforensics.parsers.files.discover import FoundFile, classified_by_suffix
from kforensics.parsers.files.log_names import parse_file_name
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.tables.arrow import arrow_table
from kforensics.parsers.tables.file_rows import TABLE_OF_KIND, ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES
from kforensics.parsers.tables.state_rows import _read
from lab.fuzz.attack import keep_bytes, require, sample_files
from lab.fuzz.mutations import EXTREMES, Mutant, damaged

ENDINGS = (
    *(".index", ".timeindex", ".txnindex", ".snapshot", ".properties", ".metadata", ".kafka_cleanshutdown"),
    *("-checkpoint", "quorum-state", "remote_log_snapshot"),
)
# Numbers and words of text files at which readers go wrong.
WORDS = (
    *map(str, EXTREMES),
    "9223372036854775808",
    "\uff11\uff12",
    "0x10",
    "+1",
    "1e3",
    "",
    " ",
    "\\u0000",
    "\0",
    "{}",
    "NaN",
)


def attack_state_files(dice: Random, keep: Path | None) -> None:
    """Read a damaged index, snapshot, checkpoint or property file."""
    kind_of = dice.choice(ENDINGS)
    path = dice.choice(sample_files(kind_of) or sample_files(".index"))
    data = bytes(_damaged_file(path, dice).data)
    keep_bytes(keep, path.name, data)
    name = parse_file_name(path.name)
    if name is None:
        return
    file = FoundFile(path.name, name.kind, len(data), base_offset=name.base_offset)
    file = classified_by_suffix(file)
    if file.kind not in TABLE_OF_KIND:
        return
    _check_cover(list(_read(file, BytesSource(data, path.name))), len(data))
    damage: list[Damage] = []
    rows = file_rows(file, BytesSource(data, path.name), ReadOptions(), damage.append)
    arrow_table(TABLES[TABLE_OF_KIND[file.kind]], rows)


def _damaged_file(path: Path, dice: Random) -> Mutant:
    original = path.read_bytes()
    is_text = b"\0" not in original[:100]
    if not is_text or dice.random() < 0.5:
        return damaged(original, dice)
    words = original.decode("utf-8", "surrogateescape").split(" ")
    for _ in range(dice.choice((1, 1, 3))):
        words[dice.randrange(len(words))] = dice.choice(("\n", "", "#")) + dice.choice(WORDS) + dice.choice(("\n", ""))
    return Mutant(" ".join(words).encode("utf-8", "surrogateescape"))


def _check_cover(rows: list[Any], size: int) -> None:
    """Require that rows and damage cover a file exactly."""
    reached = 0
    for row in rows:
        start, end = (row.start, row.end) if isinstance(row, Damage) else (row.position, row.position + row.size)
        require(start == reached <= end, "a gap or an overlap at", reached, row)
        reached = end
    require(reached == size, "the rows end at", reached, "of", size, rows[-3:])
