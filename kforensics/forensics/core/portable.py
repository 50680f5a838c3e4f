"""Values that go from one process to another by the million."""

from __future__ import annotations

from typing import Any

__all__ = ["Portable"]


class Portable:
    """Base of frozen dataclasses with slots: pickled as a call of their class, with their fields.

    What ``dataclasses`` makes for that looks all fields up for each value that arrives, which takes longer than the
    rest of it.
    """

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, name) for name in self.__slots__])
