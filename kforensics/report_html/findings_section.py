"""The section of a report that tells the worst findings, with their evidence and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kforensics.forensics.checks.all_checks import EVERY_FAMILY
from kforensics.forensics.core.findings import Code, Severity
from kforensics.render.formatting import amount
from kforensics.report_html.chosen_findings import Group
from kforensics.report_html.commands import pieces
from kforensics.report_html.elements import Markup, items, joined, tag
from kforensics.report_html.page_rows import place_name, value_of

__all__ = ["group_list"]

# Figures of one finding, and characters of all of them with what is around: behind that codes are only counted.
FIGURES, CHARACTERS = 20, 1_500_000
INFO = str(Severity.INFO)


def group_list(groups: list[Group]) -> Markup:
    """Return the findings, a block for each code; those that are only information are folded."""
    codes = {code.name: code for family in EVERY_FAMILY for code in family.CODES.values()}
    bad, folded, size = list[Markup](), list[Markup](), 0
    for group in groups:
        block = _group(group, codes.get(group.code))
        if size + len(block) > CHARACTERS:
            block = _group(replace(group, told=()), codes.get(group.code))
        size += len(block)
        (folded if group.severity == INFO else bad).append(block)
    if not folded:
        return joined(*bad)
    count = sum(group.count for group in groups if group.severity == INFO)
    summary = tag("summary", f"{amount(count, 'finding')} for information, of {amount(len(folded), 'kind')}")
    return joined(*bad, tag("details", summary, *folded))


def _group(group: Group, code: Code | None) -> Markup:
    badge = tag("span", group.severity, class_=f"badge {group.severity}")
    often = tag("span", f"{group.count:,} times" if group.count > 1 else "once", class_="times")
    title = tag("h3", badge, " ", tag("code", group.code), " ", often)
    about = () if code is None else (tag("p", code.meaning), *_background(code))
    # What is to be done is often the same for all of them: then it is said once.
    is_shared = len(group.told) > 1 and len({row["remedy"] for row in group.told}) == 1
    shared = _remedy(group.told[0]) if is_shared else ()
    told = tag("ul", *(_finding(row, with_remedy=not is_shared) for row in group.told), class_="findings")
    left = group.count - len(group.told)
    more = (tag("p", f"… and {left:,} more of this kind in the store", class_="more"),) if left else ()
    named = {"class_": f"group {group.severity}", "id": f"{group.severity}-{group.code}"}
    return tag("section", title, *about, *shared, told, *more, **named)


def _background(code: Code) -> Iterator[Markup]:
    if code.why or code.innocent:
        said = [("why it matters", code.why), ("what would be innocent", code.innocent)]
        yield tag("details", tag("summary", "about this kind"), items((term, text) for term, text in said if text))


def _finding(row: Mapping[str, Any], *, with_remedy: bool) -> Markup:
    broker = "" if row["broker_id"] is None else f" on broker {row['broker_id']}"
    where = tag("p", tag("strong", f"{_text(place_name(row) or str(row['log_dir']))}{broker}"), class_="where")
    message = tag("p", _text(row["message"]))
    return tag("li", where, message, *(_remedy(row) if with_remedy else ()), _evidence(row))


def _remedy(row: Mapping[str, Any]) -> Iterator[Markup]:
    if row["severity"] == INFO or not row["remedy"]:
        return
    words = (
        tag(
            "span", tag("code", piece), tag("button", "copy", type="button", class_="copy", hidden=""), class_="command"
        )
        if is_command
        else piece
        for piece, is_command in pieces(row["remedy"], row["topic"])
    )
    yield tag("p", tag("b", "Do: "), *words, class_="remedy")


def _evidence(row: Mapping[str, Any]) -> Markup:
    return tag("details", tag("summary", "evidence"), items(_facts(row)))


def _facts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if row["first_offset"] is not None:
        last = row["last_offset"]
        yield (
            "offsets",
            f"{row['first_offset']}" if last in (None, row["first_offset"]) else f"{row['first_offset']} to {last}",
        )
    if row["producer_id"] is not None:
        epoch = "" if row["producer_epoch"] is None else f", epoch {row['producer_epoch']}"
        yield "producer", f"{row['producer_id']}{epoch}"
    if row["path"] is not None:
        path = _text(row["path"])
        yield "file", path if row["position"] is None else f"{path} byte {row['position']:#x}"
    yield "log directory", _text(row["log_dir"] or "unknown")
    for name, value in list(row["evidence"].items())[:FIGURES]:
        yield _text(name), _text(value if isinstance(value, str) else json.dumps(value))
    yield "exactness", row["exactness"] or "unknown"
    if row["benign"]:
        yield "innocent explanations", _text(row["benign"])
    if row["cause"]:
        yield "follows from", _text(row["cause"])


def _text(text: str) -> str:
    return str(value_of(text))
