"""The options that every command on partitions has: what they select, and how they are refused."""

from __future__ import annotations

import json
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kforensics.analyses.times import Since, since_time, time_zone
from kforensics.analyses.topics import is_selected
from kforensics.cli import COMMANDS, app
from kforensics.errors import UsageError
from kforensics.forensics.core.cluster_tables import ID_TABLES
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.explain.story_tables import EXPLAIN_TABLES
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.formats import time_names
from tests.command import ROOT, SAMPLES, run, sentence
from tests.forensics.forge import file_of, forge, patch

BROKER = SAMPLES / "transactions-v2" / "broker-1"
MIRRORED = ROOT / "tests" / "data" / "mirror"
AS_OF = ("--as-of", "2026-11-21T12:30")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_short_options_that_users_try_first(command: str) -> None:
    group: Any = get_command(app)
    declared = {word: parameter.opts for parameter in group.commands[command].params for word in parameter.opts}
    pairs = [("--output", "-o"), ("--quiet", "-q"), ("--verbose", "-v")]
    assert "--output" in declared
    assert [long for long, short in pairs if long in declared and short not in declared[long]] == []
    assert run(command, "-h").out == run(command, "--help").out != b""


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        ([], ["orders", "pay-test", "payments"]),
        (["pay*"], ["pay-test", "payments"]),
        (["pay*", "!pay-test"], ["payments"]),
        (["!pay*"], ["orders"]),
        (["orders", "payments"], ["orders", "payments"]),
    ],
)
def test_topics_are_selected_by_globs(patterns: list[str], selected: list[str]) -> None:
    assert [topic for topic in ("orders", "pay-test", "payments") if is_selected(topic, patterns)] == selected


def test_globs_and_numbers_select_partitions(tmp_path: Path) -> None:
    for topic in ("orders", "payments"):
        for number in range(3):
            forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", topic=topic, partition=number)

    def places(*words: str) -> list[tuple[str, int]]:
        rows = run("lso", "--quiet", "--format", "ndjson", *words, tmp_path).rows("lso")
        return [(row["topic"], row["partition"]) for row in rows]

    assert places("--topic", "pay*") == [("payments", number) for number in range(3)]
    assert places("--topic", "!pay*", "--partition", "1-9") == [("orders", 1), ("orders", 2)]
    assert places("--partition", "0", "--partition", "2", "--topic", "orders") == [("orders", 0), ("orders", 2)]
    assert "no topic 'paymnts'; did you mean payments?" in sentence(run("lso", "--topic", "!paymnts", tmp_path))
    assert "--partition '1-' is not a number or a range" in sentence(run("lso", "--partition", "1-", tmp_path))


def test_findings_are_selected_before_they_fail_a_command() -> None:
    critical = run("verify", "-q", *AS_OF, "--format", "ndjson", "--severity", "critical", SAMPLES / "damaged")
    assert {row["severity"] for row in critical.objects} == {"critical"}
    of_code = run("lso", "-q", *AS_OF, "--format", "ndjson", "--code", "lso-stuck", BROKER)
    assert [row["topic"] for row in of_code.objects] == ["hanging", "open"]
    assert run("verify", "-q", *AS_OF, "--code", "index-absent", SAMPLES / "damaged" / "batches").code == 0
    assert "no code 'lso-stuk'; did you mean lso-stuck?" in sentence(run("scan", "--code", "lso-stuk", BROKER))


@pytest.mark.parametrize("option", [("--severity", "error"), ("--code", "lso-stuck")], ids=lambda option: option[0])
def test_what_has_no_findings_is_not_selected_by_findings(option: tuple[str, str]) -> None:
    for words in (("keys",), ("settings",), ("producers", "--at", 3), ("transactions", "--cost")):
        refused = sentence(run(*words, *option, BROKER))
        assert f"{option[0]} selects findings, and this command shows no" in refused


