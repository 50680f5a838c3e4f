"""Formats the image of a cluster, what changed in it and the history of a partition; what needs attention is first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kforensics.forensics.core.election import NO_LEADER
from kforensics.forensics.core.formatting import format_count, format_duration, format_offsets, format_time
from kforensics.forensics.metadata.image_changes import Change, HistoryStep
from kforensics.forensics.metadata.image_entities import KINDS, Entity, EntityFilter, entities
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.metadata.metadata_versions import METADATA_VERSION, level_name
from kforensics.forensics.partition.unused_metadata import not_in_force, unused_since
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.fitted_table import TableColumn
from kforensics.render.partition_text import listed_lines
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import Line

BROKER_COLUMNS = (
    TableColumn("broker"),
    TableColumn("state", is_text=True),
    TableColumn("leads"),
    TableColumn("replicas", 1),
    TableColumn("rack", 2, is_text=True),
    TableColumn("end points", 3, is_text=True),
)
PARTITION_COLUMNS = (
    TableColumn("partition", is_text=True),
    TableColumn("state", is_text=True),
    TableColumn("leader"),
    TableColumn("epoch", 3),
    TableColumn("replicas", is_text=True),
    TableColumn("isr", is_text=True),
    TableColumn("elr", 2, is_text=True),
    TableColumn("leader since", 1, is_text=True),
)
SETTING_COLUMNS = (
    TableColumn("of", is_text=True),
    TableColumn("setting", is_text=True),
    TableColumn("value", is_text=True),
)
STEP_COLUMNS = (
    TableColumn("offset"),
    TableColumn("time", is_text=True),
    TableColumn("change", is_text=True),
    TableColumn("leader"),
    TableColumn("epoch", 2),
    TableColumn("isr", is_text=True),
    TableColumn("replicas", 3, is_text=True),
    TableColumn("elr", 4, is_text=True),
    TableColumn("lasted", 1, is_text=True),
    TableColumn("controller", 5),
)
FOUND_COLUMNS = (
    TableColumn("topic", is_text=True),
    TableColumn("topic id", 1, is_text=True),
    TableColumn("partitions"),
)
ALL = EntityFilter()
WORST_FIRST = ("no leader", "recovering", "below", "under-replicated", "reassigning")
# Changes and gaps that are listed.
LISTED = 20
NOUNS = {
    "config": "setting",
    "producer_ids": "producer id block",
    "acl": "access control entry",
    "scram_user": "SCRAM credential",
    "delegation_token": "delegation token",  # nosec B105  # the name of a kind, no secret
}
PLURALS = {"access control entry": "access control entries"}
# What the first line counts already.
COUNTED = ("controller", "voter", "topic", "producer_ids")


@dataclass(slots=True)
class _Overview:
    """What one pass over the entities of an image collects.

    Attributes:
        kinds: how many entities of each kind there are.
        states: how many of the selected partitions are in each state.
        partitions: how many partitions are selected.
        leads: how many partitions each broker leads.
        hosts: how many replicas each broker has.
        brokers: the selected brokers.
        listed: the partitions to list.
        settings: the settings, quotas and the like to list.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    partitions: int = 0
    leads: Counter[int] = field(default_factory=Counter)
    hosts: Counter[int] = field(default_factory=Counter)
    brokers: list[Entity] = field(default_factory=list)
    listed: list[Entity] = field(default_factory=list)
    settings: list[Entity] = field(default_factory=list)

    def add(self, entity: Entity, selection: EntityFilter) -> None:
        """Add an entity."""
        self.kinds[entity.kind] += 1
        registration = entity.partition
        if registration is not None:
            self.leads[registration.leader] += 1
            self.hosts.update(registration.replicas)
        if not selection.selects(entity):
            return
        if registration is not None:
            self.partitions += 1
            self.states.update(() if entity.state is None else entity.state.split(", "))
            if entity.state is not None or selection != ALL:
                self.listed.append(entity)
        elif entity.kind == "broker":
            self.brokers.append(entity)
        elif entity.kind not in COUNTED:
            self.settings.append(entity)


