"""What a control record is: the type in its key, and the coordinator epoch of a transaction marker."""

from __future__ import annotations

from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import CONTROL_KEY, END_TXN_MARKER
from kforensics.parsers.format.rows import Record

__all__ = ["CONTROL_TYPES", "control_of"]

KEY, MARKER = fixed(CONTROL_KEY), fixed(END_TXN_MARKER)
CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
MARKERS = ("ABORT", "COMMIT")


def control_of(record: Record) -> tuple[str | None, int | None]:
    """Return the control type's name and, of a COMMIT or ABORT marker, the coordinator epoch.

    A type nobody has assigned is ``UNKNOWN(n)``. Both are None where key or value is too short to hold them.
    """
    if record.key is None or len(record.key) < KEY.size:
        return None, None
    number = KEY.unpack_from(record.key)[1]
    name = CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else f"UNKNOWN({number})"
    if name not in MARKERS or record.value is None or len(record.value) < MARKER.size:
        return name, None
    return name, MARKER.unpack_from(record.value)[1]
