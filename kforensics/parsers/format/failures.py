"""The ways a record, batch or codec stream can fail, each with the exception Kafka's own reader raises there.

One function per way, so that the texts stand once: ``dump --style`` prints them to the letter, damage rows quote them.
"""

from __future__ import annotations

from kforensics.parsers.format.rows import Failure

__all__ = [
    "CORRUPT_RECORD",
    "ILLEGAL_ARGUMENT",
    "INDEX_OUT_OF_BOUNDS",
    "INVALID_RECORD",
    "KAFKA",
    "Stopped",
    "codec_failure",
    "invalid_record",
    "invalid_structure",
    "premature_end",
    "unknown_codec",
]

INVALID_RECORD = "org.apache.kafka.common.InvalidRecordException"
CORRUPT_RECORD = "org.apache.kafka.common.errors.CorruptRecordException"
KAFKA = "org.apache.kafka.common.KafkaException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
INDEX_OUT_OF_BOUNDS = "java.lang.IndexOutOfBoundsException"
BUFFER_UNDERFLOW = "java.nio.BufferUnderflowException"

# What the scripts of Kafka give their tools.
JAVA_HEAP, REFERENCE_SIZE, LARGEST_ARRAY = 256 << 20, 4, (1 << 31) - 3

UNDERFLOW = (BUFFER_UNDERFLOW, None)
# A header takes two bytes in a record and thirty times that in memory.
MOST_HEADERS = 1 << 20


class Stopped(Exception):  # noqa: N818  # control flow between the decoders, not an error of the package
    """Ends the reading of a batch or message; carries the failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def invalid_record(reason: str, message: str) -> Failure:
    """Return a failure that Kafka reports as InvalidRecordException."""
    return Failure(reason, INVALID_RECORD, message)


def invalid_structure(cause: tuple[str, str | None]) -> Failure:
    """Return the failure of a field that does not fit, named by its cause."""
    return Failure("record-structure", INVALID_RECORD, "Found invalid record structure", (cause,))


def new_limit(length: int, left: int) -> tuple[str, str]:
    """Return the cause of a length field larger than what is left of its buffer."""
    return ILLEGAL_ARGUMENT, f"newLimit > capacity: ({length} > {left})"


def premature_end(cause: str | None = None, reason: str = "record-count") -> Failure:
    """Return the failure of a batch that ends before its record count is reached.

    Args:
        cause: of a compressed batch: the IllegalArgumentException that ended it.
        reason: what it really was, as Kafka says the same of broken lengths.
    """
    causes = ((ILLEGAL_ARGUMENT, cause),) if cause else ()
    return Failure(reason, INVALID_RECORD, "Incorrect declared batch size, premature EOF reached", causes)


def records_remaining() -> Failure:
    """Return the failure of a batch with bytes left behind its last record."""
    return invalid_record("record-count", "Incorrect declared batch size, records still remaining in file")


def out_of_memory(wanted: int, element: int = 1) -> Failure | None:
    """Return the error of a JVM that is asked for an array of so many elements, None if a heap of 256 MB has room.

    Kafka's tool believes sizes and counts before it looks for the bytes; a wild one ends it like this.
    """
    if wanted * element <= JAVA_HEAP:
        return None
    text = "Requested array size exceeds VM limit" if wanted > LARGEST_ARRAY else "Java heap space"
    return Failure("record-size", "java.lang.OutOfMemoryError", text)


def unknown_codec(number: int) -> Failure:
    """Return the failure of a codec number nobody has assigned."""
    return Failure("codec", ILLEGAL_ARGUMENT, f"Unknown compression type id: {number}")


def too_many_headers(count: int) -> Failure:
    """Return the failure of a record whose headers would take more memory than its bytes are worth."""
    return Failure("limit", "java.lang.OutOfMemoryError", f"{count} headers in one record, more than {MOST_HEADERS}")


def codec_failure(cause: Failure, where: str) -> Failure:
    """Wrap a codec's own failure in the KafkaException of the place where it surfaces.

    Args:
        cause: what the codec said.
        where: ``open`` (Kafka repeats the cause as its message), or Kafka's message itself.
    """
    if cause.exception.endswith("Error"):
        return cause  # not an exception in Java: nobody catches and wraps it
    shown = f"{cause.exception}: {cause.message}" if cause.message else cause.exception
    message = shown if where == "open" else where
    return Failure(cause.reason, KAFKA, message, ((cause.exception, cause.message), *cause.causes))
