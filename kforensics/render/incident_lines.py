"""Incidents as lines of text: each what, where, impact and who, and the commands that check and repair it."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kforensics.forensics.audit.incident_text import is_check
from kforensics.forensics.core.commands import for_brokers
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.screen import BACKQUOTED, COMMAND, UNBREAKABLE, Line, Screen

__all__ = ["IncidentView", "incident_lines"]

# The width where no terminal has one, and the command that made the report unless another did.
DEFAULT_WIDTH, DEFAULT_COMMAND = 100, (("audit",),)
MAX_INCIDENTS, MAX_FINDINGS = 20, 20
WHAT_LINES = 2
INDENT = "  "
LABEL_WIDTH = 8


@dataclass(frozen=True, slots=True)
class IncidentView:
    """How incidents are shown.

    Attributes:
        screen: where they are shown; if it shows all, so are all incidents and the names of partitions without any
            finding.
        has_findings: whether to show the first findings of each incident, and its whole remedy.
        all_findings: the line with the command that shows all findings, None for this command with another format.
    """

    screen: Screen = field(default_factory=lambda: Screen(command=DEFAULT_COMMAND))
    has_findings: bool = False
    all_findings: Line | None = None

    @property
    def width(self) -> int:
        """Columns that a line may have; only a command or a single word may be longer."""
        return sys.maxsize if self.screen.is_wide else self.screen.width or DEFAULT_WIDTH

    @property
    def what_lines(self) -> int:
        """Lines that say what happened: a narrow terminal needs one more for the same words."""
        return WHAT_LINES + (self.width < DEFAULT_WIDTH)


def incident_lines(
    rows: Sequence[Mapping[str, Any]], view: IncidentView, bootstrap_server: str | None
) -> Iterator[str]:
    """Yield the lines of incidents: at most eight for each, unless the view has findings.

    Args:
        rows: rows of the table ``incidents``, worst first.
        view: how to show them.
        bootstrap_server: addresses of brokers for commands, None if they are unknown.
    """
    shown = rows[: view.screen.shown(MAX_INCIDENTS)]
    is_cut = False
    for row in shown:
        yield ""
        for line in _incident(row, view, for_brokers(row["remedy"] or "", bootstrap_server)):
            is_cut |= line.endswith("…")
            yield line
    if is_cut and not view.has_findings:
        yield ""
        yield "Lines that end in … in full, with the findings:"
        yield from view.screen.rest("--verbose")
    if more := len(rows) - len(shown):
        yield ""
        yield f"… and {format_count(more, 'more incident')}:"
        yield from view.screen.rest("--all")


def _incident(row: Mapping[str, Any], view: IncidentView, remedy: str) -> Iterator[str]:
    since = "" if row["since"] is None else view.screen.in_zone(f", since {format_time(row['since'])}")
    headline = f"{row['severity'].upper():<{LABEL_WIDTH}} {row['kind']} {row['incident']}"
    yield Line(headline + since if len(headline + since) <= view.width else headline, row["severity"])
    yield from _wrapped(printable(row["what"]), view, None if view.has_findings else view.what_lines)
    counts = f"{format_count(row['partition_count'], 'partition')}{_brokers(row)}"
    where = f"{counts}, {format_count(row['findings'], 'finding')}: {row['partitions']}"
    labeled = {"where": where, "impact": row["impact"] or "", "who": ", ".join(_who(row))}
    for label, text in labeled.items():
        if text and view.has_findings:
            yield from _wrapped(printable(f"{label:<{LABEL_WIDTH}}{text}"), view, hang=LABEL_WIDTH)
        elif text:
            yield _cut(label, text, view)
    yield from _remedy(printable(remedy), view)
    if view.has_findings:
        yield from _findings(row, view)


def _brokers(row: Mapping[str, Any]) -> str:
    brokers = json.loads(row["brokers"] or "[]")
    if not brokers:
        return ""
    return f", {'broker' if len(brokers) == 1 else 'brokers'} {', '.join(map(str, brokers))}"


def _who(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield who is involved: transactional ids and producers, the first ones of each."""
    ids, producers = json.loads(row["transactional_ids"] or "[]"), json.loads(row["producer_ids"] or "[]")
    if ids:
        yield f"{'transactional id' if len(ids) == 1 else 'transactional ids'} {', '.join(map(repr, ids))}"
    if producers:
        yield f"{'producer' if len(producers) == 1 else 'producers'} {', '.join(map(str, producers))}"


