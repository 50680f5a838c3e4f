"""``kforensics dump``: options, error messages and exit codes."""

import csv
import io
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.errors import InputError
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.files import discover as parsers
from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.tables.schemas import TABLES, arrow_schema
from kforensics.render.formats import Format, time_names
from lab.damage import forge
from tests.command import CLASSIC, DAMAGED, SAMPLES, dump, sentence

NOISE = DAMAGED / "batches" / "noise-between-0"
HEADERS = SAMPLES / "records" / "broker-1" / "headers-0"
FORMATS = [each for each in Format if each is not Format.TEXT]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Return a copy of a healthy partition."""
    return Path(shutil.copytree(CLASSIC.parent, tmp_path / "orders-0"))


def log(folder: Path, *batches: bytes, name: str = "t-0/00000000000000000000.log") -> Path:
    """Write a log of given batches."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(batches))
    return path


# Inputs


def test_a_file_in_plain_style() -> None:
    ended = dump(CLASSIC)
    assert ended.code == 0
    assert ended.err == ""
    assert ended.lines[:2] == [f"Dumping {CLASSIC}", "Log starting offset: 0"]
    assert [line.split()[1] for line in ended.lines[2:]] == ["0", "1"]


def test_records_with_their_contents() -> None:
    lines = dump("--print-data-log", CLASSIC).lines
    assert re.fullmatch(r"\| offset: 0 .* sequence: 0 headerKeys: \[\] key: key payload: value", lines[3])
    assert lines[5].endswith("endTxnMarker: COMMIT coordinatorEpoch: 0")


def test_files_and_paths_can_be_mixed_and_nothing_is_dumped_twice(partition: Path) -> None:
    index, snapshot = partition / "00000000000000000000.timeindex", partition / "00000000000000000002.snapshot"
    ended = dump("--files", f"{index},{snapshot},", partition / "leader-epoch-checkpoint", index)
    assert [line for line in ended.lines if line.startswith("Dumping")] == [
        f"Dumping {index}",
        f"Dumping {snapshot}",
        f"Dumping {partition / 'leader-epoch-checkpoint'}",
    ]


def test_a_folder_is_dumped_file_by_file(partition: Path) -> None:
    dumped = [line.removeprefix("Dumping ") for line in dump(partition).lines if line.startswith("Dumping ")]
    assert dumped == sorted(str(path) for path in partition.iterdir())


def test_a_glob_finds_files(partition: Path) -> None:
    assert dump(partition.parent / "*" / "*.log").lines[0] == f"Dumping {partition / CLASSIC.name}"


def test_a_uri_is_dumped_like_the_file(partition: Path) -> None:
    path = partition / CLASSIC.name
    by_uri, by_path = dump("--print-data-log", path.as_uri()), dump("--print-data-log", path)
    assert by_uri.lines[0] == f"Dumping {path.as_uri()}"
    assert by_uri.lines[1:] == by_path.lines[1:]
    folder = dump("--format", "ndjson", "--records", partition.as_uri())
    assert [row["offset"] for row in folder.objects] == [0, 1]


def test_a_log_with_an_unknown_name_is_read_as_a_log(partition: Path) -> None:
    strange = (partition / CLASSIC.name).rename(partition / "evidence.bin")
    assert "baseOffset: 1" in dump(strange).text
    assert [row["offset"] for row in dump("--format", "ndjson", "--records", strange).objects] == [0, 1]


def test_a_file_named_by_the_user_has_the_kind_of_its_suffix_even_if_damaged(tmp_path: Path) -> None:
    damaged = DAMAGED / "batches" / "first-batch-damaged-0" / CLASSIC.name
    named = Path(shutil.copy(damaged, tmp_path / "copy.log"))
    ended = dump(named)
    assert ended.code == 1
    assert [line.split()[1] for line in ended.lines[1:]] == [line.split()[1] for line in dump(damaged).lines[2:]]
    # Under a folder, a file with such a name may belong to any program, unless batches are in it.
    assert dump(tmp_path).lines == ended.lines


