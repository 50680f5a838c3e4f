"""Fits lines of text to a terminal: its width, its colors, commands on lines of their own, and times in a zone."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Self, TypeAlias

from kforensics.errors import UsageError
from kforensics.forensics.core.commands import shell_word
from kforensics.parsers.format.text_encoding import printable

if TYPE_CHECKING:
    from datetime import tzinfo

    from kforensics.forensics.core.findings import Severity

# The name of a command, each of its options with its value, and its paths.
CommandWords: TypeAlias = tuple[tuple[str, ...], ...]
# The width of tables where no terminal has one.
DEFAULT_WIDTH = 80
MIN_WIDTH = 40
COMMAND = "$ "
COLORS = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan", "command": "bold"}
WHEN = ("auto", "always", "never")
# A time in UTC as ``format_time`` writes it; a line does not break within one, nor within a duration or a size.
UTC_TIME = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? UTC\b")
# Nor is a number apart from the noun that it belongs to.
UNBREAKABLE = re.compile(
    r"(?<=\d) (?=(?:d|h|min|s|ms|bytes|[KMGTP]B|UTC)\b|%)|(?<=\d-\d\d) (?=\d\d:)"
    r"|(?<=\b(?:LSO|end)) (?=\d)|(?<=\bbyte) (?=0x)|(?<=\bepoch) (?=\d)|(?<=\boffset) (?=\d)|(?<=\bproducer) (?=\d)"
)
# Lines that stay whole, to be copied or to stay aligned.
UNBROKEN = ("command", "row")
BACKQUOTED = re.compile(r"`([^`]*)`")
INDENT = re.compile(r" *")
HANG = 2
# A longer word follows what is shorter than this, such as ``at``.
LABEL = 4


class Line(str):
    """A line of text with what a terminal shows it by.

    Attributes:
        style: a severity, or ``command``; its first word is shown in that color, a command as a whole.
        hang: how far the rest of the line is indented if it is wrapped.
    """

    __slots__ = ("hang", "style")
    style: str
    hang: int

    def __new__(cls, text: str, style: Severity | str = "", hang: int | None = None) -> Self:
        """Return a line."""
        line = super().__new__(cls, text)
        line.style = str(style)
        line.hang = indent_of(text) + HANG if hang is None else hang
        return line


@dataclass(frozen=True, slots=True)
class Screen:
    """Where text is shown.

    Attributes:
        width: characters of a line, None if lines are not wrapped.
        is_colored: whether severities have a color.
        zone: the time zone of times; None for UTC.
        shows_all: whether lists are complete.
        is_wide: whether tables have all columns.
        command: the command with its options, for the commands that show the rest.
    """

    width: int | None = None
    is_colored: bool = False
    zone: tzinfo | None = None
    shows_all: bool = False
    is_wide: bool = False
    command: CommandWords = ()

    @property
    def table_width(self) -> int | None:
        """Characters of a line of a table, None if it has all columns."""
        if self.is_wide:
            return None
        return DEFAULT_WIDTH if self.width is None else self.width

    def shown(self, limit: int) -> int | None:
        """Return how many entries of a list to show, None for all.

        Args:
            limit: how many a list has that is cut.
        """
        return None if self.shows_all else limit

    def rest(self, *options: str) -> Iterator[Line]:
        """Yield this command with more options, which shows what was left out.

        Args:
            options: the words of the options, such as ``--all``; they replace options of the same name.
        """
        named = {word for word in options if word.startswith("--")}
        given = (words for words in self.command[1:] if not named.intersection(words[:1]))
        yield Line(f"  {COMMAND}{_command_line((*self.command[:1], options, *given))}", "command")

    def with_words(self, shown: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Screen:
        """Return the screen with other words of its command, by the function that returns them."""
        return replace(self, command=tuple(map(shown, self.command)))

    def again(self, paths: Iterable[str], *without: str) -> str:
        """Return this command, with its options, for some of its paths.

        Args:
            paths: the paths in place of those that were given.
            without: options that are left out.
        """
        given = (words for words in self.command[:-1] if words[0] not in without)
        named = tuple(paths)
        return _command_line((*given, ("--", *named) if any(path.startswith("-") for path in named) else named))

    def in_zone(self, line: str) -> str:
        """Return a line with its times in the zone."""
        return line if self.zone is None else _in_zone(line, self.zone)

    @classmethod
    def of(cls, *, is_file: bool = False, color: str = "auto") -> Screen:
        """Return the screen of standard output.

        A file or a pipe has no width, so that a search finds whole lines; ``COLUMNS`` in the environment sets one.

        Args:
            is_file: whether the text goes to a file.
            color: ``auto`` for colors on a terminal only, ``always`` or ``never``.

        Raises:
            UsageError: there is no such choice.
        """
        if color not in WHEN:
            raise UsageError(f"--color {color!r} is not one of {', '.join(WHEN)}")
        is_terminal = not is_file and sys.stdout.isatty()
        # https://no-color.org: any value but an empty one
        has_color = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(None if is_file else terminal_width(), color == "always" or (color == "auto" and has_color))

    def lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines as the screen shows them; those in color have escape sequences."""
        color = _painter() if self.is_colored else None
        for line in lines:
            text = self.in_zone(line)
            if not text.isprintable():
                text = _line(printable(text), line)  # from here on, control characters are this package's own
            parts = [str(text)] if self.width is None else wrapped(text, self.width)
            yield from parts if color is None else _colored(line, parts, color)


