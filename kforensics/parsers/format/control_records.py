"""Decodes control records: the type in the key, and the coordinator epoch of a transaction marker."""

from __future__ import annotations

from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import CONTROL_KEY, END_TXN_MARKER
from kforensics.parsers.format.rows import Record

KEY, MARKER = fixed_layout(CONTROL_KEY), fixed_layout(END_TXN_MARKER)
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


def control_fields(record: Record) -> tuple[str | None, int | None]:
    """Return the name of the control type and, for a COMMIT or ABORT marker, the coordinator epoch.

    An unassigned type is ``UNKNOWN(n)``. Each is None if the key or value is too short to contain it.
    """
    if record.key is None or len(record.key) < KEY.size:
        return None, None
    number = KEY.unpack_from(record.key)[1]
    name = CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else f"UNKNOWN({number})"
    if name not in MARKERS or record.value is None or len(record.value) < MARKER.size:
        return name, None
    return name, MARKER.unpack_from(record.value)[1]