@pytest.mark.parametrize("bad", [b"\xff" * 7, bytes(100), b"text before the log\n"])
@pytest.mark.parametrize("name", ["evidence.bin", CLASSIC.name])
def test_batches_after_bad_first_bytes_are_printed(name: str, bad: bytes, tmp_path: Path) -> None:
    strange = tmp_path / name
    strange.write_bytes(bad + CLASSIC.read_bytes())
    for path in (strange, tmp_path):
        ended = dump(path)
        assert ended.code == 1
        assert f"bytes 0x0 to {len(bad):#x}" in ended.err
        batches = [line for line in ended.lines if line.startswith("baseOffset")]
        assert len(batches) == sum(line.startswith("baseOffset") for line in dump(CLASSIC).lines)
    rows = dump("--format", "ndjson", "--records", strange)
    assert rows.code == 1
    assert [row["offset"] for row in rows.objects if row.get("offset") is not None][:2] == [0, 1]


@pytest.mark.parametrize("words", [(), ("--format", "ndjson")])
def test_a_named_file_without_a_batch_cannot_be_read(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "torn.bin").write_bytes(CLASSIC.read_bytes()[5:60])
    ended = dump(*words, tmp_path / "torn.bin")
    assert ended.code == 3
    assert "no batch is anywhere in its 55 bytes" in ended.err
    assert dump(*words, tmp_path).code == 0
    (tmp_path / "torn.bin").write_bytes(b"")
    assert dump(*words, tmp_path / "torn.bin").code == 0


def test_the_sanity_check_reports_the_same_as_a_broker(tmp_path: Path) -> None:
    torn = SAMPLES / "crash-before-recovery" / "broker-1" / "torn-0"
    passed = dump("--index-sanity-check", torn / "00000000000000000000.index")
    assert (passed.code, passed.lines[1:]) == (0, [f"{torn / '00000000000000000000.index'} passed sanity check."])
    failed = dump("--index-sanity-check", torn / "00000000000000000000.timeindex")
    assert (failed.code, len(failed.lines)) == (1, 1)
    assert "has non-zero size but the last timestamp is 0 which is less than the first timestamp" in failed.err


def test_a_file_of_another_program_is_listed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk")
    ended = dump(tmp_path / "notes.txt")
    assert ended.lines == [f"Dumping {tmp_path / 'notes.txt'}", "(unknown: 8 bytes that hold nothing to decode)"]
    assert ended.code == 3


def test_a_dump_without_input_is_a_usage_error() -> None:
    assert sentence(dump()).endswith("name files or folders, as in: kforensics dump topic-0/*.log")
    assert sentence(dump("--files", ",")) == sentence(dump())


def test_a_missing_path_is_reported_and_the_others_are_dumped(tmp_path: Path) -> None:
    for words in ((), ("--quiet",), ("--format", "table")):
        ended = dump(tmp_path / "missing.log", tmp_path / "*.log", CLASSIC, *words)
        assert ended.code == 3
        assert ended.err.splitlines() == [
            f"cannot read {tmp_path / 'missing.log'}: there is no such file",
            f"cannot read {tmp_path / '*.log'}: there is no such file",
        ]
        assert str(CLASSIC) in ended.text


def test_an_empty_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = dump(tmp_path / "empty")
    assert (ended.code, ended.out) == (3, b"")
    assert ended.err == f"there is no file under {tmp_path / 'empty'}\n"