def image_lines(name: str, replay: ImageReplay, selection: EntityFilter, shown: RankedText) -> Iterator[str]:
    """Yield the image of a cluster: who controls it, what needs attention, its brokers, and its settings.

    Args:
        name: name of the cluster.
        replay: its image.
        selection: which entities to list.
        shown: the text that the lines are for.
    """
    overview = _Overview()
    for entity in entities(replay.image, replay.voters):
        overview.add(entity, selection)
    time = "" if replay.timestamp is None else f", {format_time(replay.timestamp)}"
    yield f"{_label(name)} at offset {replay.offset} of its metadata log{time}: {_controllers(replay)}"
    yield f"  {_version(replay)}; {_counts(overview.kinds)}"
    yield f"  {_health(overview)}"
    yield from _notes(replay)
    if overview.brokers:
        rows = (_broker_cells(broker, overview) for broker in overview.brokers)
        yield from listed_lines(BROKER_COLUMNS, rows, len(overview.brokers), "broker", shown)
    if overview.listed:
        partitions = sorted(overview.listed, key=_rank)
        yield from listed_lines(
            PARTITION_COLUMNS, map(_partition_cells, partitions), len(partitions), "partition", shown
        )
    if overview.settings and (selection != ALL or shown.screen.shows_all):
        settings = (_setting_cells(entity) for entity in overview.settings)
        yield from listed_lines(SETTING_COLUMNS, settings, len(overview.settings), "entry", shown)
    elif overview.settings:
        shown.is_cut = True


def _label(name: str) -> str:
    return f"cluster {printable(name)}" if name else "cluster without an id"


def _controllers(replay: ImageReplay) -> str:
    if replay.leader is None:
        return "the log names no leader of the controllers"
    since = "" if replay.leader_ms is None else f" since {format_time(replay.leader_ms)}"
    voters = len(replay.voters)
    of = f" of {format_count(voters, 'voter')}" if voters else ""
    return f"controller {replay.leader}{of} leads{since} (epoch {replay.epoch})"


def _version(replay: ImageReplay) -> str:
    level = replay.image.features.get(METADATA_VERSION)
    if level is None:
        return f"{METADATA_VERSION} unknown"
    name = level_name(level)
    release = f" ({name})" if name else ""
    return f"{METADATA_VERSION} {level}{release}, kraft.version {replay.kraft_version}"


def _counts(kinds: Counter[str]) -> str:
    counts = []
    for kind in KINDS:
        if kinds[kind] and kind not in ("voter", "controller"):
            noun = NOUNS.get(kind, kind)
            counts.append(format_count(kinds[kind], noun, PLURALS.get(noun)))
    return ", ".join(counts) or "nothing in it"


def _health(overview: _Overview) -> str:
    nodes = Counter(state for broker in overview.brokers if broker.state for state in broker.state.split(", "))
    brokers = ", ".join(f"{count:,} {state}" for state, count in nodes.items())
    of_brokers = f"brokers: {brokers}; " if brokers else ""
    if not overview.partitions:
        return f"{of_brokers}no partitions"
    if not overview.states:
        return f"{of_brokers}partitions: all replicas in sync, and every partition has a leader"
    worst_first = sorted(overview.states.items(), key=lambda one: _severity(one[0]))
    return f"{of_brokers}partitions: {', '.join(f'{count:,} {state}' for state, count in worst_first)}"


def _severity(state: str) -> int:
    return next((number for number, name in enumerate(WORST_FIRST) if state.startswith(name)), len(WORST_FIRST))


def _rank(entity: Entity) -> tuple[int, str, int]:
    state = (entity.state or "").partition(", ")[0]
    return _severity(state) if state else len(WORST_FIRST) + 1, entity.topic or "", entity.number or 0


def _notes(replay: ImageReplay) -> Iterator[str]:
    """Yield what limits the image."""
    yield from _not_in_force(replay)
    if replay.snapshot is not None and replay.start:
        yield f"  from the snapshot at offset {replay.start} on; earlier changes have no time"
    if not replay.is_complete:
        yield Line(
            f"  incomplete: the log begins at offset {replay.start}, and no whole snapshot has what was before",
            "warning",
        )
    for first, last in replay.gaps[:LISTED]:
        yield Line(f"  incomplete: {format_offsets(first, last)} missing or damaged", "warning")
    if replay.open_transaction is not None:
        yield f"  without the records of the transaction that is open since offset {replay.open_transaction}"
    if len(replay.voters) > 1:
        yield "  the last records may not be committed: no file has the high watermark of this log"
    for kind, count in replay.skipped.items():
        yield f"  skipped: {format_count(count, 'record')}, {printable(kind)}"
    for kind, count in replay.image.not_applied.items():
        yield f"  without effect: {format_count(count, kind)}, of what the image does not have"


def _not_in_force(replay: ImageReplay) -> Iterator[str]:
    since = unused_since(replay.metadata.log_dir)
    if since is not None:
        yield Line(f"  {not_in_force(since)}: this is what was, not what is", "warning")


def _broker_cells(broker: Entity, overview: _Overview) -> tuple[str, ...]:
    node, fields = broker.node_id or 0, broker.fields()
    counts = str(overview.leads[node]), str(overview.hosts[node])
    return (broker.name, broker.state or "active", *counts, printable(fields["rack"] or ""), broker.value or "")


