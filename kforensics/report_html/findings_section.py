"""Renders the findings of a report: the worst ones with evidence and remedy, grouped by code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.core.findings import Code, Severity
from kforensics.forensics.core.formatting import format_count
from kforensics.render.markup import Markup, description_list, element, joined
from kforensics.report_html.finding_groups import FindingGroup
from kforensics.report_html.page_rows import page_value, topic_partition

# Evidence values shown of one finding, and characters of all groups together: groups beyond are only counted.
MAX_EVIDENCE, MAX_FINDINGS_CHARACTERS = 20, 1_500_000
INFO = str(Severity.INFO)
# A value does not end with a full stop, which ends the sentence. <…> is a placeholder. A shell interprets nothing in
# single quotes; even so, only printable ASCII is accepted there.
VALUE = r"""(?:<[^<>]*>|'[ -&(-~]*'(?!["'])|[A-Za-z0-9._-]*[A-Za-z0-9_-])"""
COMMAND = re.compile(rf"kafka-[a-z-]+\.sh(?: --[A-Za-z-]+ {VALUE}| [A-Za-z]+(?:-[a-z]+)*(?= --))+")
# Topic.LEGAL_CHARS. A folder may have any name, which a shell could interpret.
LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def finding_blocks(groups: list[FindingGroup]) -> Markup:
    """Return a block for each group; informational findings are collapsed."""
    codes = {code.name: code for check in ALL_CHECKS for code in check.codes.values()}
    blocks, collapsed, size = list[Markup](), list[Markup](), 0
    for group in groups:
        block = _group(group, codes.get(group.code))
        if size + len(block) > MAX_FINDINGS_CHARACTERS:
            block = _group(replace(group, shown=()), codes.get(group.code))
        size += len(block)
        (collapsed if group.severity == INFO else blocks).append(block)
    if not collapsed:
        return joined(*blocks)
    count = sum(group.count for group in groups if group.severity == INFO)
    summary = f"{format_count(count, 'informational finding')} of {format_count(len(collapsed), 'code')}"
    return joined(*blocks, element("details", element("summary", summary), *collapsed))


def _group(group: FindingGroup, code: Code | None) -> Markup:
    badge = element("span", group.severity, class_=f"badge {group.severity}")
    count = element("span", format_count(group.count, "finding"), class_="occurrences")
    title = element("h3", badge, " ", element("code", group.code), " ", count)
    about = () if code is None else (element("p", code.meaning), *_background(code))
    # A remedy that all findings share is shown once.
    is_shared = len(group.shown) > 1 and len({row["remedy"] for row in group.shown}) == 1
    shared = _remedy(group.shown[0]) if is_shared else ()
    findings = element("ul", *(_finding(row, with_remedy=not is_shared) for row in group.shown), class_="findings")
    left = group.count - len(group.shown)
    more = (element("p", f"… and {left:,} more with this code", class_="more"),) if left else ()
    attributes = {"class_": f"group {group.severity}", "id": f"{group.severity}-{group.code}"}
    return element("section", title, *about, *shared, findings, *more, **attributes)


def _background(code: Code) -> Iterator[Markup]:
    if code.why or code.benign:
        texts = [("why it matters", code.why), ("benign causes", code.benign)]
        background = description_list((term, text) for term, text in texts if text)
        yield element("details", element("summary", "about this finding"), background)


def _finding(row: Mapping[str, Any], *, with_remedy: bool) -> Markup:
    broker = "" if row["broker_id"] is None else f" on broker {row['broker_id']}"
    name = f"{_text(topic_partition(row) or str(row['log_dir']))}{broker}"
    place = element("p", element("strong", name), class_="where")
    message = element("p", _text(row["message"]))
    return element("li", place, message, *(_remedy(row) if with_remedy else ()), _evidence(row))


def _remedy(row: Mapping[str, Any]) -> Iterator[Markup]:
    if row["severity"] == INFO or not row["remedy"]:
        return
    copy = element("button", "copy", type="button", class_="copy", hidden="")
    parts = (
        element("span", element("code", part), copy, class_="command") if is_command else part
        for part, is_command in split_commands(row["remedy"], row["topic"])
    )
    yield element("p", element("b", "Do: "), *parts, class_="remedy")


def split_commands(remedy: str, topic: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a remedy in order, each with whether it is a command to copy.

    >>> list(split_commands("List it with kafka-topics.sh --list --topic a.b; then wait.", "a.b"))
    [('List it with ', False), ('kafka-topics.sh --list --topic a.b', True), ('; then wait.', False)]

    Args:
        remedy: text of the remedy.
        topic: topic that the remedy names; with a name that Kafka does not allow, no part is a command.
    """
    if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
        yield remedy, False
        return
    end = 0
    for match in COMMAND.finditer(remedy):
        yield remedy[end : match.start()], False
        yield match[0], True
        end = match.end()
    yield remedy[end:], False


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
        path = _text(row["path"])
        yield "file", path if row["position"] is None else f"{path} byte {row['position']:#x}"
    yield "log directory", _text(row["log_dir"] or "unknown")
    for name, value in list(row["evidence"].items())[:MAX_EVIDENCE]:
        yield _text(name), _text(value if isinstance(value, str) else json.dumps(value))
    yield "exactness", row["exactness"] or "unknown"
    if row["benign"]:
        yield "benign causes", _text(row["benign"])
    if row["cause"]:
        yield "caused by", _text(row["cause"])


def _text(text: str) -> str:
    return str(page_value(text))
