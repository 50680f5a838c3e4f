"""Rows of logs as JSON, NDJSON or CSV that compiled kernels write: the same bytes as those of :mod:`.writers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import addressof
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.control_records import CONTROL_TYPES
from kforensics.parsers.format.rows import CODECS, Damage
from kforensics.parsers.kernels.block_filter import BlockFilter, read_selected
from kforensics.parsers.kernels.engine import Block, Engine, MappedMemory
from kforensics.parsers.kernels.large_batches import LargeBatchReader
from kforensics.parsers.kernels.library import Kernels, Request
from kforensics.parsers.kernels.policy import KernelLoader
from kforensics.parsers.kernels.request import SLOT, TIMESTAMP_TYPES
from kforensics.parsers.kernels.templates import (
    AS_REDACTED,
    IN_CSV,
    IN_JSON,
    WORK_SIZE,
    If,
    Literal,
    Part,
    Put,
    Template,
    payload_style,
)
from kforensics.parsers.log.batches import LogWalk
from kforensics.parsers.log.log_rows import batch_row
from kforensics.parsers.log.selection import Selection, is_cut_at_stop
from kforensics.parsers.tables.file_rows import ReadOptions, RowLimit, place_of, record_rows
from kforensics.render.formats import BytesFormat, Format, LineStyle, time_names
from kforensics.render.payloads import PAYLOAD_FORMATS
from kforensics.render.writers import csv_field, json_text

# Room for the rows of a part of a large batch; pages that are never touched cost nothing.
TEXT_SIZE = 1 << 25
# Formats that header values have, too; in place of the others they are text.
HEADER_FORMATS = (BytesFormat.UTF8, BytesFormat.HEX, BytesFormat.BASE64)
# Columns whose numbers are labels, by the field of the kernel; and those of other names there.
LABELS = {
    "timestamp_type": TIMESTAMP_TYPES,
    "codec": CODECS,
    "control_label": (None, *CONTROL_TYPES),
    **dict.fromkeys(("is_transactional", "is_control"), (False, True)),
}
FIELDS = {
    "batch_position": "position",
    "compression_type": "codec",
    "control_type": "control_label",
}
# Columns that are null unless a field is set: the field, and the one with the number.
OPTIONAL = {
    "coordinator_epoch": ("has_epoch", "coordinator_epoch"),
    "delete_horizon_ms": ("has_delete_horizon", "base_timestamp"),
}
# Columns that entries of formats 0 and 1 do not have.
NOT_IN_ENTRIES = (
    "partition_leader_epoch",
    "delete_horizon_ms",
    "base_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
)
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Translates rows to parts of templates.

    Attributes:
        style: how rows are written.
    """

    style: LineStyle

    @property
    def is_csv(self) -> bool:
        """Whether rows are lines of CSV and not objects of JSON."""
        return self.style.output_format is Format.CSV

    def text(self, value: Any) -> str:
        """Return a value that is the same in all rows, as the writer of the format does."""
        if not self.is_csv:
            return json_text(value)
        return csv_field(value).encode(errors="backslashreplace").decode()

    def labels(self) -> dict[str, tuple[str, ...]]:
        """Return the texts of numbers that are labels; a label that precedes an optional field is empty, or null."""
        labels = {field: tuple(map(self.text, values)) for field, values in LABELS.items()}
        return labels | {field: (self.text(None), "") for field, _ in OPTIONAL.values()}

    def line(self, constants: dict[str, Any]) -> list[Part]:
        """Return the parts of a row.

        Args:
            constants: the columns whose value is the same in all rows.
        """
        members = [(name, self._value(name, constants)) for name in self.style.table.names]
        if self.is_csv:
            separated = ([Literal("," if index else ""), *parts] for index, (_, parts) in enumerate(members))
            return [*chain.from_iterable(separated), Literal("\r\n")]
        is_document = self.style.output_format is Format.JSON
        if is_document:
            times = time_names(self.style.table).items()
            members += [(member, _time(name, constants, self.text(None))) for name, member in times]
        else:
            members = [("table", [Literal(self.text(self.style.table.name))]), *members]
        begin, end = (",\n{", "}") if is_document else ("{", "}\n")
        separated = (
            [Literal(f"{',' if index else ''}{json_text(name)}:"), *parts]
            for index, (name, parts) in enumerate(members)
        )
        return [Literal(begin), *chain.from_iterable(separated), Literal(end)]

    def _value(self, name: str, constants: dict[str, Any]) -> list[Part]:
        if name in constants:
            return [Literal(self.text(constants[name]))]
        if name in ("key", "value", "headers"):
            return [Put(name, self._payload_style(name))]
        if name in OPTIONAL:
            has, field = OPTIONAL[name]
            return [f"{{{has}}}", If(has, f"{{{field}}}")]
        return [f"{{{FIELDS.get(name, name)}}}"]

    def _payload_style(self, name: str) -> int:
        bytes_format = self.style.key if name == "key" else self.style.value
        if name == "headers" and bytes_format not in HEADER_FORMATS:
            bytes_format = BytesFormat.UTF8
        payload_format = AS_REDACTED if self.style.redact else PAYLOAD_FORMATS[bytes_format]
        return payload_style(payload_format, IN_CSV if self.is_csv else IN_JSON)


