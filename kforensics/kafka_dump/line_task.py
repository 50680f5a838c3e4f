"""What kernels are asked to write: the lines of a style, and where the text and the gaps between offsets go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kforensics.kafka_dump.line_templates import (
    BATCH_TAIL,
    ENTRY_HEAD,
    MARKER,
    batch_head,
    contents_words,
    message_metadata,
    record_metadata,
)
from kforensics.kafka_dump.log_lines import BlockLines, RecordLines, java_bool, optional_long
from kforensics.kafka_dump.styles import Style
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.control import MARKERS
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels.engine import Area, Block, Engine
from kforensics.parsers.kernels.fallback import Steps, in_turns
from kforensics.parsers.kernels.library import Kernels, Request
from kforensics.parsers.kernels.policy import Supply
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    CONTROL_OPS,
    ENTRY_OPS,
    FIRST_OFFSET,
    GAPS,
    GAPS_FOUND,
    GAPS_ROOM,
    LAST_OFFSET,
    MESSAGE_OPS,
    OUT,
    OUT_SIZE,
    RECORD_MARGIN,
    RECORD_OPS,
    TIMESTAMP_TYPES,
    WRITTEN,
)
from kforensics.parsers.kernels.templates import If, Template

__all__ = ["LineTask", "line_turns"]

Row = TypeVar("Row")

TEXT_SIZE, PAIRS = 1 << 24, 1 << 16
PAIR_SIZE = 16
JAVA_BOOLS = tuple(map(java_bool, (0, 1)))
OPENING, _, CLOSING = optional_long(0).partition("0")
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
        self._words = {
            "timestamp_type": TIMESTAMP_TYPES,
            "codec": tuple(map(style.codec, CODECS)),
            "control_type": MARKERS,
            "has_delete_horizon": (optional_long(None), OPENING),
            **dict.fromkeys(("is_transactional", "is_control", "crc_valid"), JAVA_BOOLS),
        }
        self._batches = {
            BATCH_OPS: self._template([batch_head(style) + BATCH_TAIL]),
            ENTRY_OPS: self._template([ENTRY_HEAD + BATCH_TAIL]),
        }
        self._records = self._record_templates(style, lines) if lines else {}

    def _record_templates(self, style: Style, lines: RecordLines) -> dict[int, Template]:
        contents = _contents(style, skip_metadata=lines.skip_metadata) if lines.decode else []
        record, message, marker = ([record_metadata(style)], [message_metadata(style)], [MARKER])
        if lines.skip_metadata:
            record, message, marker = [], [], []
        return {
            RECORD_OPS: self._template([*record, *contents, "\n"]),
            CONTROL_OPS: self._template([*record, *marker, "\n"]),
            MESSAGE_OPS: self._template([*message, *contents, "\n"]),
        }

    def _template(self, parts: list[str | If]) -> Template:
        whole: list[str | If] = []
        for part in parts:
            if isinstance(part, If) or DELETE_HORIZON not in part:
                whole.append(part)
                continue
            before, _, behind = part.partition(DELETE_HORIZON)
            whole += [f"{before}{{has_delete_horizon}}", If("has_delete_horizon", "{base_timestamp}" + CLOSING), behind]
        return Template(whole, self._words)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that writes lines."""
        return kernels.lines

    def prepare(self, request: Request) -> Output:
        """Put templates and places into a request."""
        output = Output(Area(TEXT_SIZE), Area(PAIRS * PAIR_SIZE))
        request[OUT], request[OUT_SIZE] = output.text.address, output.text.size
        request[GAPS], request[GAPS_ROOM] = output.gaps.address, PAIRS
        for margin, templates in ((BATCH_MARGIN, self._batches), (RECORD_MARGIN, self._records)):
            request[margin] = max((template.margin for template in templates.values()), default=0)
            for operations, template in templates.items():
                request[operations] = template.address
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
    kernels: Supply,
    source: Source,
    end: int | None,
    style: Style,
    lines: RecordLines | None,
) -> Iterator[BlockLines | Row]:
    """Yield the lines of many batches at once where kernels can write them, and what plain Python finds elsewhere.

    Args:
        steps: the walk in plain Python.
        kernels: gives the compiled kernels once they are there.
        source: the log.
        end: position behind the last byte to look at.
        style: the release.
        lines: how records are printed, None for batch lines only.
    """
    for row in in_turns(steps, Engine(kernels, LineTask(style, lines), source, end)):
        yield lines_of(row) if isinstance(row, Block) else row
