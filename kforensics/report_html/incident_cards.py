"""Renders the card of an incident; its findings are in it, with evidence and remedies of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kforensics.forensics.audit.incident_kinds import KINDS
from kforensics.forensics.audit.incident_text import is_check, since_when
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.markup import Markup, description_list, element
from kforensics.report_html.incident_rows import StoredIncident
from kforensics.report_html.page_rows import MAX_VALUE_CHARACTERS, topic_partition

# Characters shown of a long text, and evidence values shown of one finding.
MAX_LONG_CHARACTERS, MAX_EVIDENCE = 4000, 20
# Partitions of an incident that a card names without a click.
MAX_PARTITIONS_INLINE = 3
MEANINGS = {kind.name: kind.meaning for kind in KINDS}
INVOLVED = (
    ("transactional id", "transactional_ids"),
    ("producer", "producer_ids"),
    ("group", "groups"),
    ("broker", "brokers"),
)
INFO = str(Severity.INFO)
# A plain word, a shell variable, or printable ASCII in single quotes, in which a shell interprets nothing.
ESCAPED = r"(?:[ !#-&(-[\]-_a-z|~]|\\x[0-9a-f]{2})*"
QUOTED = rf"""(?:"\$[A-Z_]+"|'[ !#-&(-_a-z|~]*'|\$'{ESCAPED}')"""
WORD = rf"(?:[A-Za-z0-9_@%+=:,./-]+|(?:--[A-Za-z-]+=)?{QUOTED})"
COMMAND = re.compile(rf"(?:kafka-[a-z-]+\.sh|kforensics)(?: {WORD})+")
# Topic.LEGAL_CHARS. A folder may have any name, which a shell could interpret.
LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def incident_card(incident: StoredIncident, *, is_open: bool, has_findings: bool) -> Markup:
    """Return the card of an incident: what happened, to whom, where, what to do, and its first findings, folded.

    Args:
        incident: the incident.
        is_open: whether the card is open at first.
        has_findings: whether it has the findings; the table of findings has them all.
    """
    row = incident.row
    meaning = MEANINGS.get(row["kind"], row["kind"])
    title = element("h3", f"{meaning[:1].upper()}{meaning[1:]}", id=f"incident-{incident.name}-title")
    badge = element("span", row["severity"], class_=f"badge {row['severity']}")
    where = format_count(row["partition_count"], "partition")
    if row["partition_count"] <= MAX_PARTITIONS_INLINE and row["partitions"]:
        where = short_text(row["partitions"])
    since = since_when(row)
    whose = ", ".join(repr(str(name)) for name in row["transactional_ids"][:MAX_PARTITIONS_INLINE])
    text = f"{short_text(whose)} in {where}{since}" if whose else f"{where}{since}"
    extent = element("span", text, class_="extent")
    head = element("summary", badge, title, extent)
    facts = (element("div", element("dt", term), element("dd", *parts)) for term, *parts in _card_facts(incident))
    findings = _card_findings(incident) if has_findings else ()
    link = element(
        "a", "in the table of findings", href="#findings", class_="show-findings", data_incident=incident.name
    )
    origin = element("code", short_text(f"{row['kind']} {incident.name}"))
    what = element("p", short_text(row["what"], MAX_LONG_CHARACTERS), class_="what")
    story = element("div", what, element("dl", *facts))
    columns = element("div", story, *_remedy(row["remedy"], row["severity"], incident), class_="columns")
    footer = element("p", link, " ", origin, class_="more")
    card = element("details", head, columns, *findings, footer, open="" if is_open else None)
    return element(
        "article",
        card,
        id=f"incident-{incident.name}",
        class_=f"card {row['severity']}",
        aria_labelledby=f"incident-{incident.name}-title",
    )


def _card_facts(incident: StoredIncident) -> Iterator[tuple[str, ...]]:
    """Yield the terms of a card with what describes them."""
    row = incident.row
    if row["impact"]:
        yield "impact", short_text(row["impact"])
    who = [f"{name} {', '.join(map(_name, row[column]))}" for name, column in INVOLVED if row[column]]
    if who:
        yield "who", short_text("; ".join(who), MAX_LONG_CHARACTERS)
    if row["partition_count"] > MAX_PARTITIONS_INLINE:
        count = format_count(row["partition_count"], "partition")
        partitions = element("p", short_text(row["partitions"] or "", MAX_LONG_CHARACTERS))
        yield "where", element("details", element("summary", count), partitions)


def _name(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _card_findings(incident: StoredIncident) -> Iterator[Markup]:
    """Yield the first findings of an incident, folded; a remedy other than that of the incident is with its finding."""
    shown, items = {incident.row["remedy"] or ""}, []
    for row in incident.findings:
        is_new = bool(row["remedy"]) and not any(row["remedy"] in remedy for remedy in shown)
        shown.add(row["remedy"])
        remedy = _remedy(row["remedy"], row["severity"], incident) if is_new else ()
        items.append(_finding(row, remedy))
    count = format_count(incident.row["findings"], "finding")
    more = "" if len(items) == incident.row["findings"] else f", the first {len(items)}"
    yield element("details", element("summary", f"{count}{more}"), element("ul", *items, class_="findings"))


def _finding(row: Mapping[str, Any], remedy: Iterable[Markup]) -> Markup:
    broker = "" if row["broker_id"] is None else f" on broker {row['broker_id']}"
    name = f"{short_text(topic_partition(row) or str(row['log_dir']))}{broker}"
    badge = element("span", row["severity"], class_=f"badge {row['severity']}")
    code = element("a", element("code", row["code"]), href=f"#code-{row['code']}")
    place = element("p", badge, " ", code, " ", element("strong", name), class_="where")
    return element("li", place, element("p", short_text(row["message"], MAX_LONG_CHARACTERS)), *remedy, _evidence(row))


def _remedy(remedy: str | None, severity: str, incident: StoredIncident) -> Iterator[Markup]:
    """Yield a remedy, each command on a line of its own with a button that copies it."""
    if severity == INFO or not remedy:
        return
    topics = (row["topic"] for row in incident.findings)
    unsafe = next((topic for topic in topics if topic is not None and not LEGAL_TOPIC.fullmatch(topic)), None)
    yield element("div", *_remedy_parts(remedy, unsafe), class_="remedy")


def _remedy_parts(remedy: str, topic: str | None) -> Iterator[Markup]:
    """Yield the sentences and commands of a remedy; a command, on its own line, ends the sentence that it is in."""
    after_command = False
    for part, is_command in split_commands(remedy, topic):
        if is_command:
            yield _command(part)
        elif text := (part.lstrip(".,; ") if after_command else part).strip():
            is_sentence = after_command and part[0] in ".,;"
            yield element("p", short_text(f"{text[0].upper()}{text[1:]}" if is_sentence else text, MAX_LONG_CHARACTERS))
        after_command = is_command


def _command(command: str) -> Markup:
    role = element("span", "check" if is_check(command) else "do", class_="role")
    copy = element("button", "copy", type="button", class_="copy", hidden="")
    # Lines break between words, not at the hyphens of an option.
    words = (part for word in command.split(" ") for part in (" ", element("span", word)))
    return element("span", role, element("code", *list(words)[1:]), copy, class_="command")


def split_commands(remedy: str, topic: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a remedy in order, each with whether it is a command to copy.

    >>> list(split_commands("List it with `kafka-topics.sh --list --topic a.b`; then wait.", "a.b"))
    [('List it with ', False), ('kafka-topics.sh --list --topic a.b', True), ('; then wait.', False)]

    Args:
        remedy: text of the remedy, with commands between backquotes.
        topic: topic that the remedy names; with a name that Kafka does not allow, no part is a command.
    """
    if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
        yield remedy, False
        return
    for index, part in enumerate(remedy.split("`")):
        yield part, index % 2 == 1 and COMMAND.fullmatch(part) is not None


