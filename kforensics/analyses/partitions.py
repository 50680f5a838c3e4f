"""Finds the partitions under paths and replays their logs. Every question begins here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kforensics.analyses.settings import KnownSettings, with_given, with_remote_logs
from kforensics.analyses.surroundings import (
    CONTEXT_TOPICS,
    FileTime,
    neighbors_of,
    newest_file,
    partitions_around,
)
from kforensics.analyses.topics import NO_PARTITION, check_topics, is_numbered, is_selected
from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.formatting import format_count, format_duration, format_time
from kforensics.forensics.core.rules import FIRST_KAFKA_MS, Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_files import (
    LIVE,
    LOG_START,
    Partition,
    folder_of,
    forbidden_sidecars,
    partitions_of,
)
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile, Notify, find_files
from kforensics.parsers.files.input_paths import STDIN, is_archive_name, is_uri
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA, parse_folder_name
from kforensics.parsers.files.source import file_name
from kforensics.render.streams import watcher

if TYPE_CHECKING:
    from kforensics.forensics.audit.cluster_membership import Clusters
    from kforensics.parsers.columns.batch_columns import BatchColumns

# Takes the error of a partition that cannot be read.
OnUnreadable: TypeAlias = Callable[[InputError], None]
# How many old log directories are named.
NAMED_LOG_DIRS = 10
NO_STREAM = "standard input is neither a log nor an archive with one; only dump reads other files from a pipe"
NO_LOG = "there is no log under {}; name partition folders, log directories or .log files"


class Progress(Protocol):
    """Shows how far partitions have been read."""

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Add partitions that will be read, by folder, with their bytes; those that are known count once."""

    def advance(self, size: int) -> None:
        """Add bytes that were read."""

    def finish(self, folder: str) -> None:
        """Take a partition for read."""


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class Investigation:
    """The partitions to analyze.

    Attributes:
        files: all files under the paths.
        partitions: the partitions with a live log, by log directory, topic and number.
        rules: the time of evaluation, and the limits that the user gives.
        unreadable: how many paths cannot be read.
        unselected: partitions of CONTEXT_TOPICS under the paths that are not to be analyzed.
        alone: whether to ignore every partition that is not to be analyzed.
        settings: what is known of the settings; None for nothing but the rules.
        progress: shows how far the partitions have been read, None if nothing does.
    """

    files: tuple[FoundFile, ...]
    partitions: tuple[Partition, ...]
    rules: Rules
    unreadable: int = 0
    unselected: tuple[Partition, ...] = ()
    alone: bool = False
    settings: KnownSettings | None = None
    progress: Progress | None = None

    @property
    def known_rules(self) -> Rules:
        """The time of evaluation, and the limits that follow from all settings that are known."""
        return self.rules if self.settings is None else self.settings.rules

    @cached_property
    def neighbors(self) -> tuple[Partition, ...]:
        """Logs of coordinators and of the cluster's metadata that are not to be analyzed.

        They are under the paths, in the log directories around them, or in others of the same cluster. They show what
        happened to transactions in the partitions.
        """
        return () if self.alone else (*self.unselected, *_context_around(self.files))

    @cached_property
    def clusters(self) -> Clusters:
        """The clusters that the partitions and their neighbors belong to."""
        from kforensics.forensics.audit.cluster_membership import Clusters  # most questions are about one partition

        return Clusters.of((*self.partitions, *self.neighbors))

    def of(self, partitions: Sequence[Partition]) -> Investigation:
        """Return the investigation of some of the partitions."""
        return replace(self, partitions=tuple(partitions))

    def beside_context(self, partitions: Sequence[Partition]) -> Investigation:
        """Return the investigation of some of the partitions; those of CONTEXT_TOPICS stay evidence about them."""
        unselected = () if self.alone else (*self.unselected, *_unselected(self.partitions, partitions))
        return replace(self, partitions=tuple(partitions), unselected=unselected)

    def states(
        self, on_unreadable: OnUnreadable, collectors: Sequence[Collector] = (), *, needs_settings: bool = True
    ) -> Iterator[PartitionState]:
        """Yield the state of each partition that can be read.

        Args:
            on_unreadable: takes the error of a partition that cannot be read; the next partition follows.
            collectors: what checks observe while the batches are read.
            needs_settings: whether the state needs the limits that follow from the files.
        """
        watching = () if self.progress is None else (_advancing(self.progress),)
        if self.progress is not None:
            self.progress.expect({partition.folder: partition.size for partition in self.partitions})
        for partition in self.partitions:
            try:
                rules = self.known_rules if needs_settings else self.rules
                yield examine(partition, rules, (*collectors, *watching))
            except InputError as error:
                on_unreadable(error)
            if self.progress is not None:
                self.progress.finish(partition.folder)