def _time(name: str, constants: dict[str, Any], null: str) -> list[Part]:
    if name in constants:
        return [Literal(null)]  # a column that entries do not have
    if name in OPTIONAL:
        has, field = OPTIONAL[name]
        return [f"{{{has}}}", If(has, Put(field))]
    return [Put(name)]


@dataclass(frozen=True, slots=True)
class RowOutput:
    """The memory for the text of a block, and memory to redact payloads with."""

    text: MappedMemory
    work: MappedMemory


class RowTask:
    """Writes rows of batches or of records; a task for the engine.

    Args:
        file: the log.
        records: whether to write records.
        style: how to write them.
    """

    def __init__(self, file: FoundFile, style: LineStyle, *, records: bool) -> None:
        self._redaction = style.redact.memory if style.redact else None
        constants = {**place_of(file)._asdict(), "path": file.path}
        lines = _Lines(style)
        labels = lines.labels()
        if records:
            template = Template(lines.line(constants), labels)
            self._templates = dict.fromkeys((SLOT.record_ops, SLOT.control_ops, SLOT.message_ops), template)
            self._margin = SLOT.record_margin
            return
        constants["crc_valid"] = True
        self._templates = {
            SLOT.batch_ops: Template(lines.line(constants), labels),
            SLOT.entry_ops: Template(lines.line(constants | dict.fromkeys(NOT_IN_ENTRIES)), labels),
        }
        self._margin = SLOT.batch_margin

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that writes lines."""
        return kernels.lines

    def prepare(self, request: Request) -> RowOutput:
        """Put the templates and the memory for the text into a request, and return the memory."""
        output = RowOutput(MappedMemory(TEXT_SIZE), MappedMemory(WORK_SIZE))
        request[SLOT.out], request[SLOT.out_size], request[SLOT.writes_rows] = output.text.address, output.text.size, 1
        if self._redaction:
            request[SLOT.redaction], request[SLOT.redaction_work] = addressof(self._redaction), output.work.address
        request[self._margin] = max(template.margin for template in self._templates.values())
        for operations, template in self._templates.items():
            request[operations] = template.address
        return output


def read_row_lines(  # noqa: PLR0913, PLR0917  # a range of a file, and how to read and write it
    file: FoundFile,
    source: Source,
    options: ReadOptions,
    report: Callable[[Damage], None],
    kernels: KernelLoader,
    style: LineStyle,
    limit: RowLimit | None = None,
) -> Iterator[memoryview | Iterator[Row]]:
    """Yield the rows of a log: their text where kernels can write it, and rows elsewhere.

    The text is overwritten when the next item is requested. Exhaust an iterator before requesting the next item.

    Args:
        file: the log.
        source: its bytes.
        options: what to read.
        report: called with all damage, in log order.
        kernels: loads the compiled kernels.
        style: how to write the rows.
        limit: how many rows to write; the rows in text are counted here, others by the caller.
    """
    limit, place = limit or RowLimit(), place_of(file)
    block_filter = None if options.selection == Selection() else BlockFilter(options.selection)
    task = RowTask(file, style, records=options.records)
    engine = Engine(
        kernels, task, source, options.stop, block_filter=block_filter, rows_left=partial(getattr, limit, "left")
    )
    large_batches = LargeBatchReader(kernels, task, source, options.budget, block_filter)
    for item in read_selected(LogWalk(source, options.start, options.stop), engine):
        if isinstance(item, Block):
            limit.take(item.request[SLOT.rows])
            yield item.output.text.view[: item.request[SLOT.written]]
        elif isinstance(item, Damage):
            if not is_cut_at_stop(item, source, options.stop):
                report(item)
        elif options.records:
            read = 0
            for block, count in large_batches.parts(item) if item.crc_valid and limit.left is None else ():
                yield block.output.text.view[: block.request[SLOT.written]]
                read += count
            if not (read and large_batches.is_whole):
                yield record_rows(place, source, item, options, report, read)
        else:
            yield iter([batch_row(place, source, item, options.budget)])
