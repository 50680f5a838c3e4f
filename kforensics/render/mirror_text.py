"""Formats the comparison of a partition with its mirror: the verdict, then what is not as in the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_offsets
from kforensics.forensics.mirrors.mirror_ranges import SEVERITIES, MirrorRange, RangeKind
from kforensics.forensics.mirrors.mirror_rows import MirrorComparison
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import Line, Screen

__all__ = ["mirror_text"]

# Ranges of one kind that are listed before the rest is counted.
LISTED = 5
INDENT = 11


def mirror_text(comparisons: Iterable[MirrorComparison], screen: Screen) -> Iterator[bytes]:
    """Yield comparisons as text, the worst first, and at its end the command that shows what was left out.

    Args:
        comparisons: the comparisons.
        screen: where they are shown.
    """
    with closing(RankedText(screen, "nothing to compare")) as text:
        for comparison in comparisons:
            text.add((-comparison.severity,), _mirror_lines(comparison, text))
        yield from text.parts()


def _mirror_lines(comparison: MirrorComparison, text: RankedText) -> Iterator[str]:
    screen = text.screen
    place, severity = comparison.place, comparison.severity
    name = f"{place.topic}-{place.partition} and its mirror {comparison.names.mirror}-{place.partition}"
    yield Line(printable(f"{name}: {comparison.verdict}"), severity if severity > Severity.INFO else "")
    if comparison.logs is None:
        return
    counted, listed = Counter[RangeKind](), list[MirrorRange]()
    for each in comparison.ranges():
        counted[each.kind] += 1
        if counted[each.kind] <= LISTED or screen.shows_all:
            listed.append(each)
    for each in sorted(listed, key=_severity, reverse=True):
        if each.kind is not RangeKind.COPIED:
            line = f"  {_severity(each)!s:<8} {each.kind}: {_what(each)}"
            yield Line(printable(line), _severity(each), INDENT)
    yield from _translations([each for each in listed if each.kind is RangeKind.COPIED])
    if not screen.shows_all:
        yield from _left_out(counted, text)
    yield from _reservations(comparison)


def _severity(one: MirrorRange) -> Severity:
    return SEVERITIES.get(one.kind, Severity.INFO)


def _left_out(counted: Mapping[RangeKind, int], text: RankedText) -> Iterator[str]:
    more = [f"{count - LISTED:,} of {kind}" for kind, count in counted.items() if count > LISTED]
    if more:
        text.is_cut = True
        yield Line(f"  … and more ranges: {', '.join(more)}", hang=4)


def _what(one: MirrorRange) -> str:
    if one.kind in (RangeKind.SYNC_CONTRADICTION, RangeKind.GROUP_OFFSET):
        return one.detail
    parts = [format_count(one.records, "record")]
    if one.first_offset is not None and one.last_offset is not None:
        parts.append(f"at {format_offsets(one.first_offset, one.last_offset)}")
    if one.mirror_first_offset is not None and one.mirror_last_offset is not None:
        parts.append(f"in the mirror at {format_offsets(one.mirror_first_offset, one.mirror_last_offset)}")
    if one.producer_id is not None:
        parts.append(f"of producer {one.producer_id}, epoch {one.producer_epoch}")
    return ", ".join([" ".join(parts[:2]), *parts[2:], *([one.detail] if one.detail else [])])


def _translations(copied: Sequence[MirrorRange]) -> Iterator[str]:
    if copied:
        yield "  offsets in the mirror:"
    for each in copied:
        yield f"    {_translation(each)}"


def _translation(one: MirrorRange) -> str:
    first, copy = one.first_offset or 0, one.mirror_first_offset or 0
    offsets = f"{first} to {one.last_offset}" if first != one.last_offset else f"{first}"
    copies = f"{copy} to {one.mirror_last_offset}" if copy != one.mirror_last_offset else f"{copy}"
    return f"{offsets} -> {copies} ({copy - first:+d})"


def _reservations(comparison: MirrorComparison) -> Iterator[str]:
    """Yield what limits the verdict."""
    logs = comparison.logs
    if logs is None:
        return
    for damaged, name in zip(logs.damaged, ("source", "mirror"), strict=True):
        if damaged:
            ranges = format_count(damaged, "range")
            yield Line(f"  {ranges} of the log of the {name} cannot be read, with the records in them", hang=4)
    if logs.aborted_by_mirror:
        records = format_count(logs.aborted_by_mirror, "record")
        yield Line(f"  {records} of transactions that MirrorMaker aborted are not counted as copies", hang=4)
    if not comparison.syncs:
        yield "  no offset syncs of this partition are under the paths"