@contextmanager
def unprivileged_user() -> Iterator[None]:
    """Run as a user without read access to everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_forbidden_path_is_reported_and_the_others_are_dumped() -> None:
    dump(CLASSIC.parent)  # so that that user need not load any module
    with TemporaryDirectory() as folder:
        partition = Path(shutil.copytree(CLASSIC.parent, Path(folder) / "t-0"))
        Path(folder).chmod(0o755)
        (partition / CLASSIC.name).chmod(0)
        (partition / "closed").mkdir(0)
        with unprivileged_user():
            ended = dump(partition)
    assert ended.code == 3
    assert set(ended.err.splitlines()) >= {
        f"cannot read {partition / 'closed'}: permission denied; run as a user with read access, or copy it first",
        f"cannot read {partition / CLASSIC.name}: permission denied; run as a user with read access, or copy it first",
    }
    assert f"Dumping {partition / '00000000000000000002.snapshot'}" in ended.lines


def test_a_path_that_is_not_a_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("0.log")
        os.mkfifo("1.log")
        ended = dump("0.log", "1.log", CLASSIC)
    assert ended.code == 3
    assert len(re.findall("cannot read [01].log: it is a (socket|pipe)", ended.err)) == 2
    assert "baseOffset: 1" in ended.text


# Options of Kafka's tool


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--print-data-log"], "key: key payload: value"),
        (["--deep-iteration"], "headerKeys: []"),
        (["--skip-record-metadata", "--print-data-log"], "key: key payload: value"),
        (["--key-decoder-class"], "key: key payload: value"),
        (["--key-decoder-class", "--deep-iteration"], "key: key payload: value"),
        (["--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"], "key: key payload: value"),
        (["--key-decoder-class=org.apache.kafka.tools.api.StringDecoder"], "key: key payload: value"),
        (["--max-message-size", "10", "--print-data-log"], "key: key payload: value"),
        (["--offsets-decoder"], "headerKeys: []"),
        (["--transaction-log-decoder"], "headerKeys: []"),
        (["--cluster-metadata-decoder"], "headerKeys: []"),
        (["--remote-log-metadata-decoder"], "headerKeys: []"),
        (["--share-group-state-decoder"], "headerKeys: []"),
    ],
    ids=" ".join,
)
def test_options_of_kafkas_tool_are_accepted(words: list[str], expected: str) -> None:
    for style in ([], ["--style", "4.3"]):
        ended = dump(*style, "--files", CLASSIC, *words)
        assert expected in ended.text
        assert "Error" not in ended.err


@pytest.mark.parametrize("style", STYLES)
def test_a_style_prints_what_kafkas_tool_prints(style: str) -> None:
    ended = dump("--style", style, "--files", CLASSIC, "--print-data-log")
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0] == f"Dumping {CLASSIC}"
    assert "payload: value" in ended.text
    assert dump("--style", style, "--files", NOISE / CLASSIC.name).code == 1


@pytest.mark.parametrize("words", [("--print-data-log",), ("--records", "--format", "ndjson")], ids=["text", "rows"])
def test_no_more_of_a_batch_is_read_than_the_limit(words: tuple[str, ...]) -> None:
    ended = dump("--max-decompressed-bytes", 5, *words, CLASSIC)
    assert ended.code == 1
    assert "limit: decompressed data exceed 5 bytes; raise --max-decompressed-bytes to read on" in ended.err
    assert "value" not in ended.text


def test_an_index_is_only_verified() -> None:
    index = next(SAMPLES.glob("records/*/indexed-0/00000000000000000000.index"))
    assert dump("--verify-index-only", index).text == f"Dumping {index}\n"
    assert dump("--index-sanity-check", index).text == f"Dumping {index}\n{index} passed sanity check.\n"
    assert "passed sanity check" in dump("--style", "4.3", "--index-sanity-check", index).text
    assert "position: " in dump(index).text


def test_max_bytes_is_not_damage_in_text_or_rows() -> None:
    text = dump("--max-bytes", 100, CLASSIC)
    assert (text.code, text.err) == (0, "")
    assert len(text.lines) == 3
    rows = dump("--max-bytes", 100, "--format", "ndjson", "--batches", CLASSIC)
    assert [row["base_offset"] for row in rows.objects] == [0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--style", "5.0"], "--style '5.0' is not one of 4.3, 4.2, 3.9, 2.8, 2.7"),
        (["--style", "4.3", "--offset", "1:2"], "leave out filters and --format"),
        (["--style", "4.3", "--format", "json"], "leave out filters and --format"),
        (["--style", "4.3", "--limit", "1"], "leave out --limit"),
        (["--style", "4.3", "--topic", "t", "--partition", "0"], "leave out --topic, --partition"),
        (["--style", "4.3", "--records", "--redact"], "leave out --redact, --records"),
        (["--style", "4.3", "--key-format", "hex"], "leave out --key-format"),
        (["--format", "xml"], "--format 'xml' is not one of text, table, json, ndjson, csv, csv-safe, parquet, arrow"),
        (["--key-format", "ebcdic"], "--key-format 'ebcdic' is not one of utf8, hex, base64, int, long, json"),
        (["--value-format", ""], ""),
        (["--fail-on", "info"], "--fail-on 'info' is not one of warning, error, never"),
        (["--records"], "--records writes rows; add --format table|json|ndjson|csv|csv-safe|parquet|arrow"),
        (["--batches"], "--batches writes rows"),
        (["--format", "json", "--records", "--batches"], "choose one of --batches, --records"),
        (["--format", "json", "--verify-index-only"], "--verify-index-only changes text and not rows"),
        (["--format", "json", "--key-decoder-class"], "--key-decoder-class changes text and not rows"),
        (["--offset", "b:a"], "--offset 'b:a' is not a range; write --offset 100:200, 100:, :200 or 100"),
        (["--offset", "7:5"], "--offset '7:5' is not a range"),
        (["--offset", ":"], "--offset ':' is not a range"),
        (["--time", "yesterday:"], "--time 'yesterday:' is not a range; write --time 1700000000000:, 2026-"),
        (["--key", "k"], "--key selects records; add --print-data-log to show records"),
        (["--key", "k", "--format", "json"], "--key selects records; add --records to show records"),
        (["--key", "(", "--print-data-log"], "--key '(' is not a regular expression"),
        (["--redact-key-file", "f"], "--redact-key-file is for --redact; add --redact"),
        (["--redact", "--redact-key-file", "/no/such"], "cannot read /no/such: No such file or directory"),
        (["--key-decoder-class", "com.acme.Decoder"], "such a decoder cannot be loaded; there are org.apache.kafka"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_usage_error_is_one_sentence(words: list[str], message: str) -> None:
    if message:
        assert message in sentence(dump(CLASSIC, *words))
    else:
        assert dump(CLASSIC, *words).code == 0


@pytest.mark.parametrize("words", [["--limit", "-1"], ["--max-decompressed-bytes", "0"], ["--no-such"]], ids=" ".join)
def test_the_exit_code_of_an_error_of_typer_is_2(words: list[str]) -> None:
    ended = dump(CLASSIC, *words)
    assert (ended.code, ended.out) == (2, b"")
    assert words[0] in ended.err


# Rows


@pytest.mark.parametrize("wanted", FORMATS, ids=str)
@pytest.mark.parametrize("table", ["batches", "records", "damage"])
def test_every_table_in_every_format(table: str, wanted: Format, tmp_path: Path) -> None:
    output = tmp_path / "result"
    ended = dump("--format", wanted, f"--{table}", "--output", output, NOISE)
    assert (ended.code, ended.out) == (1, b"")
    content, expected = output.read_bytes(), {"batches": 5, "records": 15, "damage": 1}[table]
    match wanted:
        case Format.TABLE:
            assert content.startswith(f"{table} of {NOISE}".encode())
        case Format.JSON:
            assert len(json.loads(content)["tables"][table]) == expected
        case Format.NDJSON:
            assert sum(json.loads(line)["table"] == table for line in content.splitlines()) == expected
        case Format.CSV | Format.CSV_SAFE:
            header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
            assert (tuple(header), len(rows)) == (TABLES[table].names, expected)
        case Format.PARQUET:
            assert pq.read_table(output).num_rows == expected
        case _:
            assert pa.ipc.open_stream(content).read_all().num_rows == expected


def test_every_kind_of_file_has_a_table() -> None:
    tables = json.loads(dump("--quiet", "--format", "json", SAMPLES).text)["tables"]
    assert set(tables) == set(TABLES) - {"files", "records"}
    assert all(tables.values())
    for name, rows in tables.items():
        names = {*time_names(TABLES[name]).values()}
        assert all([member for member in row if member not in names] == [*TABLES[name].names] for row in rows), name


def test_header_values_are_in_rows() -> None:
    rows = dump("--format", "ndjson", "--records", "--value-format", "hex", HEADERS).objects
    assert rows[0]["headers"] == [{"key": "plain", "value": "74657874"}]
    assert {"key": "null", "value": None} in rows[1]["headers"]


def test_an_option_of_kafkas_tool_that_prints_records_selects_their_table() -> None:
    for option in ("--print-data-log", "--deep-iteration"):
        rows = dump("--format", "ndjson", option, CLASSIC).objects
        assert [row["table"] for row in rows] == ["records", "records"]


@pytest.mark.parametrize("wanted", ["csv", "parquet", "arrow"])
def test_two_tables_in_a_format_of_one_table_are_refused(partition: Path, wanted: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    message = sentence(dump("--format", wanted, "--output", output, partition))
    assert f"{wanted} has room for one; add --batches or --records, or name files of one kind" in message
    assert list(tmp_path.iterdir()) == [partition]


@pytest.mark.parametrize("wanted", FORMATS, ids=str)
def test_a_table_without_rows_is_complete(partition: Path, wanted: Format, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    output = tmp_path / "elsewhere" / "out"
    assert dump("--format", wanted, "--records", "--output", output, partition / "leader-epoch-checkpoint").code == 0
    if wanted is Format.PARQUET:
        assert pq.read_schema(output).remove_metadata() == _with_bytes()
    if wanted is Format.ARROW:
        assert pa.ipc.open_stream(output.read_bytes()).schema == _with_bytes()
    if wanted is Format.CSV:
        assert output.read_text().strip() == ",".join(TABLES["records"].names)


def _with_bytes() -> pa.Schema:
    return arrow_schema("records")


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (4, 4), (99, 15)])
def test_limit_counts_rows_and_record_lines(limit: int, expected: int) -> None:
    assert len(dump("--format", "ndjson", "--records", "--limit", limit, NOISE).rows("records")) == expected
    assert len([line for line in dump("--print-data-log", "--limit", limit, NOISE).lines if line[0] == "|"]) == expected


def test_limit_counts_batch_lines_if_no_records_are_printed() -> None:
    assert dump("--limit", 2, NOISE).text.count("baseOffset") == 2
    assert len(dump("--damage", "--format", "ndjson", "--limit", 3, DAMAGED / "batches").objects) == 3


@pytest.mark.parametrize(
    ("wanted", "shown"), [("utf8", "key"), ("hex", "6b6579"), ("base64", "a2V5"), ("int", "0x6b6579"), ("json", "key")]
)
def test_key_format_in_text_and_rows(wanted: str, shown: str) -> None:
    assert f" key: {shown} payload: value" in dump("--key-format", wanted, CLASSIC).text
    row = dump("--format", "ndjson", "--records", "--key-format", wanted, "--limit", 1, CLASSIC).objects[0]
    assert (row["key"], row["value"]) == (shown, "value")


# Redaction


@pytest.mark.parametrize(
    "words", [["--print-data-log"], *(["--records", "--format", each] for each in FORMATS)], ids=" ".join
)
def test_redaction_leaves_no_payload(words: list[str], tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert dump("--redact", *words, "--output", output, HEADERS / CLASSIC.name).code == 0
    content = output.read_bytes()
    if "parquet" in words:
        content = repr(pq.read_table(output).to_pylist()).encode()
    plain = dump("--records", "--format", "ndjson", "--value-format", "hex", "--key-format", "hex", HEADERS).objects
    payloads = {
        bytes.fromhex(part)
        for row in plain
        for part in (row["key"], row["value"], *(header["value"] for header in row["headers"]))
        if part and len(part) >= 8
    }
    assert len(payloads) > 10
    assert not [payload for payload in payloads if payload in content]
    assert b"redacted:" in content


def test_redaction_is_reproducible_with_the_same_secret_only(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(os.urandom(32))
    (tmp_path / "other").write_bytes(os.urandom(1000))
    (tmp_path / "none").write_bytes(b"\n")
    words = ("--print-data-log", "--redact", CLASSIC)
    one = dump(*words, "--redact-key-file", tmp_path / "one").out
    assert one == dump(*words, "--redact-key-file", tmp_path / "one").out
    assert one != dump(*words, "--redact-key-file", tmp_path / "other").out
    assert dump(*words).out != dump(*words).out
    assert "is empty; put a secret into it" in sentence(dump(*words, "--redact-key-file", tmp_path / "none"))


def test_redaction_shows_what_is_equal(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        forge.batch(0, [forge.record(0, b"a", b"x"), forge.record(1, b"a", None), forge.record(2, b"b", b"x")]),
    )
    rows = dump("--records", "--format", "ndjson", "--redact", path).objects
    assert rows[0]["key"] == rows[1]["key"] != rows[2]["key"]
    assert rows[0]["value"] == rows[2]["value"]
    assert rows[1]["value"] is None


def test_redaction_takes_precedence_over_decoders_of_internal_topics() -> None:
    (state,) = SAMPLES.glob("classic-transaction/*/__transaction_state-0/*.log")
    decoded, redacted = (dump("--transaction-log-decoder", *words, state).text for words in ((), ("--redact",)))
    assert "transactionalId" in decoded
    assert "transactionalId" not in redacted
    rows = dump("--transaction-log-decoder", "--redact", "--format", "ndjson", state).text
    assert "transactionalId" not in rows


# Damage and exit codes


def test_damage_is_reported_and_the_dump_continues_after_it() -> None:
    ended = dump(NOISE)
    assert ended.code == 1
    assert ended.err == (
        f"{NOISE / CLASSIC.name}: bytes 0x162 to 0x1c3 (97 bytes) could not be read, length: "
        "Found record size -1403517781 smaller than minimum record overhead (14); reading resumes at 0x1c3\n"
    )
    assert ended.text.count("baseOffset") == 5


def test_quiet_does_not_report_damage_and_keeps_the_exit_code() -> None:
    for words in ((), ("--format", "json")):
        ended = dump("--quiet", *words, NOISE)
        assert (ended.code, ended.err) == (1, "")


@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("batches/noise-between-0", (1, 1, 0)),
        ("batches/flipped-crc-bit-0", (1, 1, 0)),
        ("batches/zeros-between-0", (1, 1, 0)),
        ("batches/truncated-mid-batch-0", (0, 1, 0)),
        ("batches/zero-tail-300-0", (0, 1, 0)),
        ("batches/append-time-0", (0, 0, 0)),
        ("records/record-length-long-0", (1, 1, 0)),
        ("states/index-ragged-0", (0, 1, 0)),
        ("states/snapshot-bad-crc-0", (1, 1, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_exit_code_by_severity(case: str, codes: tuple[int, int, int]) -> None:
    found = tuple(
        dump("--records", "--format", "ndjson", "--quiet", "--fail-on", severity, DAMAGED / case).code
        if "records" in case or "batches" in case
        else dump("--quiet", "--fail-on", severity, DAMAGED / case).code
        for severity in ("error", "warning", "never")
    )
    assert found == codes


@pytest.mark.parametrize("folder", sorted(path.name for path in DAMAGED.iterdir() if path.is_dir()))
def test_damaged_samples_end_without_a_traceback(folder: str) -> None:
    """Every case is dumped as text and as rows, and reports as many ranges as its damage table has rows."""
    for case in sorted((DAMAGED / folder).iterdir()):
        text = dump("--print-data-log", case)
        rows = dump("--damage", "--format", "ndjson", case)
        assert text.code in (0, 1), case
        assert rows.code in (0, 1), case
        assert len(rows.err.splitlines()) == len(rows.rows("damage")), case


def test_unused_space_is_not_reported_as_unreadable() -> None:
    assert "(300 bytes) are all zero, zero-tail: " in dump(DAMAGED / "batches" / "zero-tail-300-0").err


def test_a_decompression_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    records = b"".join(forge.record(delta, b"k", bytes(size)) for delta, size in enumerate((10, 1_000_000)))
    bomb = log(tmp_path, forge.batch(0, forge.gzipped(records), count=2, attributes=forge.GZIP))
    assert dump("--deep-iteration", bomb).code == 0
    ended = dump("--deep-iteration", "--max-decompressed-bytes", 1000, bomb)
    assert ended.code == 1
    assert " limit: " in ended.err
    assert "| offset: 0 " in ended.text
    rows = dump("--records", "--format", "ndjson", "--quiet", "--max-decompressed-bytes", 1000, bomb)
    assert [row["offset"] for row in rows.rows("records")] == [0]
    assert [row["reason"] for row in rows.rows("damage")] == ["limit"]


@pytest.mark.parametrize(
    "words", [[], ["--format", "table"], ["--format", "json"], ["--format", "ndjson"]], ids=" ".join
)
def test_hostile_names_are_escaped(words: list[str], tmp_path: Path) -> None:
    """A name may contain sequences that clear the screen, move the cursor or forge a line."""
    name = "t\x1b[2J\nDumping fine\x9b-0/00000000000000000000.log"
    path = log(tmp_path, b"\xff" * 100, name=name)
    ended = dump(*words, path, f"{path}.missing")
    shown = ended.text + ended.err
    assert ended.code == 3
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\nDumping fine" not in shown
    assert r"t\x1b[2J\x0aDumping fine\x9b-0" in shown or r"t\u001b[2J\nDumping fine\u009b-0" in shown


def test_a_hostile_name_in_a_usage_error_is_escaped(tmp_path: Path) -> None:
    assert "\x1b" not in sentence(dump(CLASSIC, "--redact", "--redact-key-file", "\x1b[2J"))


def test_a_file_that_is_removed_before_it_is_read_is_reported(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = parsers.discover

    def discover(paths: tuple[str, ...]) -> list[object]:
        rows: list[object] = list(listed(paths))
        (partition / CLASSIC.name).unlink()
        return rows

    monkeypatch.setattr("kforensics.parsers.files.discover.discover", discover)
    ended = dump(partition)
    assert ended.code == 3
    assert f"cannot read {partition / CLASSIC.name}: there is no such file" in ended.err
    assert f"Dumping {partition / 'partition.metadata'}" in ended.lines


def test_a_read_error_inside_a_file_is_reported_and_the_other_files_are_dumped(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LocalSource.read

    def fail(self: LocalSource, position: int, length: int) -> bytes:
        if self.path.endswith(".log"):
            raise InputError(self.path, f"reading at byte {position:#x} failed: Input/output error")
        return read(self, position, length)

    monkeypatch.setattr(LocalSource, "read", fail)
    for words in ((), ("--format", "ndjson")):
        ended = dump(*words, partition)
        assert ended.code == 3
        assert "reading at byte 0x0 failed: Input/output error" in ended.err
        assert "leader-epoch-checkpoint" in ended.text


def test_damage_as_text_names_the_offsets_around_it() -> None:
    """Bytes without a header have no offsets of their own; a healthy file has no damage."""
    noise = dump("--damage", DAMAGED / "batches" / "noise-between-0")
    assert noise.code == 1
    assert noise.err == ""
    assert noise.lines[0] == "1 range of damage in 1 of 1 file"
    expected = "after offset 8 (2023-11-14 22:13:20 UTC) and before offset 9 (2023-11-14 22:13:20 UTC): length"
    assert noise.lines[1] == f"noise-between-0: {expected}"
    assert "bytes 0x162 to 0x1c3 (97 bytes) could not be read" in noise.lines[2]
    assert dump("--damage", CLASSIC).lines == ["no damage in 1 file"]


@pytest.mark.parametrize("folder", ["batches", "records"])
def test_damage_as_text_lists_the_ranges_of_the_table(folder: str) -> None:
    rows = dump("--damage", "--format", "ndjson", "--quiet", DAMAGED / folder).objects
    lines = dump("--damage", DAMAGED / folder).lines
    assert lines[0].startswith(f"{len(rows)} ranges of damage in {len({row['path'] for row in rows})} of ")
    assert [line.rpartition(": ")[2] for line in lines[1::2]] == [row["reason"] for row in rows]


def test_damage_as_text_counts_all_ranges_and_lists_the_first(tmp_path: Path) -> None:
    """A flipped bit in every batch: memory holds the ranges that are listed, and the user is told of the others."""
    log = tmp_path / "noise-0" / "00000000000000000000.log"
    log.parent.mkdir()
    whole = b"".join(forge.batch(offset, [forge.record(0, b"k", b"v")]) for offset in range(10_001))
    size = len(whole) // 10_001
    flipped = bytearray(whole)
    flipped[size - 2 :: size] = bytes(byte ^ 1 for byte in whole[size - 2 :: size])  # of the value
    log.write_bytes(flipped)
    ended = dump("--damage", log.parent)
    assert ended.lines[0] == "10,001 ranges of damage in 1 of 1 file"
    assert len(ended.lines) == 1 + 2 * 10_000 + 1
    assert ended.lines[-3].startswith("noise-0: offset 9999, newest 2023-11-14 22:13:2")
    assert ended.lines[-1] == "… and 1 more range; --damage --format ndjson lists all of them"
    limited = dump("--damage", "--limit", 1, log.parent)
    assert limited.lines == ended.lines[:3]
