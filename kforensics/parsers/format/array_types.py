"""Type aliases for NumPy arrays in signatures: they document the element type, which mypy does not check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Integers of any width: offsets, ids, timestamps, indexes into other arrays.
IntArray: TypeAlias = "npt.NDArray[Any]"
# Masks.
BoolArray: TypeAlias = "npt.NDArray[Any]"
# Strings, fixed width or objects.
TextArray: TypeAlias = "npt.NDArray[Any]"
# A column of any type.
Column: TypeAlias = "npt.NDArray[Any]"
# A structured array of any record type; each record type has an alias of its own beside its dtype.
StructArray: TypeAlias = "npt.NDArray[np.void]"
