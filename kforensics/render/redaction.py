"""Replaces names, ids, keys and values in results by keyed hashes, so that an incident can still be followed.

Columns are known by their names. In sentences and paths, all known names are replaced.

Names are replaced where results leave the program and not where they are read: which coordinator a transactional id
belongs to, for example, depends on the id.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.commands import PLAIN, shell_word
from kforensics.forensics.core.result_rows import Rows, RowStream, Words
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.messages.registry import INTERNAL_TOPICS
from kforensics.parsers.tables.schemas import Table, encodable
from kforensics.render.payloads import REDACTED, Redactor
from kforensics.render.screen import Line

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NameKind", "Redaction"]

Cell: TypeAlias = Callable[[str], str]


class NameKind(StrEnum):
    """What a name is of; its hash begins with it."""

    ID = "id"
    GROUP = "group"
    TOPIC = "topic"
    HOST = "host"


# Columns, and fields of the column evidence, by what they have.
KIND_OF_COLUMN = {
    **dict.fromkeys(("transactional_id", "transactional_ids", "member", "client_id"), NameKind.ID),
    **dict.fromkeys(("group", "groups"), NameKind.GROUP),
    **dict.fromkeys(("topic", "committed_topic"), NameKind.TOPIC),
    "client_host": NameKind.HOST,
}
# Text from clients: a key in hex, and what a client committed with an offset.
OF_CLIENTS = ("key", "metadata")
JSON_COLUMNS = ("evidence", "transactional_ids", "groups")
# Columns whose values this program or Kafka chooses, so that nothing is mistaken for a name.
VOCABULARY = frozenset(
    (
        *("code", "codes", "severity", "kind", "state", "outcome", "exactness", "cause", "verdict", "view", "level"),
        *("fate", "atomic", "reason", "role", "lost", "loser", "style", "change", "incident", "limits", "in_sync"),
        *("checkpoint", "compression_type", "timestamp_type", "control_type", "component", "component_next"),
        *("partitioner", "topic_id", "committed_topic_id", "directories", "count_source", "high_watermark_source"),
        *("setting", "setting_source", "brokers", "producer_ids", "producer_epochs"),
        *("replicas", "isr", "elr", "last_known_elr", "adding", "removing"),
    )
)
SENTENCES = ("message", "what", "impact", "benign", "why", "error", "detail", "read")
# The whole records of the cluster's metadata, which have credentials too.
LEFT_OUT = {"cluster_image": ("record",)}
HASH_BYTES = 6
TOKEN = re.compile(rf"(?:{'|'.join(NameKind)})-[0-9a-f]{{{2 * HASH_BYTES}}}|{REDACTED}[0-9a-f]+")
# A string as repr writes it; an apostrophe in a word is none.
QUOTED = re.compile(r"""(?<!\w)(['"])(?:\\.|(?!\1)[^\\])*\1(?!\w)""", re.DOTALL)
# Before and after a name in a sentence, if the name is one of the words of sentences, too.
BEFORE_NAME = re.compile(r"(?:['\"/=]|--[A-Za-z-]+ |transactional id )$")
OPTION_BEFORE = re.compile(r"--(topic|group|transactional)[A-Za-z-]*[ =]$")
AFTER_NAME = re.compile(r"-\d")
LONGEST_OPTION = 24
WORD = re.compile(r"[a-z]+")
# Where a number is a name: after an option, and in the name of a partition's folder.
NUMBER_AS_NAME = re.compile(r"((?:--(?:transactional-?[iI]d|group|topic)[ =])|transactional id |/)(\d+)(?!\w)")
# The longest beginning of a name by which it is found.
PREFIX = 3


class Redaction:
    """Redacts results.

    Args:
        redactor: hashes payloads; the key of names is the same.
        hides_names: whether names of topics, groups and hosts are replaced, too.
    """

    def __init__(self, redactor: Redactor, *, hides_names: bool) -> None:
        self.redactor, self.hides_names = redactor, hides_names
        self._tokens: dict[str, dict[NameKind, str]] = {}
        self._lengths: dict[str, list[int]] = {}
        self._numbers: dict[str, str] = {}
        self._readable: set[str] = set()
        self._words = _words_of_sentences()

    def name(self, kind: NameKind, name: str) -> str:
        """Return what replaces a name: the name itself if it is not hidden, as those of internal topics."""
        if name in INTERNAL_TOPICS or TOKEN.fullmatch(name) or (kind is not NameKind.ID and not self.hides_names):
            return name
        digest = hashlib.blake2b(name.encode(errors="surrogatepass"), key=self.redactor.key, digest_size=HASH_BYTES)
        return f"{kind}-{digest.hexdigest()}"

    def add(self, kind: NameKind, name: str | None) -> None:
        """Make a name known, so that sentences and paths do not show it."""
        if not name or not any(map(str.isalnum, name)):
            return
        token = self.name(kind, name)
        if token == name:
            self._readable.add(name)
        elif name.isdecimal():  # it would be every number in a sentence
            self._numbers.setdefault(name, token)
        else:
            for spelling in _spellings(name):
                self._tokens.setdefault(spelling, {})[kind] = token
                lengths = self._lengths.setdefault(spelling[:PREFIX], [])
                if len(spelling) not in lengths:
                    lengths.append(len(spelling))
                    lengths.sort(reverse=True)

    def addresses(self, brokers: str | None) -> str | None:
        """Return addresses of brokers redacted, and make their hosts known; None for None."""
        for address in (brokers or "").split(","):
            self.add(NameKind.HOST, address.rpartition(":")[0])
        return None if brokers is None else self.names_in(brokers)

    def text(self, text: str) -> str:
        """Return a sentence without the known names, and without anything else in quotes."""
        return QUOTED.sub(self._quoted, self.names_in(text, is_prose=True))

    def names_in(self, text: str, *, is_prose: bool = False) -> str:
        """Return text without the known names, the longest first, as far as they are whole words.

        Args:
            text: the text.
            is_prose: whether it is a sentence or a remedy. A name that is a common word in sentences is replaced only
                where it is a name: otherwise the gaps in known sentences would show it.
        """
        parts, start, position = [], 0, 0
        while position < len(text):
            if _is_boundary(text, position) and (end := self._end_of_name(text, position, is_prose=is_prose)):
                parts += [text[start:position], _token_at(text, position, self._tokens[text[position:end]])]
                start = position = end
            else:
                position += 1
        text = "".join([*parts, text[start:]])
        return NUMBER_AS_NAME.sub(self._number, text) if self._numbers else text

    def _end_of_name(self, text: str, start: int, *, is_prose: bool) -> int | None:
        for prefix in range(PREFIX, 0, -1):
            for length in self._lengths.get(text[start : start + prefix], ()):
                end = start + length
                if text[start:end] in self._tokens and _is_boundary(text, end):
                    is_word = is_prose and text[start:end].lower() in self._words
                    if not is_word or _is_used_as_name(text, start, end):
                        return end
        return None

    def _number(self, match: re.Match[str]) -> str:
        return f"{match[1]}{self._numbers.get(match[2], match[2])}"

    def _quoted(self, match: re.Match[str]) -> str:
        try:
            value = str(ast.literal_eval(match[0]))
        except (SyntaxError, ValueError):
            value = match[0][1:-1]
        if not value or value in self._readable or TOKEN.fullmatch(value):
            return match[0]
        number = self._numbers.get(value)
        return f"'{number or self._payload(value.encode(errors='surrogatepass'))}'"

    def _payload(self, data: bytes) -> str:
        return (self.redactor(data) or b"").decode()

    def line(self, line: str) -> str:
        """Return a line of text redacted, which is shown as before."""
        redacted = self.text(line)
        return Line(redacted, line.style, line.hang) if isinstance(line, Line) else redacted

    def cell(self, column: str, value: str) -> str:
        """Return the text of a column, or of a field of the column ``evidence``, redacted."""
        if column in VOCABULARY or not value:
            return value
        if column in JSON_COLUMNS and value[0] in "[{":
            return json.dumps(self._json("", json.loads(value)), ensure_ascii=False)
        if column in KIND_OF_COLUMN:
            return self.name(KIND_OF_COLUMN[column], value)
        if column in OF_CLIENTS:
            return self._client_text(value)
        return self.text(value) if column in SENTENCES else self.names_in(value, is_prose=column == "remedy")

    def _client_text(self, value: str) -> str:
        if TOKEN.fullmatch(value):
            return value
        try:
            return self._payload(bytes.fromhex(value))  # a key in the evidence
        except ValueError:
            return self._payload(value.encode(errors="surrogatepass"))

    def _json(self, field: str, value: Any) -> Any:
        """Return a value of JSON redacted; the fields of the outermost object have names of this program."""
        if isinstance(value, dict):
            return {(self.names_in(name) if field else name): self._json(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._json(field, inner) for inner in value]
        return self.cell(field, value) if isinstance(value, str) else value

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words of a command line redacted."""
        return tuple(map(self.names_in, words))

    def row(self, table: Table, row: Sequence[Any]) -> tuple[Any, ...]:
        """Return a row of Python values redacted."""
        return tuple(map(partial(self._value, table.name), table.names, row))

    def _value(self, table: str, column: str, value: Any) -> Any:
        if column in LEFT_OUT.get(table, ()):
            return None
        if isinstance(value, bytes):
            return value if value.startswith(REDACTED.encode()) else self.redactor(value)
        return self.cell(column, value) if isinstance(value, str) else value

    def rows(self, rows: Rows | RowStream) -> Rows | RowStream:
        """Return rows of a result redacted."""
        if isinstance(rows, RowStream):
            return RowStream(rows.table, partial(self._parts, rows))
        columns = {name: self._column(rows.table.name, name, column) for name, column in rows.columns.items()}
        return replace(rows, columns=columns)

    def _parts(self, rows: RowStream) -> Iterator[Rows]:
        for part in rows.parts():
            redacted = self.rows(part)
            if isinstance(redacted, Rows):
                yield redacted

    def _column(self, table: str, name: str, column: Any) -> Any:
        if name in LEFT_OUT.get(table, ()):
            return None
        if isinstance(column, Words):
            return Words(column.codes, [self.cell(name, word) for word in column.words])
        if isinstance(column, np.ndarray) and column.dtype.kind in "OSU":
            column = column.tolist()
        if isinstance(column, list):
            return [self._value(table, name, value) for value in column]
        return self._value(table, name, column)

    def record_batch(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return Arrow rows of a table redacted."""
        import pyarrow as pa  # text does not need it

        columns = [
            self._array(table, field.name, column) for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _array(self, table: str, name: str, column: pa.Array) -> pa.Array:
        import pyarrow as pa  # text does not need it

        if pa.types.is_dictionary(column.type):
            words = self._array(table, name, column.dictionary)
            return pa.DictionaryArray.from_arrays(column.indices, words)
        if name == "headers":
            hidden = [
                [header | {"value": self._value(table, "value", header["value"])} for header in row]
                for row in column.to_pylist()
            ]
            return pa.array(hidden, column.type)
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            return column
        if name in LEFT_OUT.get(table, ()):
            return pa.nulls(len(column), column.type)
        encoded = column.dictionary_encode()
        values = [self._value(table, name, value) for value in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(values, column.type)).dictionary_decode()

    def result(self, result: PartitionResult) -> PartitionResult:
        """Return the result of a partition redacted, without the summaries of its log, which have bytes of it."""
        from kforensics.parsers.tables.schemas import TABLES

        place = result.place
        topic = None if place.topic is None else self.cell("topic", place.topic)
        log_dir = None if place.log_dir is None else self.names_in(place.log_dir)
        return replace(
            result,
            place=place._replace(topic=topic, log_dir=log_dir),
            folder=self.names_in(result.folder),
            why=None if result.why is None else self.text(result.why),
            rows={name: self.rows(rows) for name, rows in result.rows.items() if name != CHUNK_SUMMARIES.name},
            damage=tuple(self.row(TABLES["damage"], row) for row in result.damage),
        )

    def manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the manifest of a store redacted: its command, and the paths in it. Such a store has no summaries."""
        return {
            **manifest,
            "summaries": None,
            "options": {**manifest.get("options", {}), "redact": True, "redact_names": self.hides_names},
            "command": list(self.words(manifest["command"])),
            **({"previous": self.names_in(manifest["previous"])} if manifest.get("previous") else {}),
            "inputs": manifest["inputs"]
            if isinstance(manifest["inputs"], dict)
            else [{**each, "path": self.names_in(each["path"])} for each in manifest["inputs"]],
        }


def _is_boundary(text: str, position: int) -> bool:
    """Return whether no word goes on across a position."""
    return not (0 < position < len(text) and _is_of_word(text[position - 1]) and _is_of_word(text[position]))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_used_as_name(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - LONGEST_OPTION) : start]
    return bool(BEFORE_NAME.search(before) or AFTER_NAME.match(text, end))


def _token_at(text: str, position: int, tokens: Mapping[NameKind, str]) -> str:
    """Return what replaces a name at a position, if a topic, a group and an id have that name."""
    before = text[max(0, position - LONGEST_OPTION) : position]
    if option := OPTION_BEFORE.search(before):
        kinds = (NameKind.ID if option[1].startswith("transactional") else NameKind(option[1]), *NameKind)
    elif before.endswith(("'", '"', "transactional id ")):
        kinds = (NameKind.ID, NameKind.GROUP, *NameKind)
    else:
        kinds = (NameKind.TOPIC, NameKind.GROUP, *NameKind)
    return next(tokens[kind] for kind in kinds if kind in tokens)


def _words_of_sentences() -> frozenset[str]:
    """Return the words that the sentences of this program, and the values of its columns, are made of."""
    from kforensics.forensics.checks.all_checks import ALL_CHECKS  # few results are redacted

    codes = (code for check in ALL_CHECKS for code in check.codes.values())
    sentences = (text for code in codes for text in (code.meaning, code.remedy, code.why, code.benign))
    columns = (column.doc for table in RESULTS.values() for column in table.columns)
    return frozenset(chain.from_iterable(WORD.findall(text.lower()) for text in chain(sentences, columns)))


def _spellings(name: str) -> set[str]:
    """Return a name as messages, JSON, commands and terminals spell it, without quotes around it."""
    if PLAIN.fullmatch(name):
        return {name}
    shell = shell_word(name)
    return {
        name,
        encodable(name),
        repr(name)[1:-1],
        printable(name),
        printable(repr(name)[1:-1]),
        json.dumps(name)[1:-1],
        json.dumps(encodable(name), ensure_ascii=False)[1:-1],
        shell.removeprefix("$")[1:-1] if shell.endswith("'") else shell,
    }
