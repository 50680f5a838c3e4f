"""How the readers of earlier releases name a failure: parsers speak with the words of today's Kafka.

Everything here was seen in runs of the released tools on damaged files; see ``sample_logs/golden``.
"""

from __future__ import annotations

from dataclasses import replace

from kforensics.kafka_dump.styles import Style
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT, KAFKA, premature_end, records_remaining
from kforensics.parsers.format.rows import Failure
from kforensics.parsers.log.records import IN_STREAM, Payload

__all__ = ["counts_headers", "old_words", "whole_windows"]

EOF = "java.io.EOFException"
SNAPPY_ERROR = "org.xerial.snappy.SnappyError"
# Since 3.x records are read from chunks of this many decompressed bytes; a chunk that fails gives none of them.
SNAPPY_WINDOW = 2048
NULL_RECORD = 'Cannot invoke "org.apache.kafka.common.record.Record.offset()" because "record" is null'
ZSTD_WORDS = {
    "Truncated source": "Read error or truncated source",
    "Data corruption detected": "Decompression error: Corrupted block detected",
}


def counts_headers(style: Style | None) -> bool:
    """Whether the release refuses more headers than bytes before it reads them."""
    return style is None or style.name != "2.7"


def whole_windows(payload: Payload) -> Payload:
    """Return a snappy stream that fails as today's readers see it: without the window in which it fails."""
    stream = payload.stream
    if stream.failure is None or stream.at_open:
        return payload
    kept = len(stream.data) // SNAPPY_WINDOW * SNAPPY_WINDOW
    return replace(payload, stream=replace(stream, data=stream.data[:kept]))


def old_words(failure: Failure, *, last: bool) -> Failure:
    """Return a failure as 2.7 and 2.8 name it.

    Args:
        failure: of reading records.
        last: whether the record it struck was to be the last of its batch.
    """
    text = failure.message or ""
    if text.startswith("Invalid record size: expected") and "instead the buffer has only" in text:
        return _null_record(text, last=last)
    if text.endswith("the record payload reached EOF."):
        return premature_end()
    if text.startswith("Incorrect declared batch size, premature EOF") and failure.causes:
        bare = Failure(failure.reason, ILLEGAL_ARGUMENT, failure.causes[0][1])
        return premature_end() if failure.reason == "record-count" else bare
    if failure.exception == SNAPPY_ERROR:
        return Failure(failure.reason, "java.lang.NegativeArraySizeException", text.rpartition(" ")[2])
    if failure.exception == KAFKA and failure.causes:
        return _old_codec(failure)
    return failure


def _null_record(text: str, *, last: bool) -> Failure:
    """These readers gave null for a record that does not fit; only the last one of a batch was then looked into."""
    if last and not text.endswith("only 0 remaining bytes."):
        return records_remaining()
    return Failure("record-size", "java.lang.NullPointerException", NULL_RECORD)


def _old_codec(failure: Failure) -> Failure:
    name, text = failure.causes[0]
    if name == EOF and failure.message == IN_STREAM:
        return premature_end()
    if name.endswith("ZstdIOException") and text:
        words = ZSTD_WORDS.get(text, f"Decompression error: {text}")
        return replace(failure, causes=(("java.io.IOException", words), *failure.causes[1:]))
    return failure
