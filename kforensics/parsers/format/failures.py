"""Failures of records, batches and codec streams, each with the exception that Kafka's own reader raises.

Each text is defined once, here: ``dump --style`` prints it verbatim and damage rows quote it.
"""

from __future__ import annotations

from kforensics.parsers.format.rows import Failure

INVALID_RECORD = "org.apache.kafka.common.InvalidRecordException"
CORRUPT_RECORD = "org.apache.kafka.common.errors.CorruptRecordException"
KAFKA = "org.apache.kafka.common.KafkaException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
INDEX_OUT_OF_BOUNDS = "java.lang.IndexOutOfBoundsException"
BUFFER_UNDERFLOW = "java.nio.BufferUnderflowException"

# Heap size that Kafka's scripts set for the tools.
JAVA_HEAP, REFERENCE_SIZE, LARGEST_ARRAY = 256 << 20, 4, (1 << 31) - 3

UNDERFLOW = (BUFFER_UNDERFLOW, None)
# A header takes at least two bytes in a record and thirty times as much in memory.
MOST_HEADERS = 1 << 20


class Stopped(Exception):  # noqa: N818  # control flow between the decoders, not an error of the package
    """Stops decoding a batch or message; carries the failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def invalid_record(reason: str, message: str) -> Failure:
    """Return a failure that Kafka reports as an InvalidRecordException."""
    return Failure(reason, INVALID_RECORD, message)


def invalid_structure(cause: tuple[str, str | None]) -> Failure:
    """Return the failure of a field that exceeds its record, with the given cause."""
    return Failure("record-structure", INVALID_RECORD, "Found invalid record structure", (cause,))


def new_limit(length: int, left: int) -> tuple[str, str]:
    """Return the cause for a length that is larger than the remaining buffer."""
    return ILLEGAL_ARGUMENT, f"newLimit > capacity: ({length} > {left})"


def premature_end(cause: str | None = None, reason: str = "record-count") -> Failure:
    """Return the failure of a batch that ends before its record count is reached.

    Args:
        cause: for a compressed batch, the message of the IllegalArgumentException that ended it.
        reason: the damage reason, because Kafka reports corrupt lengths with the same message.
    """
    causes = ((ILLEGAL_ARGUMENT, cause),) if cause else ()
    return Failure(reason, INVALID_RECORD, "Incorrect declared batch size, premature EOF reached", causes)


def records_remaining() -> Failure:
    """Return the failure of a batch that has bytes after its last record."""
    return invalid_record("record-count", "Incorrect declared batch size, records still remaining in file")


def out_of_memory(wanted: int, element: int = 1) -> Failure | None:
    """Return the JVM's error for an array of that many elements, None if a heap of 256 MB is large enough.

    Kafka's tool trusts sizes and counts and allocates before it reads, so a corrupt one ends it with this error.

    Args:
        wanted: number of elements.
        element: size of an element in bytes.
    """
    if wanted * element <= JAVA_HEAP:
        return None
    text = "Requested array size exceeds VM limit" if wanted > LARGEST_ARRAY else "Java heap space"
    return Failure("record-size", "java.lang.OutOfMemoryError", text)


def unknown_codec(number: int) -> Failure:
    """Return the failure of an unassigned codec number."""
    return Failure("codec", ILLEGAL_ARGUMENT, f"Unknown compression type id: {number}")


def too_many_headers(count: int) -> Failure:
    """Return the failure of a record with more headers than this decoder holds in memory."""
    return Failure("limit", "java.lang.OutOfMemoryError", f"{count} headers in one record, more than {MOST_HEADERS}")


def codec_failure(cause: Failure, where: str) -> Failure:
    """Return a codec's failure wrapped in a KafkaException, as Kafka wraps it where it surfaces.

    Args:
        cause: the failure of the codec.
        where: ``open`` (Kafka repeats the cause as its message), or Kafka's message itself.
    """
    if cause.exception.endswith("Error"):
        return cause  # Kafka catches and wraps exceptions only, not errors
    shown = f"{cause.exception}: {cause.message}" if cause.message else cause.exception
    message = shown if where == "open" else where
    return Failure(cause.reason, KAFKA, message, ((cause.exception, cause.message), *cause.causes))
