"""What follows from a layout: size, field offsets, a struct format and a numpy type. Nothing here knows a width."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Fixed", "fixed"]


class Fixed:
    """A layout of fixed-width big-endian integers, ready to read.

    Args:
        layout: a construct ``Struct`` of format fields only.

    Raises:
        TypeError: the layout has a field that is no fixed-width big-endian integer.
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
        """Return the offset of the first byte behind a field."""
        return self.offsets[name] + struct.calcsize(">" + self._formats[self.names.index(name)])

    def reader(self, name: str) -> struct.Struct:
        """Return a struct that reads one field alone, at ``offsets[name]``."""
        return struct.Struct(">" + self._formats[self.names.index(name)])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The layout as a packed numpy type.

        Built from width and sign, not from construct's format string: ``l`` is 4 bytes for struct and 8 for numpy.
        """
        import numpy as np  # a dump of a small file must not pay for numpy

        widths = [struct.calcsize(">" + code) for code in self._formats]
        signs = ["u" if code.isupper() else "i" for code in self._formats]
        return np.dtype([(n, f">{s}{w}") for n, s, w in zip(self.names, signs, widths, strict=True)])


def _format(field: Any) -> str:
    code = getattr(_innermost(field), "fmtstr", "")
    if len(code) != 2 or code[0] != ">" or code[1] not in "bBhHlLiIqQ":
        raise TypeError(f"{field.name} is no fixed-width big-endian integer")
    return str(code[1])


def _innermost(field: Any) -> Any:
    while hasattr(field, "subcon"):
        field = field.subcon
    return field


@cache
def fixed(layout: Any) -> Fixed:
    """Return the derived form of a layout, made once."""
    return Fixed(layout)
