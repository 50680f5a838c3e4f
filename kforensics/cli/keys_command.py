"""``kforensics keys``: from words to judgements of topics, and to an exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kforensics.analyses.keys import KeysQuestion, judged_topics
from kforensics.cli.question_command import Tally, ask, format_of, say, severity_of
from kforensics.forensics.audit.topic_result import KeyJudgement
from kforensics.render.formats import Format
from kforensics.render.key_stories import key_lines
from kforensics.render.output import open_output
from kforensics.render.streams import TextSink
from kforensics.render.writers import open_writer

__all__ = ["run_keys"]


def run_keys(words: Mapping[str, Any]) -> int:
    """Say where keys lie and return the exit code.

    Args:
        words: the command's options and arguments by name.

    Raises:
        UsageError: the words do not go together, or there is no such topic.
    """
    question = KeysQuestion(tuple(words["topic"] or ()), words["partition_count"], words["listed"])
    wanted, fail_on = format_of(words), severity_of(words["fail_on"])
    # The cluster's metadata is a topic too, and tells how many partitions the others have.
    found = ask({**words, "topic": None})
    tally = Tally(found.unreadable)
    judgements = _counted(judged_topics(found, question, _Unread(tally).say), tally)
    with open_output(words["output"]) as out:
        if wanted is Format.TEXT:
            sink = TextSink(out)
            for one in judgements:
                sink.write("".join(f"{line}\n" for line in key_lines(one)))
            sink.flush()
        else:
            writer = open_writer(wanted, out)
            writer.write(question.table, (row for one in judgements for row in one.rows[question.table.name]))
            writer.close()
    return tally.code(fail_on)


class _Unread:
    """Says what could not be read, always, and counts it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def say(self, why: str) -> None:
        say(why)
        self._tally.unreadable += 1


def _counted(judgements: Iterator[KeyJudgement], tally: Tally) -> Iterator[KeyJudgement]:
    for one in judgements:
        tally.found(one.findings)
        yield one
