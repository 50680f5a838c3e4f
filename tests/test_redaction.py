"""``--redact``: nothing that a cluster keeps to itself is in the output of any command that has the option."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kforensics.render.payloads import Redactor
from kforensics.render.redaction import NameKind, Redaction, _words_of_sentences
from tests.command import SAMPLES, run, sentence
from tests.report_html.unpacked import block
from tests.thorough import some

REDACT = ("--redact", "--redact-names", "--quiet", "--no-config")
NAMES = ("transactionalId", "group", "memberId", "clientId", "clientHost", "groupInstanceId", "leader", "topic")
FORMATTERS = ("transaction-log", "offsets", "group-metadata")
# Shorter values occur by chance.
SHORTEST = 4


def names_in(value: Any, field: str = "") -> Iterator[str]:
    """Yield the names that a record of an internal topic has, as kafka-console-consumer shows it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from names_in(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner, field)
    elif isinstance(value, str) and field in NAMES:
        yield value.removeprefix("/")


def secrets_of(sample: Path) -> set[str]:
    """Return the ids, groups, hosts, topics, keys and values of a sample, as ``dump`` shows them."""
    secrets: set[str] = set()
    for formatter in FORMATTERS:
        for row in run("dump", "--quiet", "--formatter", formatter, sample).objects:
            secrets.update(names_in(row))
    for row in run("dump", "--quiet", "--records", "--format", "ndjson", sample).objects:
        if row["topic"].startswith("__") or row["control_type"]:
            continue
        secrets |= {row["topic"], row["key"] or "", row["value"] or ""}
    texts = (one for one in secrets if len(one) >= SHORTEST and one.isprintable() and not one.isdecimal())
    return {one for one in texts if not one.startswith("__")}


