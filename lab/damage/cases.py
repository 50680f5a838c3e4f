"""What a doctored sample is."""

from collections.abc import Mapping
from dataclasses import dataclass

LOG = "00000000000000000000.log"


@dataclass(frozen=True, slots=True)
class Case:
    """One doctored partition folder.

    Attributes:
        name: name of the folder, with its partition number.
        says: what is wrong with it, in a sentence.
        files: content by file name.
    """

    name: str
    says: str
    files: Mapping[str, bytes]


def log_case(name: str, says: str, content: bytes) -> Case:
    """A folder with one segment that begins at offset 0."""
    return Case(f"{name}-0", says, {LOG: content})
