"""What the commands on partitions share: their options, and what decides their exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, TypeVar

from kforensics.analyses.partitions import Investigation, investigate
from kforensics.analyses.settings import given_settings
from kforensics.analyses.times import time_ms
from kforensics.analyses.topics import check_topics
from kforensics.cli.command import CLEAN, FINDINGS, UNREADABLE, SharedOptions, notify
from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.settings import Setting
from kforensics.render.formats import Format
from kforensics.render.output import check_output
from kforensics.render.screen import Screen

T = TypeVar("T")
NEVER = "never"
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
class CommonOptions(SharedOptions):
    """The options of a command on partitions, and what they mean."""

    def given_settings(self) -> tuple[Setting, ...]:
        """Return the settings that the user gives, those that count first.

        Raises:
            UsageError: there is no such setting, Kafka would not accept a value, or the file cannot be read.
        """
        return given_settings(tuple(self.settings or ()), self.server_properties)

    def format(self) -> Format:
        """Return the output format.

        Raises:
            UsageError: there is no such format, or a terminal cannot show it.
        """
        output_format = format_of(self.output_format)
        if output_format in BINARY and self.output is None and sys.stdout.isatty():
            raise UsageError(f"{output_format} is not for a terminal; name a file with --output")
        return output_format

    def screen(self) -> Screen:
        """Return where text is shown.

        Raises:
            UsageError: there is no such choice of colours.
        """
        screen = Screen.of(is_file=self.output is not None, color=self.color)
        return replace(screen, shows_all=self.show_all, is_wide=self.wide, command=tuple(sys.argv[1:]))

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
        as_of_ms = None if self.as_of is None else time_ms(self.as_of, "--as-of")
        topics = () if all_topics else tuple(self.topic or ())
        notes: list[str] = []
        settings = self.given_settings()
        found = investigate(paths, as_of_ms, notify, notes.append, topics=topics, alone=self.alone, settings=settings)
        if all_topics and not found.unreadable:
            check_topics(self.topic or (), [partition.place.topic for partition in found.partitions])
        for sentence in () if self.quiet else notes:
            notify(sentence)
        return found


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
        notify(f"{error}; the other partitions are analyzed anyway")
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


def severity_of(name: str) -> Severity | None:
    """Return the severity of a name, None for ``never``.

    Raises:
        UsageError: there is no such severity.
    """
    if name.lower() == NEVER:
        return None
    try:
        return Severity[name.upper()]
    except KeyError:
        raise UsageError(f"--fail-on {name!r} is not one of {', '.join(map(str, Severity))}, {NEVER}") from None
