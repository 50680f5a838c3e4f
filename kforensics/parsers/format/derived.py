"""Derives size, field offsets, struct format and NumPy type from a construct layout, so that no width is repeated."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class FixedLayout:
    """A layout of fixed-width big-endian integers, prepared for fast reading.

    Args:
        layout: a construct ``Struct`` of integer fields.

    Raises:
        TypeError: a field of the layout is not a fixed-width big-endian integer.
    """

    def __init__(self, layout: Any) -> None:
        formats = [_format(field) for field in layout.subcons]
        self.layout = layout
        self.names: tuple[str, ...] = tuple(field.name for field in layout.subcons)
        self.struct = struct.Struct(">" + "".join(formats))
        self.size: int = self.struct.size
        self.unpack_from = self.struct.unpack_from
        offsets = [struct.calcsize(">" + "".join(formats[:index])) for index in range(len(formats))]
        self.offsets: dict[str, int] = dict(zip(self.names, offsets, strict=True))
        self._formats = formats

    def end_of(self, name: str) -> int:
        """Return the offset of the first byte after a field."""
        return self.offsets[name] + struct.calcsize(">" + self._formats[self.names.index(name)])

    def reader(self, name: str) -> struct.Struct:
        """Return a struct that reads a single field, at ``offsets[name]``."""
        return struct.Struct(">" + self._formats[self.names.index(name)])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The layout as a packed NumPy type.

        It is built from width and sign, not from construct's format codes: ``l`` is 4 bytes in struct and 8 in NumPy.
        """
        import numpy as np  # a dump of a small file does not load NumPy

        widths = [struct.calcsize(">" + code) for code in self._formats]
        kinds = ["u" if code.isupper() else "i" for code in self._formats]
        return np.dtype([(n, f">{k}{w}") for n, k, w in zip(self.names, kinds, widths, strict=True)])


def _format(field: Any) -> str:
    code = getattr(_innermost(field), "fmtstr", "")
    if len(code) != 2 or code[0] != ">" or code[1] not in "bBhHlLiIqQ":
        raise TypeError(f"{field.name} is not a fixed-width big-endian integer")
    return str(code[1])


def _innermost(field: Any) -> Any:
    while hasattr(field, "subcon"):
        field = field.subcon
    return field


@cache
def fixed_layout(layout: Any) -> FixedLayout:
    """Return the prepared form of a layout, created once per layout."""
    return FixedLayout(layout)
