"""``kforensics explain``: from words to the story, and to an exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kforensics.analyses.explain import Explained, Subject, explained
from kforensics.cli.question_command import Tally, ask, format_of, say, severity_of
from kforensics.forensics.core.findings import Severity
from kforensics.render.formats import Format
from kforensics.render.output import open_output
from kforensics.render.streams import TextSink
from kforensics.render.writers import open_writer

__all__ = ["run_explain"]


def run_explain(words: Mapping[str, Any]) -> int:
    """Tell the story that is asked for and return the exit code.

    Args:
        words: the command's options and arguments by name.

    Raises:
        UsageError: the words do not go together, or nothing on hand can tell.
    """
    subject = _subject(words)
    # Of a producer the log of a coordinator tells whose it is, whatever the topic.
    wanted, fail_on, found = format_of(words), severity_of(words["fail_on"]), ask({**words, "topic": None})
    tally, worst = Tally(found.unreadable), list[Severity]()
    unread = _Unread(tally)
    stories = _weighed(explained(found, subject, unread.say), worst)
    with open_output(words["output"]) as out:
        if wanted is Format.TEXT:
            sink = TextSink(out)
            for one in stories:
                sink.write("".join(f"{line}\n" for line in one.lines))
            sink.flush()
        else:
            writer = open_writer(wanted, out)
            writer.write(subject.table, (row for one in stories for row in one.rows))
            writer.close()
    tally.worst = max(worst, default=None)
    return tally.code(fail_on)


def _subject(words: Mapping[str, Any]) -> Subject:
    asked = {name: words[name] for name in ("offset", "producer_id", "transactional_id", "at", "partition")}
    return Subject(topics=tuple(words["topic"] or ()), **asked)


class _Unread:
    """Says what could not be read, always, and counts it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def say(self, why: str) -> None:
        say(why)
        self._tally.unreadable += 1


def _weighed(stories: Iterator[Explained], worst: list[Severity]) -> Iterator[Explained]:
    for one in stories:
        if one.severity is not None:
            worst.append(one.severity)
        yield one