def _advancing(progress: Progress) -> Collector:
    """Return a collector that observes nothing and shows how many bytes have been read."""

    def advance(batches: BatchColumns, _rules: Rules) -> tuple[()]:
        progress.advance(int(batches.size.sum()))
        return ()

    return Collector(batches=advance)


def investigate(  # noqa: PLR0913  # what a user can say
    paths: Sequence[str],
    as_of_ms: int | None,
    warn: Notify,
    note: Notify,
    *,
    topics: Sequence[str] = (),
    numbers: Sequence[range] = (),
    alone: bool = False,
    settings: Sequence[Setting] = (),
) -> Investigation:
    """Return the partitions under the paths.

    Args:
        paths: files, partition folders, log directories, globs or URIs.
        as_of_ms: time of evaluation; None for the modification time of the newest file of the log directories.
        warn: takes a sentence for each path that cannot be read.
        note: takes a sentence on the time of evaluation if it is assumed, and on copies that are older.
        topics: only partitions of topics with these names or globs, without those that begin with ``!``; all topics
            if it is empty.
        numbers: only partitions with these numbers; all if it is empty.
        alone: whether to ignore the logs of coordinators and of the cluster's metadata that are not under the paths, or
            of another topic.
        settings: settings that the user gives, those that count first.

    Raises:
        UsageError: there is no log under the paths, or no such topic.
    """
    files, unreadable = find_files(paths, warn)
    found = partitions_of(files)
    if topics and found and not unreadable:
        check_topics(topics, [partition.place.topic for partition in found])
    partitions = _selected(found, topics, numbers)
    if found and not partitions and not unreadable:
        raise UsageError(NO_PARTITION)
    unreadable += _name_forbidden(_related(files, topics), found, warn)
    if not partitions and not unreadable:
        raise UsageError("; ".join((NO_LOG.format(", ".join(paths)), *_why_none(files, paths))))
    newest = newest_file(files, paths) if as_of_ms is None else None
    elsewhere = () if alone else _remote_metadata(files, found)
    in_scope = partitions if alone else found
    rules = with_given(rules_as_of(as_of_ms, newest), settings)
    rules = _with_cluster_times(with_remote_logs(rules, settings, [*in_scope, *elsewhere]), found)
    copy_times = [(partition.place.log_dir, partition.taken_ms) for partition in partitions]
    for sentence in (*_packed_beside(files, paths), *(as_of_notes(copy_times, rules, newest) if partitions else ())):
        note(sentence)
    context = _unselected(found, partitions) if topics or numbers else ()

    def showing() -> Iterator[Partition]:
        """Yield the partitions that may show settings."""
        yield from in_scope
        if not alone:
            log_dirs = {partition.place.log_dir for partition in found}
            yield from partitions_around(log_dirs, {partition.folder for partition in found})

    known = KnownSettings(rules, tuple(settings), showing)
    return Investigation(tuple(files), tuple(partitions), rules, unreadable, context, alone, known, _progress())


