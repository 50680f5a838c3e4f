"""The result of ``kforensics.explain``: stories as values, as text and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kforensics.analyses.explain import Story, Subject, story_rows
from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.explain.offset_story import OffsetRun, OffsetStory
from kforensics.forensics.explain.producer_story import ProducerStory
from kforensics.render.explanation_text import offset_lines, producer_story_lines, run_lines, transactional_id_lines
from kforensics.render.markup import Markup, element
from kforensics.render.partition_text import missing_log_lines

if TYPE_CHECKING:
    from kforensics.analyses.partitions import Investigation
    from kforensics.api.views.table_view import TableView
    from kforensics.forensics.core.result_rows import Rows, RowStream
    from kforensics.parsers.tables.schemas import Table
    from kforensics.render.redaction import Redaction


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What there is to know of a subject; it shows itself as text.

    Attributes:
        subject: an offset, a producer or a transactional id.
        stories: one story for each replica of an offset, one for each partition of a producer, one for a
            transactional id in each cluster. A partition whose log is missing has a story that says so.
    """

    subject: Subject
    stories: tuple[Story, ...]

    @property
    def text(self) -> str:
        """The lines that the command prints."""
        return "".join(f"{line}\n" for story in self.stories for line in story_lines(story))

    @property
    def table(self) -> TableView:
        """The rows that the command writes."""
        from kforensics.api.views.table_view import view_of  # the command does not need views
        from kforensics.parsers.tables.arrow import table_of_parts  # the text does not need Arrow

        definition = self.subject.table
        rows = [[row for story in self.stories for row in story_rows(story)]]
        return view_of(definition, table_of_parts(definition, rows))

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> Markup:
        lines = (part for line in self.text.splitlines() for part in (line, Markup("\n")))
        return element("pre", *lines, style="white-space: pre-wrap")


@dataclass(frozen=True, slots=True)
class RedactedStories:
    """Shows stories redacted.

    Attributes:
        redaction: redacts them; it knows their names.
        table: the table of their rows.
    """

    redaction: Redaction
    table: Table

    @classmethod
    def of(cls, investigation: Investigation, redaction: Redaction, table: Table) -> RedactedStories:
        """Return what shows the stories of an investigation."""
        from kforensics.analyses.known_names import learn_names  # few stories are redacted

        return cls(learn_names(redaction, investigation), table)

    def lines(self, story: Story) -> Iterator[str]:
        """Yield a story as lines of text."""
        return map(self.redaction.line, story_lines(self._without_payload(story)))

    def rows(self, story: Story) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a story."""
        return (self.redaction.row(self.table, row) for row in story_rows(story))

    def beside(self, tables: Mapping[str, Iterable[Rows | RowStream]]) -> Mapping[str, Iterable[Rows | RowStream]]:
        """Return other tables of a document, whose rows are looked at last."""
        return {name: map(self.redaction.rows, rows) for name, rows in tables.items()}

    def _without_payload(self, story: Story) -> Story:
        if not isinstance(story, OffsetStory) or story.record is None:
            return story
        hidden = self.redaction.redactor
        record = replace(story.record, key=hidden(story.record.key), value=hidden(story.record.value))
        return replace(story, record=record)


def story_lines(story: Story) -> Iterator[str]:
    """Yield a story as lines of text."""
    if isinstance(story, OffsetStory):
        return offset_lines(story)
    if isinstance(story, OffsetRun):
        return run_lines(story)
    if isinstance(story, ProducerStory):
        return producer_story_lines(story)
    if isinstance(story, MissingLog):
        return missing_log_lines(story)
    return transactional_id_lines(story)
