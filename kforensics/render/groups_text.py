"""Formats groups, and the history of one of them, as lines of text."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kforensics.forensics.checks.cluster.group_resets import reset_remedy, start_remedy
from kforensics.forensics.coordinators.component_names import COMPONENTS, group_naming
from kforensics.forensics.coordinators.consumer_groups.group_events import GroupEvent, GroupEventKind, GroupStory
from kforensics.forensics.coordinators.consumer_groups.group_rows import GroupList
from kforensics.forensics.coordinators.consumer_groups.reset_causes import ResetCause
from kforensics.forensics.core.formatting import format_count, format_time, format_time_ms
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.files.log_names import CONSUMER_OFFSETS
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.connector_text import connector_lines
from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.group_lag_text import NAME_OTHERS, lag_lines
from kforensics.render.partition_names import partition_label
from kforensics.render.partition_text import lagging_lines
from kforensics.render.screen import Line, Screen, advice_lines

# Groups of a list, which fit a screen of 24 lines with what is said of them; events of a history, members of a group.
LISTED_GROUPS, LISTED, NAMED_MEMBERS = 10, 20, 5
GROUP_CELLS = (
    *("group", "type", "state", "generation", "protocol", "members", "partition", "partitions", "pending"),
    *("lag", "stable_lag", "high_watermark_lag", "without_lag", "resets", "last_commit_timestamp", "emptied_timestamp"),
    *("component", "component_source", "beyond_end"),
)
BEYOND_END = GROUP_CELLS.index("beyond_end")
GROUP_COLUMNS = (
    TableColumn("group", is_text=True),
    TableColumn("type", 4, is_text=True),
    TableColumn("state", is_text=True),
    TableColumn("generation", 6),
    TableColumn("protocol", 7, is_text=True),
    TableColumn("members", 1),
    TableColumn("coordinator", 8),
    TableColumn("partitions", 3),
    TableColumn("pending", 2),
    TableColumn("lag"),
    TableColumn("stable lag", 5),
    TableColumn("watermark lag", 9),
    TableColumn("resets", 1),
    TableColumn("last commit", 2, is_text=True),
    TableColumn("component", 5, is_text=True),
)
# Causes of resets whose names alone do not say what happened.
LOWERED = {
    "transaction": "lowered by a transaction",
    "administrator": "reset by an administrator",
    "simple-consumer": "lowered by a consumer that is no member",
    "member": "lowered by a member",
}


def group_answer_lines(answer: GroupList | GroupStory, screen: Screen) -> Iterator[str]:
    """Yield the groups of a cluster, or the history of one of them.

    Args:
        answer: what to show.
        screen: where it is shown.
    """
    return _story_lines(answer, screen) if isinstance(answer, GroupStory) else _list_lines(answer, screen)


def _list_lines(answer: GroupList, screen: Screen) -> Iterator[str]:
    rows = [row for part in answer.parts for row in part.only(*GROUP_CELLS)]
    limit = screen.shown(LISTED_GROUPS)
    ranked = heapq.nsmallest(len(rows) if limit is None else limit, rows, key=_rank)
    states = ", ".join(f"{count:,} {state}" for state, count in Counter(row[2] for row in rows).most_common())
    partitions = format_count(answer.coordinators, "partition")
    total = f"{format_count(len(rows), 'group')} in {partitions} of {CONSUMER_OFFSETS}"
    yield Line(f"{total}: {states}" if states else total)
    if answer.lagging:
        yield f"  out of sync: {answer.lagging} of these partitions, whose leaders may have later offsets"
    yield from _worst(rows, screen)
    table = FittedTable(GROUP_COLUMNS, screen)
    if ranked:
        yield from table.lines(map(_cells, ranked))
    if len(rows) > len(ranked):
        yield f"  … and {format_count(len(rows) - len(ranked), 'more group')}"
        yield from screen.rest("--all")
    yield from _uncounted(ranked)
    if not answer.is_counted:
        yield "there are more resets than are counted"
    if table.dropped:
        yield f"columns left out to fit the width: {', '.join(table.dropped)}"
        yield from screen.rest("--wide")


def _uncounted(rows: Sequence[Sequence[Any]]) -> Iterator[Line]:
    """Yield that the lag lacks partitions whose logs are not among the files."""
    lags = [row[9] for row in rows if row[12]]
    if any(lag is not None for lag in lags):
        yield Line("+: the logs of some partitions are not among the files; their lag is not counted", hang=2)
    elif lags:
        yield Line(f"lag unknown: the logs of the partitions are not among the files; {NAME_OTHERS}", hang=2)


def _worst(rows: Sequence[Sequence[Any]], screen: Screen) -> Iterator[Line]:
    """Yield which groups to look at first, and the command that shows why: pending, reset and lost offsets, and lag."""
    first: str | None = None
    columns = (
        *(("pending offsets", 8, "partition"), ("resets", 13, "reset")),
        *(("offsets beyond the log end", BEYOND_END, "partition"), ("lag", 9, "offset")),
    )
    for what, index, noun in columns:
        having = [row for row in rows if row[index]]
        if not having:
            continue
        most = max(having, key=lambda row: (row[index], row[14] or 0))
        first = first or most[0]
        last_commit = "" if most[14] is None else f", last commit {format_time(most[14])}"
        worst = f"{printable(repr(most[0]))} with {format_count(most[index], noun)}{last_commit}"
        where = f"{format_count(len(having), 'group')}, most in {worst}" if len(having) > 1 else worst
        yield Line(f"  {what}: {where}", hang=4)
    if first is not None:
        yield from screen.rest("--group", first)


def _rank(row: Sequence[Any]) -> tuple[bool, bool, int, int, str]:
    """Rank groups with pending offsets first, then those in use, those that went back, and by their lag."""
    return not row[8], not row[5], -row[13], -(row[9] or 0), row[0]


def _cells(row: Sequence[Any]) -> tuple[str, ...]:
    name, kind, state, generation, protocol, members, coordinator, partitions, pending, *more = row
    lag, stable_lag, high_watermark_lag, without_lag, resets, last_commit, _, component, source, _ = more
    unknown = "+" if without_lag else ""
    return (
        printable(name),
        kind,
        state,
        "" if generation is None else str(generation),
        printable(protocol or ""),
        f"{members:,}",
        "" if coordinator is None else str(coordinator),
        f"{partitions:,}",
        f"{pending:,}" if pending else "",
        "" if lag is None else f"{lag:,}{unknown}",
        "" if stable_lag is None else f"{stable_lag:,}{unknown}",
        "" if high_watermark_lag is None else f"{high_watermark_lag:,}{unknown}",
        f"{resets:,}" if resets else "",
        "" if last_commit is None else format_time(last_commit),
        "" if component is None else component if source == "records" else f"looks like {component}",
    )


def _story_lines(story: GroupStory, screen: Screen) -> Iterator[str]:
    state = story.state
    kind = "classic, without members" if state is None else state.kind
    yield f"group {printable(story.group)}: {kind}, {story.state_name}"
    yield f"  coordinator: {partition_label(story.place, 'unknown partition')}"
    yield from lagging_lines(story.lagging_since, "later offsets")
    topics = (event.partition[0] for event in story.events if event.partition is not None)
    naming = group_naming(story.group, state, topics)
    if naming is not None:
        shown = "belongs to" if naming.is_recorded else "looks like"
        yield Line(f"  {shown} {COMPONENTS[naming.component]}: {printable(naming.part)}", hang=4)
        yield Line(f"  next: {naming.next_step}", hang=4)
    yield from connector_lines(story.connector, screen)
    resets = [event for event in story.events if event.kind is GroupEventKind.RESET]
    if resets:
        count = "reset" if len(resets) == 1 else f"{len(resets):,} resets, the last"
        yield Line(f"  {count}: {_time(resets[-1])} {_reset(resets[-1])}", hang=4)
        yield from _after_reset(story, resets[-1])
    yield from _out_of_range_lines(story)
    yield from _member_lines(story, screen)
    limit = screen.shown(LISTED)
    told = [event for event in story.events if event.kind is not GroupEventKind.LAG]
    events = told if limit is None else told[-limit:]
    if len(events) < len(told):
        yield f"  {format_count(len(told) - len(events), 'earlier event')} …"
        yield from screen.rest("--all")
    for event in events:
        # What shows the cause of the last reset is above.
        brief = event._replace(why=None) if resets and event is resets[-1] else event
        yield Line(f"  {_event_line(brief)}", hang=4)
    yield from lag_lines(story.events, screen)


def _after_reset(story: GroupStory, reset: GroupEvent) -> Iterator[str]:
    """Yield what to do about a reset; nothing if the group has committed more since, which must not be undone.

    Nor does an offset from before mean anything in a topic that was created again.
    """
    in_force = (one for one in story.events if one.kind is GroupEventKind.LAG and one.partition == reset.partition)
    is_in_force = any(one.record.offset == reset.record.offset for one in in_force)
    if reset.partition is None or not is_in_force or reset.cause == ResetCause.TOPIC_RECREATED:
        return
    remedy = reset_remedy(ResetCause(reset.cause or ""), story.group, reset.partition, reset.first)
    yield from advice_lines("do", printable(remedy), 2)


def _out_of_range_lines(story: GroupStory) -> Iterator[str]:
    out = [event for event in story.events if event.kind is GroupEventKind.OUT_OF_RANGE]
    if out:
        count = "" if len(out) == 1 else f"{format_count(len(out), 'partition')} out of range, the first: "
        yield Line(f"  {count}{_out_of_range(out[0])}", hang=4)
        if out[0].cause == ResetCause.TOPIC_RECREATED and out[0].partition is not None:
            yield from advice_lines("do", printable(start_remedy(story.group, out[0].partition)), 2)


def _member_lines(story: GroupStory, screen: Screen) -> Iterator[str]:
    members = [] if story.state is None else sorted(story.state.members.items())
    limit = screen.shown(NAMED_MEMBERS)
    for member, client in members[:limit]:
        yield Line(f"  member {printable(member)}: client {printable(client)}", hang=4)
    if limit is not None and len(members) > limit:
        yield f"  … and {format_count(len(members) - limit, 'more member')}"
        yield from screen.rest("--all")


def _event_line(event: GroupEvent) -> str:
    if event.kind is GroupEventKind.OUT_OF_RANGE:
        return f"at the end: {_out_of_range(event)}"
    missing = "" if event.is_exact or event.cause else " (earlier records may be missing)"
    return f"{_time(event)} {_what(event)}{missing}"


def _time(event: GroupEvent) -> str:
    return "no timestamp" if event.record.time == NO_TIME else format_time_ms(event.record.time)


def _what(event: GroupEvent) -> str:
    if event.state is not None:
        clients = ", ".join(sorted({printable(client) for client in event.state.members.values()}))
        generation = f"generation {event.state.generation}, " if event.state.generation >= 0 else ""
        members = format_count(len(event.state.members), "member")
        became = f"{event.why}, " if event.why else ""
        return f"{became}{event.state.name}: {generation}{members}{': ' if clients else ''}{clients}"
    topic, partition = event.partition or ("", -1)
    where = f"{printable(topic)}-{partition}"
    if event.kind is GroupEventKind.RESET:
        return f"reset of {_reset(event)}"
    if event.kind is GroupEventKind.DELIVERY:
        start = "" if event.first is None else f"start offset {event.first}, "
        return f"delivery state of {where}: {start}{event.why}"
    if event.kind is GroupEventKind.CHECKPOINT:
        return f"checkpoint of {where}: {event.first} in {printable(event.why or '')} is {event.last} here"
    if event.kind is GroupEventKind.REMOVED:
        return f"removed the offset of {where}"
    how = {GroupEventKind.ABORTED: "aborted ", GroupEventKind.PENDING: "pending "}.get(event.kind, "")
    offsets = str(event.first) if event.first == event.last else f"{event.first} to {event.last}"
    count = f" in {event.times:,} commits, the last at {format_time_ms(event.last_time)}" if event.times > 1 else ""
    why = f"; {event.why}" if event.why else ""
    return f"{how}commit{'s' if count else ''} of {where}: {offsets}{count}{why}"


def _reset(event: GroupEvent) -> str:
    topic, partition = event.partition or ("", -1)
    before = "an unknown offset" if event.first is None else str(event.first)
    # It was removed for certain, by expiry or by a deletion.
    likely = "" if event.is_exact or event.cause == ResetCause.OFFSET_REMOVED else "likely "
    cause = LOWERED.get(event.cause or "", (event.cause or "").replace("-", " "))
    why = f"; {printable(event.why)}" if event.why else ""
    return f"{printable(topic)}-{partition} from {before} to {event.last}: {likely}{cause}{why}"


def _out_of_range(event: GroupEvent) -> str:
    topic, partition = event.partition or ("", -1)
    likely = "" if event.is_exact else "likely "
    cause = (event.cause or "").replace("-", " ")
    is_within = event.cause == ResetCause.TOPIC_RECREATED
    where = f"committed {event.first} in a deleted topic" if is_within else f"out of range at {event.first}"
    return f"{printable(topic)}-{partition} {where}: {likely}{cause}; {event.why}"
