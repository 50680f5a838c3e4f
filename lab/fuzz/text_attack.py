"""Hostile text in every place that has text: topics, keys, values, headers, transactional ids, groups, clients."""

from __future__ import annotations

import csv
import io
import re
import shutil
import tempfile
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import google_crc32c

from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from lab.damage.forge import TIME, batch, record, varint
from lab.fuzz.attack import require
from lab.fuzz.cluster_attack import AS_OF, copy_sample
from lab.fuzz.command_run import run_command
from lab.fuzz.mutations import COVERED_FROM, CRC_AT

TAG = "fz"
HOSTILE = (
    *("\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b[31m", "\x9b2J", "\x1bP1;1|\x1b\\", "\x07\x08\x7f", "\x1b[6n", "\x1bc"),
    *("a\rb", "a\nb", "\r\n\r\n", "\x0b\x0c", "\x85", "\u2028\u2029", "\0", "\x1a\x04"),
    *("\u202egnp.exe", "\u2066x\u2069", "\u200e\u200f\u061c", "\ufeff", "e\u0301" * 9),
    *("=1+1", "=cmd|'/C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", " =1", '"=1', ",=1", "'", '"', "=", "-"),
    *(f"<{TAG}>", f'"><{TAG} x="', f"</script><{TAG}>", f"<!--<script><{TAG}>", f"' onload=1 <{TAG}>", "&lt;&#60;"),
    *(f"</style><{TAG}>", f"]]><{TAG}>", f"--><{TAG}>", "javascript:alert(1)", "${{7*7}}", "%s%n{0}", "$(id)`id`;id"),
)
# What may stand in for a word of a record, whose length must stay.
WORD = re.compile(rb"[A-Za-z][A-Za-z0-9_.-]{3,}")
BIDIRECTIONAL = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F}
# The formats that are text, with the options of a dump that write them.
DUMPS = (
    ("--print-data-log",),
    ("--deep-iteration", "--offsets-decoder", "--print-data-log"),
    *(("--formatter", name) for name in ("transaction-log", "offsets", "group-metadata")),
    ("--style", "4.3", "--print-data-log", "--files"),
    *((("--format", name, "--records")) for name in ("table", "json", "ndjson", "csv", "csv-safe")),
)
QUESTIONS = (
    *("lso", "transactions", "producers", "scan", "verify", "audit", "audit --records", "duplicates", "keys"),
    *("ids", "ids --where tx", "settings"),
)


def attack_with_text(dice: Random, keep: Path | None) -> None:
    """Run commands over a cluster of hostile text, and look at what reaches a terminal, a spreadsheet and a browser."""
    with tempfile.TemporaryDirectory() as scratch:
        cluster = Path(scratch, "cluster")
        copy_sample(dice, cluster)
        words: dict[bytes, bytes] = {}
        for path in sorted(path for path in cluster.rglob("*") if path.is_file()):
            path.write_bytes(_with_hostile_words(path.read_bytes(), words, dice))
        _rename_topics(cluster, words)
        log = _forged_log(min(path for path in cluster.iterdir()), dice)
        if keep:
            shutil.copytree(cluster, keep / "cluster", dirs_exist_ok=True)
        _check_outputs(cluster, log, dice)
        if dice.random() < 0.3:
            _check_report(cluster, Path(scratch))


# Forging -------------------------------------------------------------------------------------------------------------


def _hostile_bytes(dice: Random, length: int | None = None) -> bytes:
    text = dice.choice(HOSTILE).encode()
    if length is None:
        return text
    return (text + text + b"x" * length)[:length] if len(text) <= length else text[:length]


def _with_hostile_words(data: bytes, words: dict[bytes, bytes], dice: Random) -> bytes:
    """Return a file with some words replaced by hostile ones of the same length, the same everywhere."""
    changed = bytearray(data)
    for start, end in _texts_of(data):
        for found in WORD.finditer(data, start, end):
            if found[0] not in words:
                words[found[0]] = _hostile_bytes(dice, len(found[0])) if dice.random() < 0.5 else found[0]
            changed[found.start() : found.end()] = words[found[0]]
    for row in walk(BytesSource(data)):
        if isinstance(row, Batch) and row.magic == 2 and row.crc_valid:
            covered = bytes(changed[row.position + COVERED_FROM : row.position + row.size])
            at = row.position + CRC_AT
            changed[at : at + 4] = google_crc32c.value(covered).to_bytes(4, "big")
    return bytes(changed)


def _texts_of(data: bytes) -> list[tuple[int, int]]:
    """Return the ranges of a file that may have text: the records of uncompressed batches, and text files."""
    if b"\0" not in data:
        return [(0, len(data))] if data.count(b"\n") < 3 else []  # not the settings of the broker
    rows = [row for row in walk(BytesSource(data)) if isinstance(row, Batch) and row.magic == 2 and not row.codec]
    return [(row.position + 61, row.position + row.size) for row in rows if row.crc_valid]


