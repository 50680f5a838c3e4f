"""What the options of a command on partitions mean, and how its exit code is determined."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import chain
from typing import Protocol, TypeVar

from kforensics.analyses.partitions import Investigation, investigate
from kforensics.analyses.settings import given_settings
from kforensics.analyses.times import Since, as_of_text_ms, since_time, time_zone
from kforensics.analyses.topics import check_topics, partition_numbers, similar
from kforensics.cli.command import SharedOptions
from kforensics.cli.messages import CLEAN, FINDINGS, UNREADABLE, notify, notify_unreadable
from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Finding, FindingSelection, Severity
from kforensics.forensics.core.formatting import format_count, format_size, format_time
from kforensics.forensics.core.rules import Rules
from kforensics.render.formats import Format
from kforensics.render.output import check_output
from kforensics.render.screen import CommandWords, Screen
from kforensics.render.streams import progress_meter

T = TypeVar("T")
NEVER = "never"
# The options that select what is shown, and what they select, by field.
OPTION_OF = {"min_severity": "--severity", "codes": "--code", "since": "--since", "partitions": "--partition"}
SELECTS = {
    "min_severity": "findings",
    "codes": "findings",
    "since": "what has a time of its own",
    "partitions": "partitions",
}
# Brokers as in bootstrap.servers; an IPv6 address is in brackets.
BROKERS = re.compile(
    r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}(?:,(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5})*"
)
# Formats that a terminal cannot show.
BINARY = (Format.PARQUET, Format.ARROW)


class HasFindings(Protocol):
    """A result with findings."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions(SharedOptions):
    """The options of a command on partitions, and what they mean.

    Attributes:
        repeated: the command with its options, for the commands that show the rest.
    """

    repeated: CommandWords = ()

    def given_settings(self) -> tuple[Setting, ...]:
        """Return the settings that the user gives, those that count first.

        Raises:
            UsageError: there is no such setting, Kafka would not accept a value, or the file cannot be read.
        """
        assignments = tuple(self.settings or ())
        if self.config is None or self.no_config:
            return given_settings(assignments, self.server_properties)
        from kforensics.cli.config_file import settings_of  # the command has loaded it, because there is a file

        return settings_of(self.config, assignments, self.server_properties)

    def format(self) -> Format:
        """Return the output format.

        Raises:
            UsageError: there is no such format, or a terminal cannot show it.
        """
        output_format = format_of(self.output_format)
        if output_format in BINARY and self.output is None and sys.stdout.isatty():
            raise UsageError(f"{output_format} is not for a terminal; name a file with --output")
        return output_format

    def zone(self) -> tzinfo | None:
        """Return the time zone of times, None for UTC.

        Raises:
            UsageError: there is no such zone.
        """
        return None if self.tz is None else time_zone(self.tz)

    def as_of_ms(self) -> int | None:
        """Return the time of evaluation, None for that of the newest file.

        Raises:
            UsageError: it is no time.
        """
        return None if self.as_of is None else as_of_text_ms(self.as_of, "--as-of", self.zone() or UTC)

    def since_time(self) -> Since | None:
        """Return since when something must have happened to be shown, None for any time.

        Raises:
            UsageError: it is neither a duration nor a time.
        """
        return None if self.since is None else since_time(self.since, self.zone() or UTC)

    def numbers(self) -> tuple[range, ...]:
        """Return the ranges of the numbers of partitions, none for all.

        Raises:
            UsageError: one is neither a number nor a range.
        """
        return tuple(map(partition_numbers, self.partitions or ()))

    def selected_findings(self) -> FindingSelection:
        """Return which findings to show.

        Raises:
            UsageError: there is no such severity or code.
        """
        if self.min_severity is None and not self.codes:
            return FindingSelection()
        minimum = severity_of(self.min_severity or str(Severity.INFO), "--severity") or Severity.INFO
        return FindingSelection(minimum, frozenset(map(_known_code, self.codes or ())))

    def selection(self) -> str:
        """Return the options by which findings are selected, nothing if all are shown."""
        selected = self.selected_findings()
        given = [] if selected.minimum in (None, Severity.INFO) else [f"--severity {selected.minimum}"]
        since = [] if self.since is None else [f"--since {self.since}"]
        return " ".join([*given, *(f"--code {code}" for code in sorted(selected.codes)), *since])

    def refuse(self, command: str, *names: str) -> None:
        """Refuse options that a command has no use for.

        Args:
            command: what the command shows, as a phrase.
            names: the options by the names of their fields.

        Raises:
            UsageError: one of them is given.
        """
        for name in names:
            if getattr(self, name):
                raise UsageError(f"{OPTION_OF[name]} selects {SELECTS[name]}, and {command}; leave it out")

    def screen(self) -> Screen:
        """Return where text is shown.

        Raises:
            UsageError: there is no such choice of colors.
        """
        screen = Screen.of(is_file=self.output is not None, color=self.color)
        return replace(screen, zone=self.zone(), shows_all=self.show_all, is_wide=self.wide, command=self.repeated)

    def brokers(self) -> str | None:
        """Return the addresses of brokers for the commands in remedies, None if they are unknown.

        Raises:
            UsageError: they are not of the form HOST:PORT.
        """
        return brokers_of(self.bootstrap_server)

    def severity(self) -> Severity | None:
        """Return the severity at which the exit code is 1, None for never.

        Raises:
            UsageError: there is no such severity.
        """
        return severity_of(self.fail_on)

    def investigation(self, *, all_topics: bool = False) -> Investigation:
        """Return the partitions under the paths.

        Args:
            all_topics: include the partitions of all topics, because other topics have evidence too.

        Raises:
            UsageError: there is no path, no log or no such topic, a setting is invalid, or the output would be
                among the input files.
        """
        paths = tuple(self.paths or ())
        if not paths:
            raise UsageError("there is no input; name partition folders or log directories, as in /var/lib/kafka/data")
        check_output(self.output, paths)
        topics = () if all_topics else tuple(self.topic or ())
        notes: list[str] = []
        settings = self.given_settings()
        with self.stage("files found"):
            investigation = investigate(
                paths,
                self.as_of_ms(),
                notify_unreadable,
                notes.append,
                topics=topics,
                numbers=() if all_topics else self.numbers(),
                alone=self.alone,
                settings=settings,
            )
        if all_topics and not investigation.unreadable:
            check_topics(self.topic or (), [partition.place.topic for partition in investigation.partitions])
        for sentence in () if self.quiet else notes:
            notify(sentence)
        if self.verbose:
            for sentence in _evidence(investigation, settings):
                notify(sentence)
        return investigation

    @contextmanager
    def watched(self, investigation: Investigation) -> Iterator[Investigation]:
        """Yield an investigation whose progress is shown, unless the user or a pipe does not want that."""
        with progress_meter(0, show=self.shows_progress, what=self.command_name) as meter:
            yield investigation if meter is None else replace(investigation, progress=meter)

    @property
    def shows_progress(self) -> bool | None:
        """Whether progress is shown; None for only on a terminal."""
        return False if self.quiet else self.progress

    @property
    def command_name(self) -> str:
        """The name of the command."""
        return self.repeated[0][0] if self.repeated else ""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report how long a block takes, if the user wants to know; ``-vv`` does."""
        start = time.perf_counter()
        yield
        self.report_time(name, time.perf_counter() - start)

    def report_evidence(self, what: str) -> None:
        """Report what is used as evidence, if the user wants to know; ``-v`` does."""
        if self.verbose:
            notify(f"evidence: {what}")

    def report_time(self, name: str, seconds: float) -> None:
        """Report how long a stage took, if the user wants to know."""
        if self.verbose > 1:
            notify(f"{name}: {seconds:.2f} s")


@dataclass(slots=True)
class ExitStatus:
    """What decides the exit code.

    Attributes:
        unreadable: how many inputs cannot be read.
        worst: the worst severity of the findings.
    """

    unreadable: int = 0
    worst: Severity | None = None

    def add_unreadable(self, error: InputError | str) -> None:
        """Count and report a partition that cannot be read. It is reported always, because its rows are missing."""
        self.add_unlisted(f"{error}; the other partitions are analyzed anyway")

    def add_unlisted(self, sentence: str) -> None:
        """Count and report a path whose files cannot be listed."""
        notify_unreadable(sentence)
        self.unreadable += 1

    def add(self, severities: Iterable[Severity]) -> None:
        """Take the severities of findings into account."""
        self.worst = max(chain(severities, [] if self.worst is None else [self.worst]), default=None)

    def watch(self, results: Iterable[T], severities: Callable[[T], Iterable[Severity]]) -> Iterator[T]:
        """Yield results, and take their findings into account.

        Args:
            results: the results.
            severities: returns the severities of the findings of a result.
        """
        for result in results:
            self.add(severities(result))
            yield result

    def code(self, fail_on: Severity | None) -> int:
        """Return the exit code.

        Args:
            fail_on: the severity at which it is 1, None for never.
        """
        if self.unreadable:
            return UNREADABLE
        failed = fail_on is not None and self.worst is not None and self.worst >= fail_on
        return FINDINGS if failed else CLEAN


def severities_of(result: HasFindings) -> Iterator[Severity]:
    """Yield the severities of the findings of a result."""
    return (finding.severity for finding in result.findings)


def format_of(name: str) -> Format:
    """Return the output format of a name.

    Raises:
        UsageError: there is no such format.
    """
    try:
        return Format(name.lower())
    except ValueError:
        raise UsageError(f"--format {name!r} is not one of {', '.join(Format)}") from None


def brokers_of(given: str | None) -> str | None:
    """Return the addresses of brokers, by default those in ``KFORENSICS_BOOTSTRAP``; None if they are unknown.

    Raises:
        UsageError: they are not of the form HOST:PORT.
    """
    brokers = given or os.environ.get("KFORENSICS_BOOTSTRAP") or None
    if brokers is not None and not BROKERS.fullmatch(brokers):
        where = "--bootstrap-server" if given else "KFORENSICS_BOOTSTRAP"
        raise UsageError(f"{where} {brokers!r} is not an address; write HOST:PORT, several separated by commas")
    return brokers


def _evidence(found: Investigation, settings: Sequence[Setting]) -> Iterator[str]:
    """Yield what is used as evidence: files, partitions, coordinators' logs, settings and the clock."""
    size = sum(file.size or 0 for file in found.files)
    files, partitions = format_count(len(found.files), "file"), format_count(len(found.partitions), "partition")
    yield f"evidence: {files}, {format_size(size)}, under the paths; {partitions} to analyze"
    logs = sorted(partition.folder for partition in found.neighbors)
    yield f"logs of coordinators and of the metadata beside them: {', '.join(logs) or 'none'}"
    yield settings_sentence(settings)
    yield clock_sentence(found.rules)


