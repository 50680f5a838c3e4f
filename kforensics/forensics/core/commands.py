"""Command lines that remedies name, ready to be pasted into a shell."""

from __future__ import annotations

from shlex import quote

__all__ = ["export_command"]


def export_command(path: str, first_offset: int, last_offset: int) -> str:
    """Return the command that saves the records in a range of offsets.

    >>> export_command("broker 2/orders-0", 240, 259)
    "kforensics dump --format ndjson --records --offset 240:260 --output records-240-259.ndjson 'broker 2/orders-0'"

    Args:
        path: a segment, or the folder of a partition.
        first_offset: first offset.
        last_offset: last offset.
    """
    output = f"records-{first_offset}-{last_offset}.ndjson"
    offsets = f"{first_offset}:{last_offset + 1}"
    return f"kforensics dump --format ndjson --records --offset {offsets} --output {output} {quote(path)}"
