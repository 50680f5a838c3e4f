"""Formats what the next start of a broker does: the outcome, the effects, the worst first, and what to do before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.forensics.forecast.broker_forecast import STARTS, BrokerForecast, PartitionForecast
from kforensics.forensics.forecast.effects import HOUSEKEEPING, IN_ZOOKEEPER, ROUTINE, Effect
from kforensics.forensics.forecast.elections import Candidate
from kforensics.forensics.forecast.forecast_rows import needs_another_release, remedies, severity_of_effect
from kforensics.forensics.forecast.metadata_loading import GONE
from kforensics.forensics.metadata.metadata_versions import release_name
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.screen import Line, Screen

__all__ = ["candidate_lines", "forecast_lines"]

ALWAYS = (
    "  as at every start: the marker of the clean shutdown is removed, indexes of active segments are extended, leader"
    " epochs and the checkpoints are written again"
)
# Effects of one kind that are listed before the rest is counted.
LISTED = 10
# Partitions that are listed with their offsets after the start.
LISTED_PARTITIONS = 20
INDENT = 11
Found = tuple[PartitionForecast | None, Effect]


def forecast_lines(forecast: BrokerForecast, screen: Screen) -> Iterator[str]:
    """Yield a forecast as text."""
    node = _kind(forecast) if forecast.node_id is None else f"{_kind(forecast)} {forecast.node_id}"
    where = printable(", ".join(forecast.log_dirs))
    every = [pair for pair in forecast.all_effects() if pair[1].kind not in (HOUSEKEEPING, IN_ZOOKEEPER)]
    release = "" if forecast.release is None else f", release {release_name(forecast.release)}"
    release += " assumed" * forecast.is_release_assumed + ", with ZooKeeper" * forecast.has_zookeeper
    yield Line(f"{node} on {where}{release}: {_outcome(forecast, every)}", _style(forecast))
    for refusal in forecast.refusals:
        what = "a log directory goes offline" if forecast.outcome == STARTS else "it ends with"
        message = printable(f"{refusal.exception}: {refusal.message}")
        yield Line(f"  {Severity.CRITICAL!s:<8} {what} {message}", Severity.CRITICAL, INDENT)
        yield f"{' ' * INDENT}at {printable(refusal.path)}"
    if forecast.outcome == STARTS:
        yield ALWAYS
        yield from _housekeeping(forecast)
        yield from (f"  {effect.detail}" for effect in forecast.effects if effect.kind == IN_ZOOKEEPER)
    silent, logged = ([pair for pair in every if pair[1].silent is is_silent] for is_silent in (True, False))
    blocks = [("without a warning in its log", silent), ("with a warning or an error in its log", logged)]
    for title, effects in sorted(blocks, key=lambda block: -_worst(block[1])):
        yield from _effects(title, effects, screen)
    if forecast.outcome == STARTS:
        yield from _partitions(forecast, screen)
    if _is_cut(forecast, (silent, logged), screen):
        yield "in full:"
        yield from screen.rest("--all")
    without = ("--release",) if needs_another_release(forecast) else ()
    steps = remedies(forecast, screen.again(forecast.log_dirs, *without)) if _is_bad(forecast, every) else []
    for number, (text, command) in enumerate(steps, 1):
        if number == 1:
            yield "before the start:"
        yield Line(f"  {number}. {printable(text)}", hang=5)
        if command:
            yield Line(f"     $ {printable(command)}", "command")


def _housekeeping(forecast: BrokerForecast) -> Iterator[str]:
    count = sum(effect.kind == HOUSEKEEPING for _, effect in forecast.all_effects())
    if count:
        files, verb = format_count(count, "file"), "is" if count == 1 else "are"
        yield f"  and {files} that no log needs any more {verb} deleted, see --format table"


def _kind(forecast: BrokerForecast) -> str:
    """Return whether the node is a broker, or a controller only."""
    metadata, node_id = forecast.metadata, forecast.node_id
    is_controller = metadata is not None and node_id in metadata.controllers and node_id not in metadata.image.brokers
    return "controller" if is_controller else "broker"


def candidate_lines(candidate: Candidate) -> Iterator[str]:
    """Yield what a replica would cost as leader, as text."""
    place, losses = candidate.partition.place, []
    if candidate.records:
        losses.append(f"{format_count(candidate.records, 'record')} from offset {candidate.truncation} on")
    if candidate.committed:
        losses.append(format_count(candidate.committed, "committed transaction"))
    cost = f"loses {' and '.join(losses)}" if losses else "loses nothing"
    style = str(Severity.CRITICAL) if losses else ""
    name, broker = candidate.partition.name, "unknown" if place.broker_id is None else place.broker_id
    yield Line(printable(f"{name} broker {broker}: {candidate.election}, continues at {candidate.end}, {cost}"), style)
    if candidate.groups:
        yield Line(printable(f"    groups after its end: {', '.join(candidate.groups)}"), hang=4)
    if candidate.duplicates:
        count = format_count(candidate.duplicates, "record")
        yield Line(f"    {count} may be sent again: no high watermark covers them", hang=4)
    yield Line(f"    {candidate.message}", hang=4)


def _outcome(forecast: BrokerForecast, every: list[Found]) -> str:
    if forecast.outcome != STARTS:
        return forecast.outcome
    if forecast.refusals:
        return "starts without some of its log directories"
    count = len(forecast.partitions)
    partitions = format_count(count, "partition")
    kinds = Counter(effect.kind for _, effect in every if severity_of_effect(effect) > Severity.INFO)
    worst = f": {', '.join(f'{count} {kind}' for kind, count in kinds.items())}" if kinds else ""
    if worst or any(partition is not None and effect.kind not in ROUTINE for partition, effect in every):
        return f"starts, {partitions}{worst}"
    # Files without data of a partition may go, as at the start of a healthy broker.
    is_all = not any(True for _ in forecast.all_effects())
    return f"starts, {'changes nothing' if is_all else 'no partition changes'}; {partitions}"


def _worst(effects: list[Found]) -> int:
    return max((severity_of_effect(effect) for _, effect in effects), default=Severity.INFO)


def _style(forecast: BrokerForecast) -> str:
    return "" if forecast.outcome == STARTS and not forecast.refusals else str(Severity.CRITICAL)


def _is_bad(forecast: BrokerForecast, every: list[Found]) -> bool:
    return bool(forecast.refusals) or any(severity_of_effect(effect) > Severity.INFO for _, effect in every)


def _effects(title: str, effects: list[Found], screen: Screen) -> Iterator[str]:
    if not effects:
        return
    yield f"{title}:"
    by_severity = sorted(effects, key=lambda pair: -severity_of_effect(pair[1]))
    kinds = Counter[str]()
    for partition, effect in by_severity:
        kinds[effect.kind] += 1
        if kinds[effect.kind] > LISTED and not screen.shows_all:
            continue
        severity = severity_of_effect(effect)
        name = "" if partition is None else f" {partition.name}"
        is_torn = effect.kind == "truncated" and severity is Severity.WARNING
        lost = f" ({', '.join(_extent(effect, is_torn=is_torn))})".replace(" ()", "")
        text = f"  {severity!s:<8} {effect.kind}{name}: {effect.detail}{lost}"
        yield Line(printable(text), severity, INDENT)
        if is_torn and effect.path is not None:
            yield Line(f"{' ' * INDENT}$ kforensics dump --damage {printable(shell_word(effect.path))}", "command")
    for kind, count in kinds.items():
        if count > LISTED and not screen.shows_all:
            yield f"{' ' * INDENT}… and {count - LISTED:,} more of {kind}"


def _extent(effect: Effect, *, is_torn: bool) -> Iterator[str]:
    """Yield how much an effect is about.

    Args:
        effect: the effect.
        is_torn: whether it cuts off bytes in which no batch can be recognized.
    """
    if is_torn:
        yield "no whole batch"
    elif effect.kind == "truncated" and effect.records:
        yield format_count(effect.records, "offset")
    if effect.size:
        yield format_size(effect.size)


def _partitions(forecast: BrokerForecast, screen: Screen) -> Iterator[str]:
    ordered = sorted(_listed(forecast, screen), key=lambda each: (each.topic, each.partition))
    folders = Counter(each.name for each in ordered)
    shown = ordered[: screen.shown(LISTED_PARTITIONS)]
    for partition in shown:
        loaded = partition.loaded
        offsets = ""
        if loaded is not None and partition.fate in ("served", "created"):
            offsets = f", log {loaded.log_start} to {loaded.log_end}, LSO {loaded.last_stable}"
            if loaded.may_forget:
                offsets += f", or {loaded.log_end} if the topic still has message format 0 or 1"
        is_one_of_several = folders[partition.name] > 1 and partition.folder is not None
        what = f"folder {partition.folder}" if is_one_of_several and not offsets else partition.name
        yield printable(f"  {what} afterwards: {partition.fate}{offsets}")
    if more := len(ordered) - len(shown):
        yield f"  … and {format_count(more, 'more partition')}"


def _listed(forecast: BrokerForecast, screen: Screen) -> list[PartitionForecast]:
    """Return the partitions whose state after the start is shown: all, or those that have a folder that changes.

    A -delete folder is no partition: what becomes of it is an effect, and its partition may be served from another.
    """
    changed = {each.name for each in forecast.partitions if any(effect.kind not in ROUTINE for effect in each.effects)}
    partitions = (each for each in forecast.partitions if screen.shows_all or each.name in changed)
    return [each for each in partitions if each.fate != GONE]


def _is_cut(forecast: BrokerForecast, blocks: Iterable[list[Found]], screen: Screen) -> bool:
    """Return whether effects or partitions are left out."""
    if screen.shows_all:
        return False
    counts = [count for effects in blocks for count in Counter(effect.kind for _, effect in effects).values()]
    has_more = forecast.outcome == STARTS and len(_listed(forecast, screen)) > LISTED_PARTITIONS
    return has_more or any(count > LISTED for count in counts)