def _packed_beside(files: Iterable[FoundFile], paths: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about archives among the files of log directories."""
    return _packed((file for file in files if file.log_dir is not None), paths)


def _why_none(files: Iterable[FoundFile], paths: Sequence[str]) -> Iterator[str]:
    if STDIN in paths:
        yield NO_STREAM
    yield from _set_aside(files)
    yield from _packed(files, paths)


def _set_aside(files: Iterable[FoundFile]) -> Iterator[str]:
    """Yield a sentence about the first folder among those of some files that no broker serves, if there is one."""
    for folder in sorted({folder_of(file) for file in files if file.kind == "log"}):
        name = parse_folder_name(file_name(folder))
        if name is not None and name.state != LIVE:
            partition = f"{name.topic}-{name.partition}"
            command = f"`cp -rp {shell_word(folder)} {shell_word(f'/path/outside/{partition}')}`"
            how = "" if is_uri(folder) else f": {command}"
            yield f"brokers do not serve {folder}, so it is left out; to examine it, copy it as {partition}{how}"
            return


def _packed(files: Iterable[FoundFile], paths: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about archives among some files, if there are any: they are read only if they are named."""
    archives = [file for file in files if is_archive_name(file.path) and file.path not in paths]
    if archives:
        more = f" and {format_count(len(archives) - 1, 'other archive')} are" if len(archives) > 1 else " is"
        yield f"{archives[0].path}{more} not read; unpack archives that lie in folders, or name them as paths"


def _with_cluster_times(rules: Rules, found: Sequence[Partition]) -> Rules:
    if not rules.is_assumed or len({partition.place.log_dir for partition in found}) < 2:
        return rules
    from kforensics.forensics.audit import cluster_membership  # slow to import

    members = [cluster_membership.PartitionMembership.of(partition) for partition in found]
    return cluster_membership.with_cluster_times(rules, members, cluster_membership.Clusters.of_members(members))


def _progress() -> Progress | None:
    """Return what shows the progress of the command, None if nothing does."""
    meter = watcher()
    return meter if meter.is_shown else None


def _selected(found: Sequence[Partition], topics: Sequence[str], numbers: Sequence[range]) -> list[Partition]:
    of_topics = (partition for partition in found if is_selected(partition.place.topic, topics))
    return [partition for partition in of_topics if is_numbered(partition.place.partition, numbers)]


def _related(files: Sequence[FoundFile], topics: Sequence[str]) -> list[FoundFile]:
    return [file for file in files if file.topic is None or is_selected(file.topic, topics)]


def _unselected(found: Sequence[Partition], partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return the partitions of CONTEXT_TOPICS that are not to be analyzed."""
    folders = {partition.folder for partition in partitions}
    in_context = (partition for partition in found if partition.place.topic in CONTEXT_TOPICS)
    return tuple(partition for partition in in_context if partition.folder not in folders)


def ignore(_: object) -> None:
    """Ignore progress, or a sentence on the time of evaluation: a caller knows whether it gave one."""


def rules_as_of(as_of_ms: int | None, newest: FileTime | None) -> Rules:
    """Return the time of evaluation, without settings.

    Args:
        as_of_ms: the time that the user gives; None for that of the newest file.
        newest: the newest file, None if no file has a time.
    """
    if as_of_ms is not None:
        return Rules(as_of_ms)
    return Rules(newest.mtime_ms if newest else 0, is_assumed=True)


def _name_forbidden(files: Sequence[FoundFile], found: Sequence[Partition], warn: Notify) -> int:
    """Name the indexes, snapshots and checkpoints that this user may not read; return how many there are.

    The checkpoints of a log directory are read even if only the folder of a partition is named.
    """
    denied = {error.path: error.why for error in forbidden_sidecars(files)}
    for log_dir in (partition.log_dir for partition in found):
        denied |= {f"{log_dir.path}/{name}": why for name, why in log_dir.forbidden.items()}
    for path, why in denied.items():
        warn(f"cannot read {path}: {why}")
    return len(denied)


def _remote_metadata(files: Sequence[FoundFile], found: Sequence[Partition]) -> Iterator[Partition]:
    """Yield the metadata of remote storage around the paths, if part of a log is there.

    A log with remote storage is the only one whose checkpointed log start offset is below its first segment.
    """
    starts = ((partition.checkpoint(LOG_START), partition.first_offset) for partition in found)
    if any(checkpoint is not None and checkpoint < first for checkpoint, first in starts):
        yield from (other for other in _context_around(files) if other.place.topic == REMOTE_LOG_METADATA)


def _context_around(files: Sequence[FoundFile]) -> list[Partition]:
    """Return the logs of coordinators and of metadata around some files."""
    return neighbors_of({file.log_dir for file in files}, {folder_of(file) for file in files})


def as_of_notes(
    copy_times: Iterable[tuple[str | None, int | None]], rules: Rules, newest_file: FileTime | None = None
) -> Iterator[str]:
    """Yield sentences on an assumed time of evaluation, and on log directories evaluated as of an earlier time.

    Args:
        copy_times: log directory and time of the copy of each partition; None for an unknown value.
        rules: limits and the time of evaluation.
        newest_file: the file whose modification time it is, None if unknown.
    """
    if not rules.is_assumed:
        return
    file = "the newest file" if newest_file is None else newest_file.path
    lost = ": the files have lost their times" if rules.as_of_ms < FIRST_KAFKA_MS else ""
    as_of = f"evaluated as of {format_time(rules.as_of_ms)}, when {file} was last modified"
    yield f"{as_of}{lost}; set another time with --as-of"
    newest: dict[str, int] = {}
    for log_dir, time in copy_times:
        if log_dir is not None and time is not None:
            newest[log_dir] = max(time, newest.get(log_dir, time))
    earlier = sorted((time, log_dir) for log_dir, time in rules.cluster_times.items() if log_dir not in newest)
    yield from _first_named(
        f"{log_dir} is of another cluster, or of an earlier copy, whose newest file is from {format_time(time)}: it is"
        " evaluated as of then"
        for time, log_dir in earlier
    )
    old = [(time, log_dir) for log_dir, time in newest.items() if rules.as_of_ms - time > rules.max_txn_timeout_ms]
    yield from _first_named(
        f"{log_dir} was copied {format_duration(rules.as_of_ms - time)} earlier, while its broker was running or"
        f" after it crashed: its open transactions are evaluated as of {format_time(time)}"
        for time, log_dir in sorted(old)
    )


def _first_named(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the sentences about the first log directories, and how many more there are."""
    of_all = list(sentences)
    yield from of_all[:NAMED_LOG_DIRS]
    if (more := len(of_all) - NAMED_LOG_DIRS) > 0:
        yield f"… and {format_count(more, 'more log directory', 'more log directories')}"
