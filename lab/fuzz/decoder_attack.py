"""Damaged log segments: every byte is accounted for, no untouched batch is lost, kernels and Python agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.columns.record_columns import record_chunks
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.byte_slices import ByteSlices
from kforensics.parsers.format.rows import CODECS, Batch, Damage
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.kernels.policy import no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.tables.arrow import arrow_table, table_of_parts
from kforensics.parsers.tables.file_rows import ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.payloads import row_converter
from lab.fuzz.attack import Weakness, keep_bytes, require, sample_files
from lab.fuzz.mutations import COVERED_FROM, Mutant, damaged, lie_about_length, reseal

# Segments are this large at most: a few batches take as many paths through the code as a thousand.
SIZES = (600, 600, 2000, 6000)
# Bytes before the key in formats 0 and 1.
LEGACY_HEADER_SIZE = {0: 18, 1: 26}
# The attributes that each format assigns a meaning to.
ASSIGNED_ATTRIBUTES = {0: 0x07, 1: 0x0F, 2: 0x7F}
Place = tuple[int, int]


def attack_decoders(dice: Random, keep: Path | None) -> None:
    """Read a damaged segment in all ways there are."""
    mutant, places = _damaged_segment(dice)
    data = bytes(mutant.data)
    keep_bytes(keep, "00000000000000000000.log", data)
    rows = list(walk(BytesSource(data)))
    check_ranges(rows, len(data))
    _check_untouched(mutant, places, rows)
    for comparison in dice.sample(COMPARISONS, 2):
        comparison(data)


def _damaged_segment(dice: Random) -> tuple[Mutant, list[Place]]:
    """Return a damaged segment, and the batches of the original one as position and size."""
    original, places = _segment(dice.choice(sample_files(".log", ".checkpoint")), dice)
    if dice.random() < 0.25:
        other, _ = _segment(dice.choice(sample_files(".log")), dice)
        places += [(len(original) + start, size) for start, size in _batches(other)]
        original += other
    whole = [(start, size) for start, size in places if size > COVERED_FROM and original[start + 16] == 2]
    if not whole or dice.random() < 0.4:
        return damaged(original, dice), places
    mutant = Mutant(original)
    for start, size in dice.sample(whole, dice.randint(1, min(3, len(whole)))):
        if dice.random() < 0.7:
            reseal(mutant, start, size, dice)
        else:
            lie_about_length(mutant, start, dice)
    return mutant, places


@cache
def _batches(data: bytes) -> list[Place]:
    """Return the valid batches of a log that a walk recognizes after damage, as position and size."""
    rows = [row for row in walk(BytesSource(data)) if isinstance(row, Batch) and row.crc_valid]
    return [(row.position, row.size) for row in rows if _is_consistent(row) and _is_filled(data, row)]


def _is_filled(data: bytes, batch: Batch) -> bool:
    """Return whether key and value fill an entry of format 0 or 1, as those of a broker do."""
    if not batch.is_legacy:
        return True
    at, end = batch.position + LEGACY_HEADER_SIZE[batch.magic], batch.position + batch.size
    for _ in ("key", "value"):
        if at + 4 > end:
            return False
        at += 4 + max(0, int.from_bytes(data[at : at + 4], "big", signed=True))
    return at == end


def _is_consistent(batch: Batch) -> bool:
    """Return whether the fields are of a broker; forged samples have others, which are no sign of a batch."""
    numbers = (batch.base_offset, batch.last_offset, batch.last_offset_delta, batch.count)
    ids = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    is_in_range = all((number or 0) >= 0 for number in numbers) and all((number or 0) >= -1 for number in ids)
    has_room = batch.is_legacy or (batch.count or 0) <= (batch.last_offset_delta or 0) + 1
    assigned = ASSIGNED_ATTRIBUTES.get(batch.magic)
    is_assigned = assigned is not None and batch.attributes & ~assigned == 0
    return is_in_range and has_room and batch.codec < len(CODECS) and is_assigned


def _segment(path: Path, dice: Random) -> tuple[bytes, list[Place]]:
    """Return some adjacent bytes of a sample that begin with a batch, and the valid batches among them."""
    data, most = path.read_bytes(), dice.choice(SIZES)
    places = _batches(data)
    start = places[dice.randrange(len(places))][0] if places else 0
    ends = [position + size for position, size in places if start < position + size <= start + most]
    part = data[start : max(ends)] if ends and len(data) - start > most else data[start : start + 4 * most]
    return part, [(at - start, size) for at, size in places if start <= at and at + size <= start + len(part)]


# Ranges --------------------------------------------------------------------------------------------------------------


def check_ranges(rows: list[Batch | Damage], size: int) -> None:
    """Require that rows and damage of a log cover it exactly, and that damage inside a batch is inside it."""
    reached, last = 0, None
    for row in rows:
        if isinstance(row, Batch):
            require(row.position == reached and row.size > 0, "a gap or an overlap at", reached, row)
            reached, last = reached + row.size, row
        elif row.inside_batch is None:
            require(row.start == reached < row.end, "a gap or an overlap at", reached, row)
            reached = row.end
        else:
            is_inside = last and row.inside_batch == last.position <= row.start < row.end <= last.position + last.size
            require(is_inside, "damage is not inside its batch", row, last)
            if row.reason == "truncated":  # the next batch begins inside the torn one
                reached = row.start
    require(reached == size, "the rows end at", reached, "of", size)


def _check_untouched(mutant: Mutant, places: list[Place], rows: list[Batch | Damage]) -> None:
    """Require that each batch whose bytes are all there is a batch.

    Bytes can have two readings, and either is right: where another batch with a valid checksum covers a part of the
    range, as after a copy into the middle of a value; and where a batch with a wrong checksum covers it and its offsets
    do not end before: then it is a value of that batch, unless a chain of batches reaches its end.
    """
    batches = [row for row in rows if isinstance(row, Batch)]
    found = {(row.position, row.size) for row in batches if row.crc_valid}
    for start, size in places:
        for position in mutant.untouched(start, size):
            end, offset = position + size, int.from_bytes(mutant.data[position : position + 8], "big")
            overlapping = [row for row in batches if row.position < end and position < row.position + row.size]
            has_other = any(row.crc_valid or row.last_offset >= offset for row in overlapping)
            require(has_other or (position, size) in found, "an untouched batch is lost:", position, size, rows)


# Kernels and Python --------------------------------------------------------------------------------------------------


def _kernels(_size: int = 0) -> Kernels:
    kernels = load_kernels()
    if kernels is None:
        raise Weakness("the kernels cannot be compiled here")
    return kernels


def same(name: str, by_kernels: Any, by_python: Any) -> None:
    """Require that both are equal."""
    require(by_kernels == by_python, f"{name}: kernels and Python differ:", by_kernels, "and", by_python)


def _batch_columns(data: bytes, kernels: Any) -> Any:
    damage: list[Damage] = []
    chunks = list(batch_chunks(BytesSource(data), 0, damage.append, kernels, workers=0))
    names = [field.name for field in dataclasses.fields(chunks[0])] if chunks else []
    return {name: [v for chunk in chunks for v in getattr(chunk, name).tolist()] for name in names}, damage


def _record_columns(data: bytes, kernels: Kernels | None) -> Any:
    chunks = list(record_chunks(BytesSource(data), kernels))
    return [
        row
        for chunk in chunks
        for row in zip(chunk.rows.tolist(), _slices(chunk.keys), _slices(chunk.values), strict=True)
    ]


def _slices(column: ByteSlices) -> list[bytes | None]:
    data = column.data.tobytes()
    pairs = zip(column.starts.tolist(), column.sizes.tolist(), strict=True)
    return [None if size < 0 else data[start : start + size] for start, size in pairs]


def _hash_columns(data: bytes, kernels: Any) -> Any:
    """Return all columns; a chunk ends elsewhere with kernels, so what continues a batch is added to it."""
    damage: list[Damage] = []
    columns: dict[str, list[Any]] = {}
    for chunk in hash_chunks(BytesSource(data), damage.append, kernels, workers=0):
        for field in dataclasses.fields(chunk):
            columns.setdefault(field.name, []).extend(np.asarray(getattr(chunk, field.name)).tolist())
    return columns, damage


def _table_of_kernels(data: bytes, name: str) -> Any:
    damage: list[Damage] = []
    options = ReadOptions(records=name == "records")
    file = FoundFile("t-0/0.log", "log", len(data), topic="t", partition=0)
    columns = read_arrow_columns(file, BytesSource(data), options, damage.append, _kernels(), workers=0)
    convert = row_converter(TABLES[name], None, None)
    parts = (part if isinstance(part, pa.RecordBatch) else map(convert, part) for part in columns)
    return _values(table_of_parts(TABLES[name], parts)), sorted(damage, key=repr)


def _table_of_python(data: bytes, name: str) -> Any:
    damage: list[Damage] = []
    options = ReadOptions(records=name == "records")
    file = FoundFile("t-0/0.log", "log", len(data), topic="t", partition=0)
    rows = map(row_converter(TABLES[name], None, None), file_rows(file, BytesSource(data), options, damage.append))
    return _values(arrow_table(TABLES[name], rows)), sorted(damage, key=repr)


def _values(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names if name != "path"}


# Each requires that kernels and pure Python read the same from a log.
COMPARISONS: tuple[Callable[[bytes], None], ...] = (
    lambda data: same("batches", _batch_columns(data, _kernels), _batch_columns(data, no_kernels)),
    lambda data: same("records", _record_columns(data, _kernels()), _record_columns(data, None)),
    lambda data: same("hashes", _hash_columns(data, _kernels), _hash_columns(data, no_kernels)),
    lambda data: same("the table batches", _table_of_kernels(data, "batches"), _table_of_python(data, "batches")),
    lambda data: same("the table records", _table_of_kernels(data, "records"), _table_of_python(data, "records")),
)
