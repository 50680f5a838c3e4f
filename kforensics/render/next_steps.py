"""States what to do after the verdict on an offset, if it is not simply visible."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.core.commands import OFFSETS_TOOL, shell_word
from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.explain.offset_story import OffsetStory, RecordStatus
from kforensics.forensics.partition.log_starts import EarlierStart
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.screen import advice_lines

__all__ = ["next_step_lines"]

BLOCKED = "See whether the transaction will be ended, and how: `kforensics lso {folder}`."
OTHER_REPLICAS = (
    "See the findings, and which replica has it; name the log directories of all brokers, not only this one: "
    "`kforensics audit --topic {topic} {log_dir}`."
)
NEXT_STEPS = {
    RecordStatus.HELD_BACK: BLOCKED,
    RecordStatus.NOT_IN_BATCH: OTHER_REPLICAS,
    RecordStatus.LOST: OTHER_REPLICAS,
    RecordStatus.DAMAGED: OTHER_REPLICAS,
    RecordStatus.CONTROL: "No action: a group that has committed this offset has missed no record.",
    RecordStatus.COMPACTED: (
        "No action: the cleaner removes a record once its key has a later one, and old tombstones and aborted records."
    ),
    RecordStatus.DELETED: (
        "No action, unless a group had not read it: see the groups, where the log directory has __consumer_offsets: "
        "`kforensics groups {log_dir}`."
    ),
}
TRUNCATED = f"If a record with this offset was acknowledged, the log was truncated since. {OTHER_REPLICAS}"
AT_THE_END = (
    "Nothing is written there yet, and a group that has committed this offset has read everything. " + TRUNCATED
)
SHOWN_BY_INDEX = "See what else is wrong with the transaction index: `kforensics verify {folder}`."


def next_step_lines(story: OffsetStory) -> Iterator[str]:
    """Yield what to do about an offset; nothing if its record is visible, or the files do not show what happened."""
    place = story.place
    step = None if story.missing else _next_step(story)
    if step is None or place.topic is None:
        return
    names = {"folder": story.folder, "topic": place.topic, "log_dir": place.log_dir or story.folder}
    for name, value in names.items():
        step = step.replace(f"{{{name}}}", shell_word(value))
    yield from advice_lines("next", printable(step), 2)


def _next_step(story: OffsetStory) -> str | None:
    transaction, bounds = story.transaction, story.bounds
    if story.status is RecordStatus.UNDECIDED:
        is_open = transaction is not None and transaction["outcome"] == TransactionOutcome.OPEN
        return BLOCKED if is_open else None
    if story.status is RecordStatus.BEYOND_END:
        is_whole = story.exactness is Exactness.EXACT and bounds.lagging_since is None
        return AT_THE_END if is_whole and story.offset == bounds.log_end_offset else TRUNCATED
    earlier = bounds.earlier_start
    if story.status is RecordStatus.DELETED and earlier is not None and earlier.is_remote:
        return _without_reading_start(story, earlier)
    return SHOWN_BY_INDEX if story.is_shown_by_index else NEXT_STEPS.get(story.status)


def _without_reading_start(story: OffsetStory, earlier: EarlierStart) -> str:
    """Return what to do about a log start that the broker cannot read, or may have."""
    if earlier.is_certain:
        return earlier.remedy(story.place)
    return (
        f"See the log start of the broker: `{OFFSETS_TOOL} --topic-partitions {{topic}}:{story.place.partition} --time"
        f" earliest`. If it is {earlier.offset}, consumers there receive nothing: {earlier.deletion(story.place)}."
    )