@pytest.mark.parametrize("command", ["transactions", "producers"])
def test_rows_are_those_of_partitions_with_selected_findings(command: str) -> None:
    def places(*words: object) -> set[str]:
        return {row["topic"] for row in run(command, *AS_OF, "--format", "ndjson", *words, BROKER).objects}

    assert {"hanging", "open", "committed"} <= places()
    assert places("--code", "lso-stuck") == {"hanging", "open"}
    assert places("--severity", "critical") == {"hanging", "open"}
    assert places("--code", "txn-hanging") == {"hanging"}
    document = run(command, *AS_OF, "--format", "json", "--code", "txn-hanging", BROKER).text
    assert [row["code"] for row in json.loads(document)["tables"]["findings"]] == ["txn-hanging"]


def test_what_happened_since(tmp_path: Path) -> None:
    early, late = "ts 1700000000000", "ts 1700007200000"
    open_early = f"D 3 0 0-0 @0-0 T {early}"
    folder = forge(tmp_path, f"{open_early}; D 1 0 0-1 @1-2 T {early}; M 1 0 C 3 @3; D 2 0 0-0 @4-4 N {late}")
    words = ("--quiet", "--as-of", 1_700_007_260_000, "--since", "1h", "--format", "ndjson", folder)
    assert [row["producer_id"] for row in run("transactions", *words).objects] == [3]
    assert [row["producer_id"] for row in run("producers", *words).objects] == [2]
    assert "--since selects what has a time of its own" in sentence(run("lso", "--since", "1h", folder))


def test_an_audit_since_a_time_has_damage_however_old_it_is(tmp_path: Path) -> None:
    """Damaged bytes are still there, whenever they were written; so are the incidents of what is shown."""
    early, late = "ts 1700000000000", "ts 1700007200000"
    for partition, at in enumerate((early, late)):
        patch(file_of(forge(tmp_path, f"plain @0-0 {at}; plain @1-1 {at}", partition=partition)), 1, crc=1)
    forge(tmp_path, f"D 1 0 0-0 @0-0 N {early}; D 1 0 5-5 @1-1 N {early}; D 1 0 9-9 @2-2 N {late}", partition=2)
    options = ("--quiet", "--as-of", 1_700_007_260_000, "--since", "1h", "--format", "json", tmp_path)
    tables = json.loads(run("audit", *options).out)["tables"]
    shown = {(row["code"], row["partition"]) for row in tables["findings"] if row["severity"] != "info"}
    assert shown == {("batch-crc-mismatch", 0), ("batch-crc-mismatch", 1), ("seq-gap", 2)}
    incidents = {row["kind"]: row["findings"] for row in tables["incidents"] if row["severity"] != "info"}
    assert incidents == {"corrupt-bytes": 2, "sequence-gap": 1}


def test_an_audit_of_what_began_since_a_time_has_what_is_not_over(tmp_path: Path) -> None:
    """A sequence that is reused long ago is left out; the transaction that is open since then is not."""
    early, late = "ts 1700000000000", "ts 1700007200000"
    reused = f"D 1 0 0-1 @0-1 N {early}; D 1 0 0-1 @2-3 N {early}; D 2 0 0-1 @4-5 N {late}; D 2 0 0-1 @6-7 N {late}"
    forge(tmp_path, reused)
    forge(tmp_path, f"D 3 0 0-0 @0-0 T {early}", partition=1)
    at = ("--quiet", "--as-of", 1_700_007_260_000)
    for command, since, producers in (
        ("audit", "1h", {2, 3}),
        ("audit", "3h", {1, 2, 3}),
        ("scan", "1700000000001", {2, 3}),
        ("scan", "1700007200001", {3}),
    ):
        ended = run(command, *at, "--since", since, "--format", "json", tmp_path)
        findings = json.loads(ended.out)["tables"]["findings"]
        assert {row["producer_id"] for row in findings} == producers, (command, since)
        incidents = [json.loads(row["producer_ids"]) for row in json.loads(ended.out)["tables"]["incidents"]]
        assert {producer for ids in incidents for producer in ids} == producers
    assert run("audit", *at, "--since", "1h", tmp_path).lines[0].startswith("CRITICAL, 2 incidents with --since 1h: ")


@pytest.mark.parametrize(
    ("text", "since"), [("2h", Since(duration_ms=7_200_000)), ("1700000000000", Since(1_700_000_000_000))]
)
def test_since_is_a_duration_or_a_time(text: str, since: Since) -> None:
    assert since_time(text) == since


