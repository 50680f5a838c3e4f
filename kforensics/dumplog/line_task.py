"""What kernels are asked to write: the lines of a style, and where the text and the gaps between offsets go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kforensics.dumplog.line_templates import BATCH_TAIL, MARKER, batch_head, contents_words, record_metadata
from kforensics.dumplog.log_lines import BlockLines, RecordLines
from kforensics.dumplog.styles import Style
from kforensics.parsers.control import MARKERS
from kforensics.parsers.kernels.engine import Area, Block, Engine
from kforensics.parsers.kernels.library import Kernels, Request
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    CONTROL_OPS,
    FIRST_OFFSET,
    GAPS,
    GAPS_FOUND,
    GAPS_ROOM,
    LAST_OFFSET,
    OUT,
    OUT_SIZE,
    RECORD_MARGIN,
    RECORD_OPS,
    WRITTEN,
)
from kforensics.parsers.kernels.templates import If, Template
from kforensics.parsers.kernels.turns import Steps, in_turns
from kforensics.parsers.rows import CODECS, CREATE_TIME, LOG_APPEND_TIME
from kforensics.parsers.source import Source

__all__ = ["LineTask", "line_turns"]

Row = TypeVar("Row")

TEXT_SIZE, PAIRS = 1 << 24, 1 << 16
PAIR_SIZE = 16
JAVA_BOOLS = ("false", "true")
DELETE_HORIZON = "{delete_horizon}"


@dataclass(frozen=True, slots=True)
class Output:
    """Where a block's text and gaps go."""

    text: Area
    gaps: Area


class LineTask:
    """Lines for batches and, if they are wanted, for records.

    Args:
        style: the release.
        lines: how records are printed, None for batch lines only; their keys and payloads are printed as text.
    """

    def __init__(self, style: Style, lines: RecordLines | None) -> None:
        codecs = tuple(map(str.upper, CODECS)) if style.upper_case_codecs else CODECS
        self._words = {
            "timestamp_type": (CREATE_TIME, LOG_APPEND_TIME),
            "codec": codecs,
            "control_type": MARKERS,
            "has_delete_horizon": ("OptionalLong.empty", "OptionalLong["),
            **dict.fromkeys(("is_transactional", "is_control", "crc_valid"), JAVA_BOOLS),
        }
        self._batch = self._template([batch_head(style) + BATCH_TAIL])
        self._record = self._control = None
        if lines:
            metadata = [] if lines.skip_metadata else [record_metadata(style)]
            contents = _contents(style, skip_metadata=lines.skip_metadata) if lines.decode else []
            marker = [] if lines.skip_metadata else [MARKER]
            self._record = self._template([*metadata, *contents, "\n"])
            self._control = self._template([*metadata, *marker, "\n"])

    def _template(self, parts: list[str | If]) -> Template:
        whole: list[str | If] = []
        for part in parts:
            if isinstance(part, If) or DELETE_HORIZON not in part:
                whole.append(part)
                continue
            before, _, behind = part.partition(DELETE_HORIZON)
            whole += [f"{before}{{has_delete_horizon}}", If("has_delete_horizon", "{base_timestamp}]"), behind]
        return Template(whole, self._words)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that writes lines."""
        return kernels.lines

    def prepare(self, request: Request) -> Output:
        """Put templates and places into a request."""
        output = Output(Area(TEXT_SIZE), Area(PAIRS * PAIR_SIZE))
        request[OUT], request[OUT_SIZE] = output.text.address, output.text.size
        request[GAPS], request[GAPS_ROOM] = output.gaps.address, PAIRS
        request[BATCH_OPS], request[BATCH_MARGIN] = self._batch.address, self._batch.margin
        if self._record and self._control:
            request[RECORD_OPS], request[CONTROL_OPS] = self._record.address, self._control.address
            request[RECORD_MARGIN] = max(self._record.margin, self._control.margin)
        return output


def _contents(style: Style, *, skip_metadata: bool) -> list[str | If]:
    before_key, behind_key, alone = contents_words(style, skip_metadata=skip_metadata)
    return [
        If("has_key", before_key + "{key}"),
        If("has_both", behind_key),
        If("has_lone_value", alone),
        If("has_value", "{value}"),
    ]


def lines_of(block: Block) -> BlockLines:
    """Return what a kernel has written for a block."""
    output = block.output
    request = block.request
    numbers = output.gaps.view[: PAIR_SIZE * request[GAPS_FOUND]].cast("q")
    gaps = zip(numbers[::2], numbers[1::2], strict=True)
    return BlockLines(output.text.view[: request[WRITTEN]], request[FIRST_OFFSET], request[LAST_OFFSET], gaps)


def line_turns(  # noqa: PLR0913, PLR0917  # a walk, what runs beside it, and what is to be printed
    steps: Steps[Row],
    kernels: Kernels,
    source: Source,
    end: int | None,
    style: Style,
    lines: RecordLines | None,
) -> Iterator[BlockLines | Row]:
    """Yield the lines of many batches at once where kernels can write them, and what plain Python finds elsewhere.

    Args:
        steps: the walk in plain Python.
        kernels: the compiled kernels.
        source: the log.
        end: position behind the last byte to look at.
        style: the release.
        lines: how records are printed, None for batch lines only.
    """
    for row in in_turns(steps, Engine(kernels, LineTask(style, lines), source, end)):
        yield lines_of(row) if isinstance(row, Block) else row
