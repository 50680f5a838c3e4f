"""The settings that a user gives, the limits that follow from them and from the files, and what ``settings`` shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypedDict

from kforensics.analyses.times import as_of_ms
from kforensics.analyses.topics import is_selected, selection_of
from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.broker_settings import (
    BROKER_NAMES,
    GIVEN,
    GIVEN_BY_CALLER,
    KNOWN,
    Setting,
    is_of_broker,
    validated,
)
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.log_names import METADATA_TOPIC, REMOTE_LOG_METADATA, TRANSACTION_STATE
from kforensics.parsers.files.meta_properties import Property, read_properties
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.render.streams import watched

if TYPE_CHECKING:
    from kforensics.analyses.partitions import Investigation
    from kforensics.forensics.core.result_rows import Rows

__all__ = [
    "Evaluation",
    "KnownSettings",
    "given_settings",
    "may_show_settings",
    "parameters_of",
    "rules_for",
    "settings_in_force",
    "with_given",
    "with_remote_logs",
]

EXAMPLE = "producer.id.expiration.ms=86400000"
EXAMPLE_OF_CALLER = "{'producer.id.expiration.ms': 86_400_000}"


def may_show_settings(partition: Partition) -> bool:
    """Return whether the files of a partition may show settings: two snapshots, or logs that name them.

    The metadata of remote storage is no setting, but it concerns other partitions, too.
    """
    is_named = partition.place.topic in (METADATA_TOPIC, TRANSACTION_STATE, REMOTE_LOG_METADATA)
    return (is_named and partition.has_log) or len(partition.snapshots) > 1


def given_settings(assignments: Sequence[str], server_properties: str | None) -> tuple[Setting, ...]:
    """Return the settings that a user gives, those that count first.

    Args:
        assignments: as ``NAME=VALUE``; of several for one name the last one counts.
        server_properties: path of a broker's ``server.properties``, None for none.

    Raises:
        UsageError: there is no such setting, Kafka would not accept a value, or the file cannot be read.
    """
    given = [_assigned(assignment) for assignment in reversed(assignments)]
    return (*given, *(_of_file(server_properties) if server_properties is not None else ()))


class Evaluation(TypedDict, total=False):
    """How to evaluate: what all functions of the library take by name, and need not be given.

    Attributes:
        as_of: time of evaluation: a datetime with a time zone, text in ISO 8601 (UTC if it names no zone) or ``"now"``,
            or milliseconds; None for the newest modification time of the files.
        topic: only topics with this name or glob, or with one of several; one that begins with ``!`` excludes.
        partition: only partitions with this number, with one in a range such as ``"0-9"``, or with one of several.
        settings: settings of the brokers by name, such as ``{"transaction.max.timeout.ms": 3_600_000}``.
        server_properties: path of a broker's ``server.properties``.
        alone: whether to ignore the logs of coordinators and of the cluster's metadata that are around the paths.
    """

    as_of: datetime | str | int | None
    topic: str | Iterable[str] | None
    partition: int | str | Iterable[int | str] | None
    settings: Mapping[str, str | int]
    server_properties: str | os.PathLike[str] | None
    alone: bool


def parameters_of(  # noqa: PLR0913  # one parameter per key
    *,
    as_of: datetime | str | int | None = None,
    topic: str | Iterable[str] | None = None,
    partition: int | str | Iterable[int | str] | None = None,
    settings: Mapping[str, str | int] | None = None,
    server_properties: str | os.PathLike[str] | None = None,
    alone: bool = False,
) -> dict[str, Any]:
    """Return the parameters of an investigation that an :class:`Evaluation` decides.

    Raises:
        UsageError: there is no such setting, Kafka would not accept a value, the file cannot be read, or the time of
            evaluation or the number of a partition is none.
    """
    from kforensics.analyses.values import flag, path_name  # commands have their own parser

    path = None if server_properties is None else path_name(server_properties, "server_properties")
    if not isinstance(settings, Mapping | None):
        raise UsageError(f"settings={settings!r} has no names; give a dict, as in {EXAMPLE_OF_CALLER}")
    given = ((name, str(value)) for name, value in (settings or {}).items())
    topics, numbers = selection_of(topic, partition)
    of_caller = tuple(validated(name, value, GIVEN_BY_CALLER, f"settings[{name!r}]") for name, value in given)
    return {
        "as_of_ms": as_of_ms(as_of),
        "topics": topics,
        "numbers": numbers,
        "settings": (*of_caller, *given_settings((), path)),
        "alone": flag(alone, "alone"),
    }


def _assigned(assignment: str) -> Setting:
    name, equals, value = assignment.partition("=")
    if not (name and equals):
        raise UsageError(f"{GIVEN} {assignment!r} is not a setting; write NAME=VALUE, as in {EXAMPLE}")
    return validated(name.strip(), value.strip(), GIVEN, f"{GIVEN} {assignment}")


def _of_file(path: str) -> list[Setting]:
    """Return the settings in a file of properties that checks use."""
    try:
        with open_source(path) as source:
            rows = list(read_properties(source))
    except InputError as error:
        raise UsageError(f"--server-properties: {error}") from error
    if faults := [row for row in rows if isinstance(row, Damage)]:
        raise UsageError(f"--server-properties {path} is not a file of properties: {faults[0].detail}")
    values = {row.name: row.value for row in rows if isinstance(row, Property)}  # the last one counts, as in Java
    names = sorted(filter(is_of_broker, values), key=[*BROKER_NAMES, *KNOWN].index)  # log.retention.ms before .hours
    settings = (validated(name, values[name], path, f"--server-properties {path}: {name}") for name in names)
    return [replace(setting, is_static=True) for setting in settings]


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class KnownSettings:
    """The settings that a user gives, and those that files show. The files are read when a limit is first needed.

    Attributes:
        base: the time of evaluation.
        given: the settings that the user gives, those that count first.
        partitions: returns the partitions that may show settings.
    """

    base: Rules
    given: tuple[Setting, ...]
    partitions: Callable[[], Iterable[Partition]]

    @cached_property
    def rules(self) -> Rules:
        """The limits and the time of evaluation."""
        return rules_for(self.base, self.given, list(self.partitions()))


def settings_in_force(investigation: Investigation, topics: Sequence[str] = ()) -> Rows:
    """Return the settings that count in the log directories of an investigation, as rows of the table ``settings``.

    Args:
        investigation: all partitions under the paths.
        topics: only the settings of these topics, besides those of brokers; all if it is empty.
    """
    from kforensics.forensics.audit.setting_rows import rows_in_force  # slow to import

    log_dirs = {partition.place.log_dir for partition in investigation.partitions}
    return rows_in_force(investigation.known_rules, log_dirs, lambda topic: is_selected(topic, topics))


def with_given(rules: Rules, given: Sequence[Setting]) -> Rules:
    """Return the limits that follow from the settings that a user gives."""
    given = sorted(given, key=attrgetter("is_static"))
    of_topics = tuple(setting for setting in given if setting.is_of_topics)
    return replace(rules, settings=tuple(one for one in given if not one.is_of_topics), topic_settings=of_topics)


def rules_for(rules: Rules, given: Sequence[Setting], partitions: Sequence[Partition]) -> Rules:
    """Return the limits that follow from the settings that a user gives and from what the partitions show.

    Args:
        rules: the time of evaluation.
        given: the settings that the user gives, those that count first.
        partitions: the partitions, those of the metadata and of the coordinators included.
    """
    candidates = [one for one in partitions if may_show_settings(one)]
    if not candidates and all(one.cleaned_to is None for one in partitions):
        return with_given(rules, given)
    return _rules_of(rules, given, partitions, candidates)


def with_remote_logs(rules: Rules, given: Sequence[Setting], partitions: Sequence[Partition]) -> Rules:
    """Return rules with what the metadata of remote storage shows, which every question on a log needs.

    Args:
        rules: the time of evaluation.
        given: the settings that the user gives, those that count first.
        partitions: the partitions, those of the metadata of remote storage included.
    """
    metadata = [one for one in partitions if one.place.topic == REMOTE_LOG_METADATA and one.has_log]
    return replace(rules, remote_logs=_rules_of(rules, given, partitions, metadata).remote_logs) if metadata else rules


def _rules_of(
    rules: Rules, given: Sequence[Setting], partitions: Sequence[Partition], candidates: Sequence[Partition]
) -> Rules:
    """Return the rules that follow from the evidence of the candidates, which are among the partitions."""
    from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership  # slow to import
    from kforensics.forensics.audit.setting_evidence import rules_by_evidence, setting_evidence

    evidence = (setting_evidence(partition, rules.as_of_ms) for partition in watched(candidates))
    members = [PartitionMembership.of(partition) for partition in partitions]
    clusters = Clusters.of_members(members)
    return rules_by_evidence(rules, given, (one for one in evidence if one is not None), members, clusters)
