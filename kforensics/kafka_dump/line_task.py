"""The task of printing a log with compiled kernels: line templates, and buffers for the text and the offset gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import addressof
from dataclasses import dataclass
from typing import TypeVar

from kforensics.kafka_dump.log_lines import (
    BATCH_TAIL,
    ENTRY_HEAD,
    MARKER_SUFFIX,
    BlockLines,
    RecordLines,
    batch_head,
    content_labels,
    java_bool,
    message_metadata,
    optional_long,
    record_metadata,
)
from kforensics.kafka_dump.styles import DumpStyle
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.control_records import MARKERS
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels.block_filter import BlockFilter, read_selected
from kforensics.parsers.kernels.engine import Block, Engine, MappedMemory, PythonReader
from kforensics.parsers.kernels.library import Kernels, Request
from kforensics.parsers.kernels.policy import KernelLoader
from kforensics.parsers.kernels.request import SLOT, TIMESTAMP_TYPES
from kforensics.parsers.kernels.templates import WORK_SIZE, If, Part, Put, Template
from kforensics.parsers.log.selection import Selection

_Row = TypeVar("_Row")

EVERYTHING = Selection()
TEXT_SIZE = 1 << 24
MAX_GAPS, GAP_SIZE = 1 << 16, 16
JAVA_BOOLS = tuple(map(java_bool, (0, 1)))
OPENING, _, CLOSING = optional_long(0).partition("0")
DELETE_HORIZON_FIELD = "{delete_horizon}"


@dataclass(frozen=True, slots=True)
class BlockOutput:
    """The buffers for the text and the offset gaps of a block, and memory to redact payloads with."""

    text: MappedMemory
    gaps: MappedMemory
    work: MappedMemory


class LineTask:
    """Prints batch lines and, if requested, record lines with keys and payloads as text.

    Args:
        style: the release to imitate.
        lines: the format of record lines; None for batch lines only.
        notes_gaps: whether pairs of offsets that are not consecutive are wanted.
    """

    def __init__(self, style: DumpStyle, lines: RecordLines | None, *, notes_gaps: bool = True) -> None:
        self._gaps = MAX_GAPS if notes_gaps else 0
        self._redaction = lines.payloads.redaction if lines and lines.payloads else None
        self._value_texts = {
            "timestamp_type": TIMESTAMP_TYPES,
            "codec": tuple(map(style.codec, CODECS)),
            "control_type": MARKERS,
            "has_delete_horizon": (optional_long(None), OPENING),
            **dict.fromkeys(("is_transactional", "is_control", "crc_valid"), JAVA_BOOLS),
        }
        self._batches = {
            SLOT.batch_ops: self._template([batch_head(style) + BATCH_TAIL]),
            SLOT.entry_ops: self._template([ENTRY_HEAD + BATCH_TAIL]),
        }
        self._records = self._record_templates(style, lines) if lines else {}

    def _record_templates(self, style: DumpStyle, lines: RecordLines) -> dict[int, Template]:
        contents = _contents(style, lines) if lines.decode else []
        record: list[Part]
        record, message, marker = ([record_metadata(style)], [message_metadata(style)], [MARKER_SUFFIX])
        if lines.skip_metadata:
            record, message, marker = [], [], []
        return {
            SLOT.record_ops: self._template([*record, *contents, "\n"]),
            SLOT.control_ops: self._template([*record, *marker, "\n"]),
            SLOT.message_ops: self._template([*message, *contents, "\n"]),
        }

    def _template(self, parts: list[Part]) -> Template:
        expanded: list[Part] = []
        for part in parts:
            if not isinstance(part, str) or DELETE_HORIZON_FIELD not in part:
                expanded.append(part)
                continue
            before, _, after = part.partition(DELETE_HORIZON_FIELD)
            horizon = If("has_delete_horizon", "{base_timestamp}" + CLOSING)
            expanded += [f"{before}{{has_delete_horizon}}", horizon, after]
        return Template(expanded, self._value_texts)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that prints lines."""
        return kernels.lines

    def prepare(self, request: Request) -> BlockOutput:
        """Put the templates and the buffers into a request, and return the buffers."""
        output = BlockOutput(MappedMemory(TEXT_SIZE), MappedMemory(MAX_GAPS * GAP_SIZE), MappedMemory(WORK_SIZE))
        request[SLOT.out], request[SLOT.out_size] = output.text.address, output.text.size
        request[SLOT.gaps], request[SLOT.gaps_capacity] = output.gaps.address, self._gaps
        if self._redaction:
            request[SLOT.redaction], request[SLOT.redaction_work] = addressof(self._redaction), output.work.address
        for margin, templates in ((SLOT.batch_margin, self._batches), (SLOT.record_margin, self._records)):
            request[margin] = max((template.margin for template in templates.values()), default=0)
            for operations, template in templates.items():
                request[operations] = template.address
        return output


def _contents(style: DumpStyle, lines: RecordLines) -> list[Part]:
    key_label, payload_label, lone_payload_label = content_labels(style, skip_metadata=lines.skip_metadata)
    payloads = lines.payloads
    key: str | Put = Put("key", payloads.key) if payloads else "{key}"
    value: str | Put = Put("value", payloads.value) if payloads else "{value}"
    return [
        If("has_key", key_label),
        If("has_key", key),
        If("has_both", payload_label),
        If("has_lone_value", lone_payload_label),
        If("has_value", value),
    ]


def lines_of(block: Block) -> BlockLines:
    """Return the lines that a kernel has printed for a block."""
    output = block.output
    request = block.request
    numbers = output.gaps.view[: GAP_SIZE * request[SLOT.gap_count]].cast("q")
    gaps = zip(numbers[::2], numbers[1::2], strict=True)
    first_offset, last_offset, rows = request[SLOT.first_offset], request[SLOT.last_offset], request[SLOT.rows]
    return BlockLines(output.text.view[: request[SLOT.written]], first_offset, last_offset, gaps, rows)


def lines_with_fallback(  # noqa: PLR0913, PLR0917  # the reader, the kernels, and what to print
    reader: PythonReader[_Row],
    kernels: KernelLoader,
    source: Source,
    end: int | None,
    style: DumpStyle,
    lines: RecordLines | None,
    selection: Selection = EVERYTHING,
    rows_left: Callable[[], int | None] = lambda: None,
) -> Iterator[BlockLines | _Row]:
    """Yield the lines of many batches where kernels can print them, and the rows of the pure Python reader elsewhere.

    Args:
        reader: the reader in pure Python.
        kernels: loads the compiled kernels.
        source: the log.
        end: the position after the last byte to read; None for the end of the file.
        style: the release to imitate.
        lines: the format of record lines; None for batch lines only.
        selection: the batches and records to print; batches of the reader that are not selected are left out.
        rows_left: returns the most record lines, or batch lines, to print from now on; None for no limit.
    """
    is_everything = selection == EVERYTHING
    block_filter = None if is_everything else BlockFilter(selection)
    task = LineTask(style, lines, notes_gaps=is_everything)
    engine = Engine(kernels, task, source, end, block_filter=block_filter, rows_left=rows_left)
    for row in read_selected(reader, engine):
        yield lines_of(row) if isinstance(row, Block) else row