def test_since_is_nothing_else() -> None:
    with pytest.raises(UsageError, match="neither a duration nor a time"):
        since_time("yesterday")


def test_times_are_in_the_time_zone_but_not_what_the_log_contains() -> None:
    words = ("transactions", "-q", *AS_OF, "--wide", BROKER / "open-0")
    assert "2026-11-21 12:05:24 UTC" in run(*words).text
    assert "2026-11-21 14:05:24 UTC+02:00" in run(*words, "--tz", "+02:00").text
    assert "2026-11-21 13:05:24 CET" in run(*words, "--tz", "Europe/Berlin").text
    machine = ("lso", "-q", "--as-of", "2026-11-21T12:30Z", "--format", "ndjson", BROKER)
    assert run(*machine).out == run(*machine, "--tz", "Europe/Berlin").out
    in_zone = run("lso", "-q", "--as-of", "2026-11-21T13:30", "--tz", "Europe/Berlin", "--format", "ndjson", BROKER)
    assert in_zone.out == run(*machine).out


def test_there_is_no_such_time_zone() -> None:
    with pytest.raises(UsageError, match=r"did you mean .*Europe/Berlin"):
        time_zone("Europe/Berln")


def test_an_error_is_json_where_results_are() -> None:
    ended = run("lso", "--format", "json", "--topic", "opn", BROKER)
    assert (ended.code, ended.out) == (2, b"")
    assert json.loads(ended.err) == {
        "schema": "kforensics/1",
        "error": {"kind": "usage", "message": "no topic 'opn'; did you mean open?", "exit_code": 2},
    }


def test_sentences_are_json_lines_on_demand() -> None:
    lines = run("lso", "-v", "--as-of", "now", "--log-format", "json", BROKER).err.splitlines()
    messages = [json.loads(line)["message"] for line in lines]
    assert [message.partition(":")[0] for message in messages] == [
        "evidence",
        "logs of coordinators and of the metadata beside them",
        "settings given",
        "time of evaluation",
    ]


def test_an_unknown_transactional_id_is_answered_with_a_similar_one() -> None:
    assert "did you mean hanging?" in sentence(run("explain", "-q", "--transactional-id", "hangin", BROKER))


def test_an_audit_writes_one_table_where_there_is_room_for_one() -> None:
    words = ("audit", "-q", *AS_OF, BROKER / "open-0")
    every = json.loads(run(*words, "--format", "json").text)["tables"]
    for table, options in (("incidents", ()), ("findings", ("--table", "findings"))):
        written = run(*words, "--format", "csv", *options)
        names = [name for name in every[table][0] if name not in ("since_time", "first_time")]
        assert written.lines[0].split(",") == names
        assert len(written.lines) == 1 + len(every[table])


def test_an_audit_reports_the_incidents_of_the_selected_findings() -> None:
    words = ("audit", "-q", *AS_OF, BROKER)
    every = json.loads(run(*words, "--format", "json").text)["tables"]["incidents"]
    some = run(*words, "--format", "ndjson", "--table", "incidents", "--code", "txn-hanging").rows("incidents")
    assert [row["incident"] for row in some] == [
        row["incident"] for row in every if "txn-hanging" in json.loads(row["codes"])
    ]
    assert 0 < len(some) < len(every)


def test_an_audit_writes_a_chosen_table() -> None:
    words = ("audit", "-q", *AS_OF, BROKER / "open-0")
    every = json.loads(run(*words, "--format", "json").text)["tables"]
    rows = run(*words, "--format", "ndjson", "--table", "lso").rows("lso")
    assert [row | {"last_time": "2026-11-21T12:05:24.876Z"} for row in rows] == [
        {"table": "lso"} | row for row in every["lso"]
    ]
    assert "no table 'transaction'; did you mean transactions" in sentence(
        run(*words, "--format", "csv", "--table", "transaction")
    )
    assert "--table is for rows" in sentence(run(*words, "--table", "lso"))


