"""Prints records of coordinators as the formatters of kafka-console-consumer do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO

from kforensics.analyses.dump import DumpOutcome, DumpRequest, selected_files
from kforensics.analyses.read_files import FilesReader, isolation_filter_of
from kforensics.errors import KforensicsError, UsageError
from kforensics.parsers.files.discover import FoundFile, Notify
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.tables.file_rows import ReadOptions
from kforensics.render.streams import TextSink, progress_meter

__all__ = ["dump_formatted", "formatted_texts", "logs_of_formatter"]


def dump_formatted(request: DumpRequest, out: IO[bytes], notify: Notify, warn: Notify) -> DumpOutcome:
    """Print records as a formatter of kafka-console-consumer does. The arguments are those of :func:`dump_text`.

    A record that the formatter cannot print ends the output of a style, as it ends the tool.
    """
    outcome, sink = DumpOutcome(warn, quiet=request.quiet), TextSink(out)
    isolation_filter = isolation_filter_of(request.isolation, notify, aborted=request.aborted)
    files = selected_files(request, isolation_filter, notify, outcome)
    files = logs_of_formatter(files, request.formatter or "", request.paths)
    options = ReadOptions(records=True, selection=request.selection, budget=request.budget, stop=request.tool.log_end)

    def on_damage(file: FoundFile, damage: Damage) -> None:
        outcome.add_damage(file.path, damage, notify)

    with progress_meter(sum(file.size for file in files), show=request.progress, what="dump") as meter:
        reader = FilesReader(options, on_damage, outcome.add_unreadable, meter, isolation_filter, request.paths)
        texts = formatted_texts(reader, files, request.formatter or "", request.style)
        for path, offset, text in islice(texts, request.limit):
            if isinstance(text, str):
                sink.write(text)
                continue
            sink.flush()
            outcome.add_undecoded(path, offset, text, notify, ends=request.style is not None)
            if request.style is not None:
                break
    sink.flush()
    return outcome


def logs_of_formatter(files: Sequence[FoundFile], formatter: str, named: Sequence[str]) -> list[FoundFile]:
    """Return the logs that a formatter is for: those of its topic, and what the user names.

    Raises:
        UsageError: there is no such formatter, or no such log.
    """
    from kforensics.kafka_dump.decoders.formatters import fits_topic, topic_of  # few dumps need them

    topic = topic_of(formatter)
    live = (file for file in files if file.kind == "log" and file.state == "live")
    of_topic = [file for file in live if fits_topic(formatter, file.topic)]
    logs = of_topic + [file for file in files if file.path in named and file.topic is None]
    if files and not logs:
        raise UsageError(f"no log of {topic} is under {', '.join(named)}; name its folders, such as {topic}-0")
    return logs


def formatted_texts(
    reader: FilesReader, files: Sequence[FoundFile], formatter: str, style: str | None
) -> Iterator[tuple[str, int, str | KforensicsError]]:
    """Yield the path and the offset of each data record, and its text or why the formatter cannot print it.

    Raises:
        UsageError: there is no such formatter, or no such style.
    """
    from kforensics.kafka_dump.decoders.formatters import formatter as formatter_of  # few dumps need them
    from kforensics.kafka_dump.java import JavaError
    from kforensics.parsers.messages.reader import MessageError
    from kforensics.parsers.tables.schemas import TABLES

    text_of = formatter_of(formatter, style)
    names = TABLES["records"].names
    path, offset, control, key, value = map(names.index, ("path", "offset", "control_type", "key", "value"))
    for row in reader.rows(list(files)):
        if row[control] is not None:
            continue
        text: str | KforensicsError
        try:
            text = text_of(row[key], row[value], row[offset])
        except (JavaError, MessageError) as error:
            text = error
        if text != "":
            yield row[path], row[offset], text