def outputs_of(sample: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what each command writes of a sample, redacted."""
    audit = ("audit", *REDACT, "--records")
    yield "audit", run(*audit, "--all", "--output", folder / "store", sample).text
    yield "audit -v", run(*audit, "-v", "--all", sample).text
    yield "audit json", run(*audit, "--format", "json", sample).text
    for selection in (("--severity", "info"), ("--code", "txn-late", "--code", "unclean-election-loss")):
        yield f"audit {selection}", run(*audit, "-v", "--all", *selection, sample).text
        yield f"audit json {selection}", run(*audit, *selection, "--format", "json", sample).text
    yield "audit csv", run(*audit, "--format", "csv", "--table", "findings", sample).text
    yield "manifest", (folder / "store/manifest.json").read_text()
    for file in (folder / "store").rglob("*.parquet"):
        data = file.read_bytes()
        yield f"bytes of {file.parent.name}", data.decode("utf-8", "replace")
        yield f"cells of {file.parent.name}", repr(pq.read_table(file).to_pylist())
    run("audit", "--quiet", "--no-config", "--records", "--output", folder / "plain", sample)
    run("report", *REDACT, folder / "plain", "--output", folder / "report.html")
    page = (folder / "report.html").read_text()
    yield (
        "report",
        re.sub(r"<(style|script)\b.*?</\1>| class=\"[^\"]*\"", "", page, flags=re.DOTALL),
    )  # words of every report
    yield "report data", block(page, "data")
    for table in ("records", "files", "batches", "transactions", "properties", "checkpoints"):
        query = f"FROM {table}"
        yield f"query {table}", run("query", *REDACT, "--format", "json", "--logs", sample, query).text
    for table in ("findings", "incidents", "group_offsets", "transactional_ids", "cluster_image", "cluster_events"):
        query = f"FROM {table}"
        yield f"query {table} of the store", run("query", *REDACT, "--format", "json", folder / "plain", query).text
    for partition in sorted(sample.glob("*/*-0"))[:4]:
        for words in (("--offset", "0"), ("--offset", "0:"), ("--offset", "0", "--format", "json")):
            yield f"explain {partition.name} {words}", run("explain", *REDACT, *words, partition).text


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    some(["transactions-v2", "exactly-once-clients", "consume-transform-produce", "groups", "unclean-election"], 3),
)
def test_no_secret_of_a_sample_is_in_any_output(name: str, tmp_path: Path) -> None:
    """Names that are common words, such as open, are looked for where they are names: before a number, in quotes."""
    sample, words = SAMPLES / name, _words_of_sentences()
    secrets = secrets_of(sample)
    assert len(secrets) > SHORTEST
    common = secrets & words
    plain = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(secrets - common)))})(?!\w)")
    as_name = re.compile(
        rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(common))) or '$.'})-\d|/(?:{'|'.join(common)})-\d"
    )
    leaks = [
        (where, match[0])
        for where, text in outputs_of(sample, tmp_path)
        for match in (*plain.finditer(text), *as_name.finditer(text))
    ]
    assert leaks[:20] == []


def test_without_names_topics_groups_and_hosts_stay_readable() -> None:
    text = run("audit", "--redact", "--quiet", "--no-config", SAMPLES / "transactions-v2").text
    assert "open-0" in text
    assert "open-first" not in text
    assert re.search(r"'id-[0-9a-f]{12}'", text)


def test_same_key_same_hashes_and_the_key_is_nowhere(tmp_path: Path) -> None:
    """A key file makes runs comparable; another key gives other hashes."""
    key, other = tmp_path / "key-of-the-case", tmp_path / "other"
    key.write_text("not-to-be-shown")
    other.write_text("another one")
    words = (
        "--redact",
        "--redact-names",
        "--quiet",
        "--no-config",
        "--as-of",
        "2026-11-22",
        SAMPLES / "transactions-v2",
    )
    first, again, differing = (
        run("audit", "--redact-key-file", file, "--output", tmp_path / f"store-{number}", *words).text
        for number, file in enumerate((key, key, other))
    )
    assert first == again
    assert first != differing
    manifest = (tmp_path / "store-0/manifest.json").read_text()
    assert "not-to-be-shown" not in first + manifest
    assert "key-of-the-case" not in first + manifest
    assert json.loads(manifest)["options"]["redact"]


def test_a_key_has_the_hash_of_dump_in_every_command(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret of the case")
    partition = SAMPLES / "transactions-v2/broker-1/open-0"
    options = ("--redact", "--redact-key-file", key)
    dumped = run("dump", "--quiet", "--records", "--format", "ndjson", "--offset", "3", *options, partition).objects
    explained = run("explain", "--quiet", "--no-config", "--offset", "3", *options, partition).text
    sql = 'SELECT "key" FROM records WHERE "offset" = 3'
    queried = run("query", "--quiet", "--no-config", "--format", "ndjson", *options, "--logs", partition, sql).objects
    assert f"'{dumped[0]['key']}'" in explained
    assert [row["key"] for row in queried] == [dumped[0]["key"]]


def test_sql_sees_hashes_only() -> None:
    """Otherwise an expression could take a value apart."""
    sql = "SELECT count(*) AS n FROM records WHERE \"key\" = 'key-3'::BLOB OR topic = 'open'"
    words = ("query", *REDACT, "--format", "ndjson", "--logs", SAMPLES / "transactions-v2", sql)
    assert run(*words).objects[0]["n"] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("audit", "--redact-names", "x"), "--redact-names is for --redact; add --redact"),
        (("report", "--redact-key-file", "x", "x", "-o", "y"), "--redact-key-file is for --redact; add --redact"),
        (("audit", "--redact", "--engine", "spark", "x"), "--redact is for --engine process"),
        (("explain", "--redact", "--group", "x", "x"), "--redact is not for --group"),
        (("audit", "--redact", "--since", "2h", "x"), "leave out --since or --redact"),
    ],
)
def test_what_does_not_go_together(words: tuple[str, ...], why: str) -> None:
    assert why in sentence(run(*words, *(() if words[0] == "report" else ("--no-config",))))


@pytest.mark.parametrize("name", ["it's", 'a "b" c', "ünïcode", "back\\slash", "tab\there", "$(x)`y`", "a{b}"])
def test_unusual_names_are_found_however_they_are_spelt(name: str) -> None:
    """Messages quote them, commands too, evidence is JSON."""
    from kforensics.forensics.core.commands import shell_word

    redaction = Redaction(Redactor(b"k"), hides_names=True)
    redaction.add(NameKind.ID, name)
    token = redaction.name(NameKind.ID, name)
    assert redaction.text(f"The transaction of {name!r} hangs.") == f"The transaction of '{token}' hangs.".replace(
        "'", repr(name)[0]
    )
    assert token in redaction.cell("remedy", f"`tool --transactional-id {shell_word(name)}`")
    assert json.loads(redaction.cell("evidence", json.dumps({"transactional_id": name, "epoch": 3}))) == {
        "transactional_id": token,
        "epoch": 3,
    }
    assert redaction.cell("path", f"/data/{name}-0/x.log") == f"/data/{token}-0/x.log"


def test_a_longer_name_is_not_taken_for_a_shorter_one() -> None:
    redaction = Redaction(Redactor(b"k"), hides_names=True)
    redaction.add(NameKind.TOPIC, "shop")
    redaction.add(NameKind.TOPIC, "shop-eu")
    shop, europe = (redaction.name(NameKind.TOPIC, name) for name in ("shop", "shop-eu"))
    assert redaction.text("shop-eu-1 and shop-1, workshop") == f"{europe}-1 and {shop}-1, workshop"


def test_names_of_digits_and_of_internal_topics() -> None:
    redaction = Redaction(Redactor(b"k"), hides_names=True)
    for name in ("1234", "__transaction_state", "open"):
        redaction.add(NameKind.TOPIC, name)
    token, opened = redaction.name(NameKind.TOPIC, "1234"), redaction.name(NameKind.TOPIC, "open")
    assert redaction.names_in("/d/1234-0/a.log") == f"/d/{token}-0/a.log"
    assert redaction.text("offset 1234 of '1234'") == f"offset 1234 of '{token}'"
    assert redaction.text("__transaction_state-0 is read") == "__transaction_state-0 is read"
    assert redaction.text("open-1 has an open transaction") == f"{opened}-1 has an open transaction"