def terminal_width() -> int | None:
    """Return the columns of the terminal on standard output, or of ``COLUMNS``; None if there is neither.

    A narrower terminal than 40 columns breaks the lines itself.
    """
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()):
        return None
    return max(shutil.get_terminal_size().columns, MIN_WIDTH)


def wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit a width.

    It breaks at spaces alone: never inside a word, a time, a size or a command.

    >>> wrapped("  idle for 14 min since noon", 16)
    ['  idle for', '    14 min since', '    noon']

    Args:
        line: the line; the rest is indented by its ``hang``, otherwise by two more than the line.
        width: characters; a longer word has a line of its own.
    """
    if len(line) <= width and line.isascii():
        return [line]
    style, hang = (line.style, line.hang) if isinstance(line, Line) else ("", indent_of(line) + HANG)
    if style in UNBROKEN:
        return [line]
    indent = indent_of(line)
    words = unbroken(line[indent:]).split(" ")
    parts = [f"{' ' * indent}{words[0]}"]
    for word in words[1:]:
        fits_no_line = hang + cells(word) > width and cells(parts[-1]) < hang + LABEL
        if fits_no_line or cells(parts[-1]) + 1 + cells(word) <= width:
            parts[-1] = f"{parts[-1]} {word}"
        else:
            parts.append(f"{' ' * hang}{word}")
    return [part.replace("\xa0", " ").rstrip() for part in parts]


def unbroken(text: str) -> str:
    """Return a text with hard spaces where it must not break: in times, sizes and commands between backquotes."""
    return UNBREAKABLE.sub("\xa0", BACKQUOTED.sub(lambda match: match[0].replace(" ", "\xa0"), text))


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> cells("ascii"), cells("日本")
    (5, 4)
    """
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # few names are not ASCII

    return sum(2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text)


def advice_lines(label: str, advice: str, indent: int) -> Iterator[Line]:
    """Yield a remedy; each of its commands, which are between backquotes, is a line of its own.

    >>> for line in advice_lines("do", "Look with `ls -l`. Then ask.", 2):
    ...     print(line)
      do: Look with:
          $ ls -l
          Then ask.

    Args:
        label: what is in front of it.
        advice: the remedy.
        indent: of the label.
    """
    hang = indent + len(label) + 2
    start = f"{' ' * indent}{label}: "
    for text, is_command in advice_pieces(advice):
        if is_command:
            yield Line(f"{' ' * hang}{COMMAND}{text}", "command")
            start = " " * hang
        else:
            yield Line(f"{start}{text}", hang=hang)


def advice_pieces(advice: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of a remedy and its commands, which are between backquotes, and whether each is a command.

    Args:
        advice: the remedy.
    """
    pieces = BACKQUOTED.split(advice)
    for index, piece in enumerate(pieces):
        if index % 2:
            yield piece, True
            continue
        text = piece.strip() if index == 0 else piece.lstrip(".,;: ").rstrip()
        if index + 1 < len(pieces) and text:
            text = text.rstrip(",:") + ":"
        if text:
            yield text, False


def _command_line(command: Iterable[tuple[str, ...]]) -> str:
    """Return a command of this package as a shell takes it."""
    return " ".join(map(shell_word, ("kforensics", *chain.from_iterable(command))))


def indent_of(text: str) -> int:
    """Return how many spaces a line begins with."""
    match = INDENT.match(text)
    return match.end() if match else 0


def _in_zone(line: str, zone: tzinfo) -> str:
    """Return a line with its times in a zone; what is quoted comes from the evidence, and stays as it is."""
    first, last = line.find("'"), line.rfind("'")
    change = partial(UTC_TIME.sub, partial(_zoned, zone=zone))
    text = change(line) if first == last else f"{change(line[:first])}{line[first:last]}{change(line[last:])}"
    return _line(text, line)


def _line(text: str, shown_as: str) -> str:
    """Return another text that is shown as a line is."""
    return Line(text, shown_as.style, shown_as.hang) if isinstance(shown_as, Line) else text


def _zoned(match: re.Match[str], *, zone: tzinfo) -> str:
    from datetime import datetime

    text = match[0]
    try:
        time = datetime.fromisoformat(text.replace(" UTC", "+00:00")).astimezone(zone)
    except (ValueError, OverflowError):
        return text
    shown = time.isoformat(" ", "milliseconds" if "." in text else "seconds")
    return f"{shown[:-6]} {time.tzname()}"


def _painter() -> Callable[[str, str], str]:
    from rich.color import ColorSystem  # only a terminal has colors
    from rich.style import Style

    def paint(text: str, style: str) -> str:
        return Style.parse(COLORS[style]).render(text, color_system=ColorSystem.STANDARD)

    return paint


def _colored(line: str, parts: list[str], paint: Callable[[str, str], str]) -> Iterator[str]:
    style = line.style if isinstance(line, Line) else ""
    if style not in COLORS:
        yield from parts
        return
    text, indent = parts[0], indent_of(parts[0])
    indent = max(text.find(COMMAND), indent) if style == "command" else indent
    end = len(text) if style == "command" else (text.find(" ", indent) if " " in text[indent:] else len(text))
    yield f"{text[:indent]}{paint(text[indent:end], style)}{text[end:]}"
    yield from parts[1:]
