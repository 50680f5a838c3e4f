"""Incidents as lines of text: each what, where, impact and who, and the commands that check and repair it."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kforensics.forensics.audit.incident_text import is_check, since_when
from kforensics.forensics.core.commands import for_brokers
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.screen import BACKQUOTED, COMMAND, Line, Screen, advice_pieces, cells, unbroken

__all__ = ["IncidentView", "incident_lines"]

# The width where no terminal has one, and the command that made the report unless another did.
DEFAULT_WIDTH, DEFAULT_COMMAND = 100, (("audit",),)
MAX_INCIDENTS, MAX_FINDINGS = 20, 20
WHAT_LINES = 2
# Lines of an incident on a terminal of the default width, where a long command takes several.
MAX_LINES = 8
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

    @property
    def most_lines(self) -> int:
        """Lines of an incident: a narrow terminal needs more for the same words."""
        return max(MAX_LINES, math.ceil(MAX_LINES * DEFAULT_WIDTH / self.width))

    def height(self, lines: Iterable[str]) -> int:
        """Return how many lines of the terminal some lines take, which it breaks itself if they are commands."""
        return sum(max(1, math.ceil(cells(line) / self.width)) for line in lines)


def incident_lines(
    rows: Sequence[Mapping[str, Any]], view: IncidentView, bootstrap_server: str | None
) -> Iterator[str]:
    """Yield the lines of incidents: each takes at most eight of a terminal, unless the view has findings.

    Args:
        rows: rows of the table ``incidents``, worst first.
        view: how to show them.
        bootstrap_server: addresses of brokers for commands, None if they are unknown.
    """
    shown = rows[: view.screen.shown(MAX_INCIDENTS)]
    is_cut, folders = False, _ambiguous(rows)
    for row in shown:
        yield ""
        folder = folders.get(row["incident"])
        for line in _incident(row, view, for_brokers(row["remedy"] or "", bootstrap_server), folder):
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


def _ambiguous(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the folder of each incident that has the names of another one, but other log directories of its brokers.

    They are of two clusters, or of two copies of one.
    """
    alike = defaultdict[tuple[str, ...], list[Mapping[str, Any]]](list)
    for row in rows:
        alike[row["kind"], row["partitions"] or "", row["brokers"] or ""].append(row)
    folders: dict[str, str] = {}
    for same in (same for same in alike.values() if len(same) > 1):
        places = {row["incident"]: dict(_log_dirs(row)) for row in same}
        by_broker = defaultdict[int | None, set[str]](set)
        for of_incident in places.values():
            for broker, log_dir in of_incident.items():
                by_broker[broker].add(log_dir)
        if any(len(log_dirs) > 1 for log_dirs in by_broker.values()):
            folders |= {name: next(iter(of_incident.values())) for name, of_incident in places.items() if of_incident}
    return folders


def _log_dirs(row: Mapping[str, Any]) -> Iterator[tuple[int | None, str]]:
    """Yield brokers and log directories of the first findings of an incident."""
    for finding in json.loads(row["evidence"] or "[]"):
        if finding.get("log_dir"):
            yield finding.get("broker_id"), finding["log_dir"]


def _incident(row: Mapping[str, Any], view: IncidentView, remedy: str, folder: str | None) -> Iterator[str]:
    since = view.screen.in_zone(since_when(row))
    headline = f"{row['severity'].upper():<{LABEL_WIDTH}} {row['kind']} {row['incident']}"
    yield Line(headline + since if len(headline + since) <= view.width else headline, row["severity"])
    what, labeled = printable(row["what"]), _labeled(row, folder)
    if not view.has_findings:
        yield from _fitted(row, what, labeled, [*_remedy(printable(remedy), view)], view)
        return
    yield from _wrapped(what, view)
    for label, text in labeled.items():
        yield from _wrapped(printable(f"{label:<{LABEL_WIDTH}}{text}"), view, hang=LABEL_WIDTH)
    yield from _whole_remedy(printable(remedy), view)
    yield from _findings(row, view)


def _labeled(row: Mapping[str, Any], folder: str | None) -> dict[str, str]:
    """Return where an incident is, its impact and who is involved, as far as they are known."""
    where = f"{_counts(row)}: {row['partitions']}"
    labeled = {"in": folder or "", "where": where, "impact": row["impact"] or "", "who": ", ".join(_who(row))}
    return {label: text for label, text in labeled.items() if text}


def _counts(row: Mapping[str, Any]) -> str:
    partitions, findings = row["partition_count"], row["findings"]
    return f"{format_count(findings, 'finding')} in {format_count(partitions, 'partition')}{_brokers(row)}"