def test_a_json_document_has_findings_and_incidents_beside_its_rows_and_ndjson_stays_lean() -> None:
    for command, tables in (
        ("lso", ["lso", "findings", "incidents"]),
        ("duplicates", ["duplicates", "findings", "incidents"]),
        ("keys", ["key_partitions", "findings", "incidents"]),
        ("scan", ["partitions", "findings", "incidents"]),
        ("verify", ["findings", "incidents"]),
        ("transactions", ["transactions", "findings", "incidents"]),
        ("producers", ["producers", "findings", "incidents"]),
    ):
        words = (
            command,
            "-q",
            *AS_OF,
            BROKER / "open-0",
            SAMPLES / "damaged" / "batches" / "written-twice-0",
            "--format",
        )
        document = json.loads(run(*words, "json").text)
        assert document["schema"] == "kforensics/1"
        assert [*document["tables"]] == tables
        lean = run(*words, "ndjson").objects
        assert {row.pop("table") for row in lean} <= {tables[0]}
        assert [{name: row[name] for name in lean[0]} for row in document["tables"][tables[0]]] == lean
    audit = json.loads(run("audit", "-q", *AS_OF, BROKER / "open-0", "--format", "json").text)["tables"]
    scan = json.loads(run("scan", "-q", *AS_OF, BROKER / "open-0", "--format", "json").text)["tables"]
    assert (scan["findings"], scan["incidents"]) == (audit["findings"], audit["incidents"])
    lso = json.loads(run("lso", "-q", *AS_OF, BROKER / "open-0", "--format", "json").text)["tables"]
    same = ("kind", "severity", "since", "what", "impact", "transactional_ids", "partitions", "remedy")
    said = [{name: row[name] for name in same} for row in lso["incidents"]]
    assert said == [{name: row[name] for name in same} for row in audit["incidents"]]
    assert said[0]["transactional_ids"] == '["open-first"]'


@pytest.mark.parametrize(
    "folder",
    [BROKER, SAMPLES / "unclean-election", ROOT / "tests" / "data" / "coordinator-growth"],
    ids=attrgetter("name"),
)
def test_three_commands_have_the_same_findings_on_open_transactions(folder: Path) -> None:
    words = ("-q", *AS_OF, "--format", "json", folder)
    ended = {command: run(command, *words) for command in ("lso", "transactions", "producers")}
    documents = {command: json.loads(each.text)["tables"] for command, each in ended.items()}
    expected = documents["lso"]["findings"], documents["lso"]["incidents"]
    # That election left no transaction open.
    assert bool(expected[0]) == (folder.name != "unclean-election")
    for command in ("transactions", "producers"):
        assert (documents[command]["findings"], documents[command]["incidents"]) == expected
        assert ended[command].code == 0


def test_earlier_producers_have_no_findings_of_today() -> None:
    document = json.loads(run("producers", "-q", *AS_OF, "--at", 1, "--format", "json", BROKER / "open-0").text)
    assert document["tables"]["findings"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("groups", SAMPLES / "groups"),
        ("ids", BROKER),
        ("settings", BROKER),
        ("transactions", "--cost", BROKER),
        ("forecast", BROKER),
        ("mirror", MIRRORED / "source", MIRRORED / "target"),
        ("dump", BROKER / "open-0"),
    ],
    ids=lambda words: words[0],
)
def test_a_document_of_a_command_that_judges_nothing_has_no_table_of_findings(words: tuple[object, ...]) -> None:
    """An empty one would read as clean."""
    tables = json.loads(run(*words, "--format", "json").text)["tables"]
    assert tables
    assert tables.keys().isdisjoint(("findings", "incidents"))


def test_a_json_document_has_times_as_text_beside_those_in_ms() -> None:
    words = ("transactions", "-q", *AS_OF, "--format", "json", BROKER / "open-0")
    rows = json.loads(run(*words).text)["tables"]["transactions"]
    (opened,) = (row for row in rows if row["first_offset"] == 4)
    assert (opened["first_timestamp"], opened["first_time"]) == (1_795_262_724_866, "2026-11-21T12:05:24.866Z")
    assert (opened["marker_timestamp"], opened["marker_time"]) == (None, None)