def _remedy(remedy: str, view: IncidentView) -> Iterator[str]:
    """Yield the first command that checks and the first one that repairs, each on its own line and never broken."""
    if view.has_findings and remedy:
        yield from _wrapped(remedy, view)
    commands = BACKQUOTED.findall(remedy)
    if check := next(filter(is_check, commands), None):
        yield Line(f"{INDENT}{'check':<{LABEL_WIDTH}}{COMMAND}{check}", "command")
    if repair := next((command for command in commands if not is_check(command)), None):
        yield Line(f"{INDENT}{'do':<{LABEL_WIDTH}}{COMMAND}{repair}", "command")
    elif not view.has_findings and (sentences := _without_check(remedy)):
        yield from _wrapped(f"{'do':<{LABEL_WIDTH}}{sentences}", view, view.what_lines - 1, LABEL_WIDTH)


def _without_check(remedy: str) -> str:
    """Return the sentences of a remedy after those with its commands."""
    last = [match.end() for match in BACKQUOTED.finditer(remedy)]
    return remedy[last[-1] :].lstrip(".,; ") if last else remedy


def _findings(row: Mapping[str, Any], view: IncidentView) -> Iterator[str]:
    """Yield the first findings of an incident, and the command that shows all of them."""
    evidence = json.loads(row["evidence"])
    for finding in evidence[:MAX_FINDINGS]:
        place = "" if finding["topic"] is None else f" in {finding['topic']}-{finding['partition']}"
        broker = "" if finding["broker_id"] is None else f" on broker {finding['broker_id']}"
        text = f"{finding['severity']} {finding['code']}{place}{broker}: {finding['message']}"
        yield from _wrapped(printable(f"- {text}"), view)
    if more := row["findings"] - len(evidence[:MAX_FINDINGS]):
        yield f"{INDENT}… and {format_count(more, 'more finding')}, all in the table findings:"
        yield from view.screen.rest("--format", "ndjson") if view.all_findings is None else [view.all_findings]


def _cut(label: str, text: str, view: IncidentView) -> str:
    """Return one line with a label; what does not fit is left out, at a word."""
    room = max(view.width - len(INDENT) - LABEL_WIDTH, 1)
    return f"{INDENT}{label:<{LABEL_WIDTH}}{_shortened(view.screen.in_zone(printable(text)), room)}"


def _shortened(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    words: list[str] = []
    length = 0
    for word in text.split(" "):
        length += len(word) + 1
        if length > room - 1 and words:
            break
        words.append(word)
    return f"{' '.join(words)} …"


def _wrapped(text: str, view: IncidentView, most: int | None = None, hang: int = 0) -> Iterator[str]:
    """Yield the lines of a paragraph, wrapped between words and never inside a command; the first ones of many.

    Args:
        text: the paragraph.
        view: how it is shown.
        most: how many lines to show, None for all.
        hang: characters by which the lines after the first one are indented, below the text after a label.
    """
    room = max(view.width - len(INDENT), 1)
    unbreakable = BACKQUOTED.sub(lambda match: match[0].replace(" ", "\xa0"), view.screen.in_zone(text))
    unbreakable = UNBREAKABLE.sub("\xa0", unbreakable)
    lines = textwrap.wrap(
        unbreakable, room, break_long_words=False, break_on_hyphens=False, subsequent_indent=" " * hang
    )
    if most is not None and len(lines) > most:
        lines[most - 1] = f"{_shortened(lines[most - 1], room - 2).removesuffix(' …')} …"
        del lines[most:]
    yield from (f"{INDENT}{line}".replace("\xa0", " ") for line in lines)