def _evidence(row: Mapping[str, Any]) -> Markup:
    return element("details", element("summary", "evidence"), description_list(_facts(row)))


def _facts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    first, last = row["first_offset"], row["last_offset"]
    if first is not None:
        yield "offsets", f"{first}" if last in (None, first) else f"{first} to {last}"
    if row["producer_id"] is not None:
        epoch = "" if row["producer_epoch"] is None else f", epoch {row['producer_epoch']}"
        yield "producer", f"{row['producer_id']}{epoch}"
    if row["path"] is not None:
        path = short_text(row["path"])
        yield "file", path if row["position"] is None else f"{path} byte {row['position']:#x}"
    yield "log directory", short_text(row["log_dir"] or "unknown")
    for name, value in list(row["evidence"].items())[:MAX_EVIDENCE]:
        yield short_text(name), short_text(value if isinstance(value, str) else json.dumps(value))
    yield "exactness", row["exactness"] or "unknown"
    if row["benign"]:
        yield "benign causes", short_text(row["benign"])
    if row["cause"]:
        yield "caused by", short_text(row["cause"])


def short_text(text: str, limit: int = MAX_VALUE_CHARACTERS) -> str:
    """Return printable text, cut after so many characters."""
    return printable(text if len(text) <= limit else f"{text[:limit]}…")