def test_no_time_as_text_replaces_a_column() -> None:
    for table in (*TABLES.values(), *RESULTS.values(), *EXPLAIN_TABLES.values(), *ID_TABLES.values()):
        names = time_names(table)
        assert len({*table.names, *names.values()}) == len(table.names) + len(names), table.name
        in_ms = {column.name for column in table.columns if re.search(r"\btime.* in ms|when .*in ms", column.doc)}
        assert in_ms <= {*names, "transaction_timeout_ms", "duration_ms", "age_ms"}, table.name


@pytest.mark.parametrize("command", [*COMMANDS])
def test_options_have_the_same_short_names_everywhere(command: str) -> None:
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]  # typer names no class for a group
    short = {"--output": "-o", "--quiet": "-q", "--verbose": "-v"}
    names = [option for parameter in parameters for option in parameter.opts]
    assert [name for name in short if name in names] != []
    assert [name for name in short if name in names and short[name] not in names] == []


def test_forecast_mirror_and_dump_take_what_other_commands_take() -> None:
    compared = ("mirror", MIRRORED / "source", MIRRORED / "target")
    assert "checkpoint of 2026-11-27 03:45:08.197 UTC" in run(*compared).text
    assert "checkpoint of 2026-11-27 04:45:08.197 CET" in run(*compared, "--tz", "Europe/Berlin").text
    for words in (compared, ("forecast", "--tz", "+02:00", BROKER)):
        lines = run(*words, "-q", "-vv").err.splitlines()
        assert lines[0].startswith("evidence: ")
        assert re.fullmatch(r"[a-z, ]+: \d+\.\d\d s", lines[-1])
    damaged = SAMPLES / "damaged" / "batches" / "flipped-crc-bit-0"
    messages = [json.loads(line)["message"] for line in run("dump", "--log-format", "json", damaged).err.splitlines()]
    assert any("flipped-crc-bit-0" in message for message in messages)


@pytest.mark.parametrize("command", ["lso", "forecast", "dump"])
def test_there_is_no_such_log_format(command: str) -> None:
    assert "--log-format 'xml' is not one of text, json" in sentence(run(command, "--log-format", "xml", BROKER))


# For each command that writes what it shows to a file, words of a short result.
SHORT: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("scan", "lso", "transactions", "producers", "duplicates", "verify"), (BROKER / "hanging-0",)),
    **dict.fromkeys(("settings", "ids", "groups", "cluster", "forecast"), (BROKER,)),
    "keys": (SAMPLES / "partition-growth",),
    "dump": (BROKER / "hanging-0" / "00000000000000000000.log",),
    "explain": ("--offset", 3, BROKER / "hanging-0"),
    "mirror": (MIRRORED / "source", MIRRORED / "target"),
    "query": ("--logs", BROKER / "hanging-0", "SELECT topic FROM lso"),
}


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"audit", "collect", "plot", "report"}))
def test_an_output_named_by_a_hyphen_is_standard_output(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for output_format in ("csv", "text"):
        words = (command, "--format", output_format, *SHORT[command])
        assert run(*words, "-o", "-").out == run(*words).out != b""
        assert [*tmp_path.iterdir()] == []
    assert run(*words, "-o", tmp_path / "-").out == b""  # the way to a file of that name
    assert [path.name for path in tmp_path.iterdir()] == ["-"]


def test_a_configured_hyphen_is_standard_output_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kforensics.toml").write_text('[lso]\noutput = "-"\n')
    assert b"hanging" in run("lso", "--config", "kforensics.toml", BROKER / "hanging-0").out
    assert not Path("-").exists()


def test_a_report_goes_to_standard_output_and_what_is_no_stream_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("audit", "--output", "store", BROKER / "hanging-0").code == 1
    page = run("report", "store", "--output", "page.html", "--fail-on", "never")
    shown = run("report", "store", "--output", "-", "--fail-on", "never")
    assert shown.out == Path("page.html").read_bytes()
    assert shown.err == page.err.replace("; the report is in page.html", "")
    for command in (("audit", BROKER), ("collect", BROKER), ("plot", "lso", BROKER / "hanging-0")):
        assert "name" in sentence(run(*command, "-o", "-"))
    assert not Path("-").exists()