def _fitted(
    row: Mapping[str, Any], what: str, labeled: dict[str, str], commands: list[str], view: IncidentView
) -> Iterator[str]:
    """Yield the lines after the first one, shortened as far as needed so that all fit.

    Args:
        row: the incident.
        what: what happened.
        labeled: text by its label.
        commands: lines of the remedy.
        view: how to show the lines.
    """
    while view.height(commands) > view.most_lines - WHAT_LINES - 1:
        longest = max(range(len(commands)), key=lambda index: cells(commands[index]))
        commands[longest] = f"{commands[longest].partition(COMMAND)[0]}…"
    room = view.most_lines - 1 - view.height(commands)
    lines = [*_wrapped(what, view, view.what_lines)]
    if len(lines) + len(labeled) > room:
        # The first line of the incident has the time, and the sentence those who are involved.
        what = what if row["since"] is None else what.replace(f", open since {format_time(row['since'])},", "")
        if all(name in what for name in _names(row)):
            labeled.pop("who", None)
        if len(labeled) >= room:
            parts = (labeled.get("in"), _counts(row), labeled.get("impact"), labeled.get("who"), row["partitions"])
            labeled = {"where": "; ".join(part.rstrip(".") for part in parts if part)}
        lines = [*_wrapped(what, view, min(view.what_lines, room - len(labeled)))]
    yield from lines
    yield from (_cut(label, text, view) for label, text in labeled.items())
    yield from commands


def _brokers(row: Mapping[str, Any]) -> str:
    brokers = [str(broker) for broker in json.loads(row["brokers"] or "[]")]
    if len(brokers) < 2:
        return "".join(f" on broker {broker}" for broker in brokers)
    return f" on brokers {', '.join(brokers[:-1])} and {brokers[-1]}"


def _who(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield who is involved: transactional ids and producers, the first ones of each."""
    ids, producers = json.loads(row["transactional_ids"] or "[]"), json.loads(row["producer_ids"] or "[]")
    if ids:
        yield f"{'transactional id' if len(ids) == 1 else 'transactional ids'} {', '.join(map(repr, ids))}"
    if producers:
        yield f"{'producer' if len(producers) == 1 else 'producers'} {', '.join(map(str, producers))}"


def _names(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of those who are involved, as sentences have them."""
    yield from (printable(repr(name)) for name in json.loads(row["transactional_ids"] or "[]"))
    yield from (f"producer {producer}" for producer in json.loads(row["producer_ids"] or "[]"))


def _remedy(remedy: str, view: IncidentView) -> Iterator[str]:
    """Yield the first command that checks and the first one that repairs, each on its own line and never broken."""
    commands = BACKQUOTED.findall(remedy)
    if check := next(filter(is_check, commands), None):
        yield Line(f"{INDENT}{'check':<{LABEL_WIDTH}}{COMMAND}{check}", "command")
    if repair := next((command for command in commands if not is_check(command)), None):
        yield Line(f"{INDENT}{'do':<{LABEL_WIDTH}}{COMMAND}{repair}", "command")
    elif sentences := _without_check(remedy):
        yield from _wrapped(f"{'do':<{LABEL_WIDTH}}{sentences}", view, view.what_lines - 1, LABEL_WIDTH)


def _whole_remedy(remedy: str, view: IncidentView) -> Iterator[str]:
    """Yield all sentences of a remedy, and each of its commands on its own line and never broken."""
    label, shown = "", ""
    pieces = [*advice_pieces(remedy)]
    for index, (text, is_command) in enumerate(pieces):
        following = text if is_command else next((text for text, is_next in pieces[index:] if is_next), "")
        label = "check" if following and is_check(following) else "do"
        start = f"{'' if label == shown else label:<{LABEL_WIDTH}}"
        shown = label
        if is_command:
            yield Line(f"{INDENT}{start}{COMMAND}{text}", "command")
        else:
            yield from _wrapped(f"{start}{text}", view, hang=LABEL_WIDTH)


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
        yield from _wrapped(printable(f"- {text}"), view, hang=len(INDENT))
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
    lines = textwrap.wrap(
        unbroken(view.screen.in_zone(text)),
        room,
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=" " * hang,
    )
    if most is not None and len(lines) > most:
        lines[most - 1] = f"{_shortened(lines[most - 1], room - 2).removesuffix(' …')} …"
        del lines[most:]
    yield from (f"{INDENT}{line}".replace("\xa0", " ") for line in lines)