def _rename_topics(cluster: Path, words: dict[bytes, bytes]) -> None:
    """Rename the folders of topics whose names were replaced."""
    for folder in sorted((path for path in cluster.rglob("*-*") if path.is_dir()), reverse=True):
        topic, _, partition = folder.name.rpartition("-")
        name = words.get(topic.encode(), topic.encode()) + b"-" + partition.encode()
        target = folder.parent / name.replace(b"\0", b"0").decode("utf-8", "surrogateescape")
        if b"/" not in name and not target.exists():
            folder.rename(target)


def _forged_log(broker: Path, dice: Random) -> Path:
    """Write a topic with a hostile name and records of hostile keys, values and headers."""
    name = _hostile_bytes(dice).replace(b"/", b"|").replace(b"\0", b"0")
    folder = broker / f"{name.decode('utf-8', 'surrogateescape')}-{dice.randrange(3)}"
    folder.mkdir(exist_ok=True)
    records = []
    for delta in range(6):
        key, value, header, content = (_hostile_bytes(dice) for _ in range(4))
        headers = varint(1) + varint(len(header)) + header + varint(len(content)) + content
        records.append(record(delta, key, value, headers=headers))
    path = folder / "00000000000000000000.log"
    path.write_bytes(batch(0, records, producer=(7, 0, 0), times=(TIME, TIME)))
    return path


# Checks --------------------------------------------------------------------------------------------------------------


def _check_outputs(cluster: Path, log: Path, dice: Random) -> None:
    for options in dice.sample(DUMPS, 2):
        arguments = ["dump", *options, dice.choice((log, log, cluster)) if "--files" not in options else log]
        _check_output(arguments)
    question = dice.choice(QUESTIONS).split()
    chosen = dice.choice(("text", "text", "table", "csv", "csv-safe", "json", "ndjson"))
    _check_output([*question, *AS_OF, "--format", chosen, cluster])
    asked = dice.choice((("--offset", "3"), ("--producer-id", "7"), ("--transactional-id", "tx")))
    _check_output(["explain", *asked, *AS_OF, cluster])
    _check_output(["ids", "--transactional-id", "tx", *AS_OF, cluster])


def _check_output(arguments: list[object]) -> None:
    shown = run_command(*arguments, terminal=True)
    for text in (shown.out.decode("utf-8", "replace"), shown.err):
        _check_terminal(text, arguments)
    if "csv-safe" in arguments:
        check_spreadsheet(run_command(*arguments).out.decode(), arguments)


def _check_terminal(text: str, arguments: list[object]) -> None:
    """Require that text has no character on which a terminal acts, but line ends and tabs."""
    for character in set(text.replace("\r\n", "\n")) - {"\n", "\t"}:
        is_active = unicodedata.category(character) in {"Cc", "Zl", "Zp"} or ord(character) in BIDIRECTIONAL
        require(not is_active, "a terminal acts on", character, "of", arguments, _around(text, character))


def _around(text: str, part: str) -> str:
    at = text.find(part)
    return repr(text[max(0, at - 80) : at + 80])


def check_spreadsheet(text: str, arguments: list[object]) -> None:
    """Require that no cell is a formula; spreadsheets ignore white space before one."""
    for row in csv.reader(io.StringIO(text, newline="")):
        for cell in row:
            is_formula = cell.strip().startswith(("=", "+", "-", "@")) and not re.fullmatch(r"-?\d+(\.\d+)?", cell)
            require(not is_formula, "a spreadsheet runs", cell, "of", arguments)


def _check_report(cluster: Path, scratch: Path) -> None:
    store, page = scratch / "store", scratch / "page.html"
    run_command("audit", "--records", *AS_OF, "--output", store, cluster)
    run_command("report", "--output", page, store)
    check_page(page.read_text(encoding="utf-8"))


def check_page(text: str) -> None:
    """Require that no element, handler or address of a page comes from the evidence."""
    page = _Page()
    page.feed(text)
    page.close()
    require(page.scripts > 0, "the page has no data")


class _Page(HTMLParser):
    """Looks for what hostile text would add to a page."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        require(tag != TAG, "an element of the page is from the evidence, line", self.getpos())
        for name, value in attrs:
            is_active = name.startswith("on") or (name in {"href", "src"} and "script:" in (value or ""))
            require(not is_active, "an attribute of the page is active:", tag, name, value or "")

    def handle_comment(self, data: str) -> None:
        require(TAG not in data, "a comment of the page is from the evidence:", data)