def settings_sentence(settings: Sequence[Setting]) -> str:
    """Return which settings the user has given."""
    given = ", ".join(dict.fromkeys(setting.name for setting in settings))
    return f"settings given: {given or 'none; others follow from the files, or are the defaults of Kafka'}"


def clock_sentence(rules: Rules) -> str:
    """Return the time of evaluation, and where it comes from."""
    clock = "assumed from the newest file" if rules.is_assumed else "given"
    return f"time of evaluation: {format_time(rules.as_of_ms)}, {clock}"


def _known_code(name: str) -> str:
    from kforensics.forensics.checks.all_checks import ALL_CHECKS  # only a selection needs all checks

    known = {code for check in ALL_CHECKS for code in check.codes}
    if name not in known:
        raise UsageError(f"no code {name!r}; {similar(name, known) or 'docs/findings.md lists all codes'}")
    return name


def severity_of(name: str, option: str = "--fail-on") -> Severity | None:
    """Return the severity of a name, None for ``never``.

    Args:
        name: the name.
        option: the option that it is the value of.

    Raises:
        UsageError: there is no such severity.
    """
    if name.lower() == NEVER:
        return None
    try:
        return Severity[name.upper()]
    except KeyError:
        raise UsageError(f"{option} {name!r} is not one of {', '.join(map(str, Severity))}, {NEVER}") from None
