"""A run of Kafka's dump tool, imitated: what it prints to both streams, and its exit code.

Rule: ``DumpLogSegments.main`` of each release. The summaries come behind the last file, and never if an exception ended
the run before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kforensics.kafka_dump.decoders import DEFAULT_CLASSES, Decoder, class_decoder, control_suffix, decoder, plain
from kforensics.kafka_dump.file_records import java_path
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.log_dump import LogOptions, imitated_log
from kforensics.kafka_dump.log_lines import RecordLines
from kforensics.kafka_dump.options import ToolOptions
from kforensics.kafka_dump.styles import Style
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import Choice, no_kernels

__all__ = ["run_tool"]

Write = Callable[[str], object]
Text = str | memoryview


def run_tool(  # noqa: PLR0913  # two streams and a directory are what a process has
    options: ToolOptions,
    style: Style,
    out: Callable[[Text], object],
    err: Write,
    directory: str,
    *,
    budget: int = DEFAULT_BUDGET,
    kernels: Choice = no_kernels,
) -> int:
    """Print what a release's tool prints for the files given, and return its exit code.

    Args:
        options: the tool's own options.
        style: the release.
        out: takes text for standard output; where kernels wrote it as UTF-8, which changes once this returns.
        err: takes text for standard error; stack frames are left out.
        directory: the working directory, for the absolute paths of the summaries.
        budget: most bytes to decompress per batch.
        kernels: gives the kernels, if they are wanted for a log of some size.
    """
    run = _Run(options, style, err, directory, budget, kernels)
    try:
        options.check(style)
        for path in options.files:
            for piece in run.text(java_path(path)):
                out(piece)
    except JavaError as error:
        for line in error.stderr_lines():
            err(line + "\n")
        return 1
    for line in run.summaries.lines(style):
        err(line + "\n")
    return 0


class _Run:
    """One run over several files."""

    def __init__(  # noqa: PLR0913, PLR0917  # as run_tool
        self, options: ToolOptions, style: Style, err: Write, directory: str, budget: int, kernels: Choice
    ) -> None:
        self.options, self.style, self.err, self.budget, self.kernels = options, style, err, budget, kernels
        self.summaries = Summaries(directory)

    def text(self, path: str) -> Iterator[Text]:
        """Yield what is printed for one file.

        Raises:
            JavaError: where the tool ends with an exception.
        """
        yield f"Dumping {path}\n"
        match self._suffix(file_name(path)):
            case ".log":
                yield from self._log(path)
            case ".checkpoint" if self.style.reads_checkpoints:
                yield from self._log(path)
            case suffix:
                yield from self._other(path, suffix)

    def _other(self, path: str, suffix: str) -> Iterator[str]:
        """Yield what is printed for a file that is no log; only such a file pays for their formats."""
        from kforensics.kafka_dump.index_lines import imitated_index
        from kforensics.kafka_dump.time_index_lines import imitated_time_index
        from kforensics.kafka_dump.transaction_index_lines import imitated_transaction_index

        index = self.options.index_options(self.budget)
        match suffix:
            case ".index":
                yield from imitated_index(path, index, self.style, self.summaries)
            case ".timeindex":
                yield from imitated_time_index(path, index, self.style, self.summaries)
            case ".snapshot":
                yield from self._snapshot(path)
            case ".txnindex":
                yield from imitated_transaction_index(path, self.summaries)
            case _:
                self.err(f"Ignoring unknown file {path}\n")

    def _suffix(self, name: str) -> str:
        dot = name.rfind(".")
        if dot < 0 and not self.style.ignores_names_without_dot:
            text = f"begin -1, end {len(name)}, length {len(name)}"
            raise JavaError("java.lang.StringIndexOutOfBoundsException", text)
        return name[dot:] if dot >= 0 else ""

    def _snapshot(self, path: str) -> Iterator[str]:
        from kforensics.kafka_dump.snapshot_lines import imitated_snapshot  # as in _other

        for row in imitated_snapshot(path, self.style):
            if isinstance(row, Damage):
                self.err(row.detail + "\n")
            else:
                yield row

    def _log(self, path: str) -> Iterator[Text]:
        decode, warnings = self._decoder()
        yield from (f"{line}\n" for line in warnings)
        lines = None
        if self.options.prints_records:
            name = self.style.name
            lines = RecordLines(
                self.style,
                decode if self.options.prints_contents else None,
                lambda key, value: control_suffix(key, value, name),
                self.options.skip_record_metadata,
                self.options.topic_decoder in self.style.json_decoders,
                self.options.decodes_text,
            )
        options = LogOptions(lines, self.options.max_bytes, self.budget, self.kernels)
        yield from imitated_log(path, options, self.style, lambda a, b: self.summaries.gap(path, a, b))

    def _decoder(self) -> tuple[Decoder, list[str]]:
        """Return what makes text of keys and values, and what loading its classes prints."""
        kind = self.options.topic_decoder
        if kind:
            return decoder(kind, self.style.name), []
        default = DEFAULT_CLASSES[self.style.name]
        value = class_decoder(self.options.value_decoder_class or default, self.style.name)
        key = class_decoder(self.options.key_decoder_class or default, self.style.name)
        return plain.pair(key.decode, value.decode), [*value.warnings, *key.warnings]
