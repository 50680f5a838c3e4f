"""The styles of the dump and what tells them apart in the decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

Decoder: TypeAlias = Callable[[bytes | None, bytes | None, int], tuple[str | None, str | None]]

# The release each style was compared with. Only major and minor number decide over layouts and names.
STYLE_RELEASES: Final = {"4.3": "4.3.1", "4.2": "4.2.1", "3.9": "3.9.1", "2.8": "2.8.2", "2.7": "2.7.2"}
KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
ILLEGAL_STATE: Final = "java.lang.IllegalStateException"
NULL_POINTER: Final = "java.lang.NullPointerException"
RUNTIME: Final = "java.lang.RuntimeException"


def null_pointer_text(call: str, target: str) -> str:
    """The text with which a Java 17 machine says that it met null."""
    return f'Cannot invoke "{call}" because {target} is null'