def _partition_cells(entity: Entity) -> tuple[str, ...]:
    state = entity.partition
    if state is None:
        return ("",) * len(PARTITION_COLUMNS)
    leader = "none" if state.leader == NO_LEADER else str(state.leader)
    lists = (",".join(map(str, ids)) for ids in (state.replicas, state.isr, state.elr))
    since = "" if entity.since is None else format_time(entity.since)
    return (printable(entity.name), entity.state or "", leader, str(state.leader_epoch), *lists, since)


def _setting_cells(entity: Entity) -> tuple[str, ...]:
    label = f"{NOUNS.get(entity.kind, entity.kind)} {entity.name}" if entity.kind != "config" else entity.name
    return tuple(printable(text or "") for text in (label, entity.setting, entity.value))


def change_lines(
    name: str, before: ImageReplay, after: ImageReplay, changes: Sequence[Change], shown: RankedText
) -> Iterator[str]:
    """Yield what changed between two images.

    Args:
        name: name of the cluster.
        before: the first image.
        after: the second one.
        changes: the changes.
        shown: the text that the lines are for.
    """
    counts = Counter(change.change for change in changes)
    parts = ", ".join(f"{counts[kind]:,} {kind}" for kind in ("created", "deleted", "changed") if counts[kind])
    spans = " to ".join(
        f"offset {one.offset}" + ("" if one.timestamp is None else f" ({format_time(one.timestamp)})")
        for one in (before, after)
    )
    yield f"{_label(name)}, {spans}: {parts or 'nothing changed'}"
    yield from _not_in_force(after)
    limit = shown.screen.shown(LISTED)
    for change in changes[:limit]:
        entity, touches = change.entity, change.touches
        setting = f" {entity.setting}" if entity.setting else ""
        label = f"{entity.kind.replace('_', ' ')} {entity.name}{setting}"
        yield f"  {change.change} {printable(label)}: {printable(change.what)}"
        if touches is not None:
            last = touches.last
            by = "" if touches.controller is None else f" by controller {touches.controller}"
            elections = f", {format_count(touches.elections, 'election')}" if touches.elections else ""
            times = f", last at offset {last.offset}, {format_time(last.timestamp)}{by}, epoch {last.epoch}"
            yield f"    {format_count(touches.records, 'record')}{elections}{times}"
    if limit is not None and len(changes) > limit:
        shown.is_cut = True
        yield f"  … and {format_count(len(changes) - limit, 'more change')}"


def history_lines(
    topic_partition: str, replay: ImageReplay, steps: Sequence[HistoryStep], shown: RankedText
) -> Iterator[str]:
    """Yield the history of a partition.

    Args:
        topic_partition: its name.
        replay: the replay.
        steps: its changes.
        shown: the text that the lines are for.
    """
    elections = sum("elect" in step.change for step in steps)
    unclean = sum("unclean" in step.change for step in steps)
    of_unclean = f" ({unclean:,} unclean)" if unclean else ""
    counts = f"{format_count(len(steps), 'change')}, {format_count(elections, 'election')}{of_unclean}"
    yield f"{printable(topic_partition)} up to offset {replay.offset} of the metadata log: {counts}"
    yield from _not_in_force(replay)
    ends = [*(step.timestamp for step in steps[1:]), None]
    rows = (_step_cells(step, end) for step, end in zip(steps, ends, strict=True))
    yield from listed_lines(STEP_COLUMNS, rows, len(steps), "change", shown)


def _step_cells(step: HistoryStep, end: int | None) -> tuple[str, ...]:
    record, state = step.record, step.state
    offset, time = ("", "") if record is None else (str(record.offset), format_time(record.timestamp))
    of_state: tuple[str, ...] = ("",) * 5
    if state is not None:
        leader = "none" if state.leader == NO_LEADER else str(state.leader)
        lists = (",".join(map(str, ids)) for ids in (state.isr, state.replicas, state.elr))
        of_state = (leader, str(state.leader_epoch), *lists)
    lasted = "" if record is None or end is None else format_duration(end - record.timestamp)
    controller = "" if step.controller is None else str(step.controller)
    return (offset, time, step.change, *of_state, lasted, controller)


def log_dir_lines(name: str, found: Sequence[Entity], shown: RankedText) -> Iterator[str]:
    """Yield what log directories alone show of a cluster.

    Args:
        name: name of the cluster.
        found: its entities.
        shown: the text that the lines are for.
    """
    counts = Counter(entity.kind for entity in found)
    yield f"{_label(name)}: no metadata log; by its log directories alone {_counts(counts)}"
    yield "  unknown: leaders, in-sync replicas, settings, other replicas; ZooKeeper or the controllers have them"
    topics = [entity for entity in found if entity.kind == "topic"]
    rows = ((printable(one.name), one.topic_id or "", one.value or "") for one in topics)
    if topics:
        yield from listed_lines(FOUND_COLUMNS, rows, len(topics), "topic", shown)
