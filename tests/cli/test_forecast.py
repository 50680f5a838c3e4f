"""The command and the function ``forecast`` on the log directories of real brokers, whole and damaged."""

import csv
import io
import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.forensics.forecast.forecast_rows import FORECAST
from kforensics.render.formats import Format
from lab.forecast.bases import BASES, unpack
from lab.forecast.cases import cases_of
from tests.command import SAMPLES, run

STOPPED = BASES[0]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("f")
    unpack(STOPPED, folder)
    return folder / "data"


def _doctored(name: str, folder: Path) -> Path:
    unpack(STOPPED, folder)
    case = next(case for case in cases_of(STOPPED.state) if case.name == name)
    case.doctor(folder / "data")
    return folder / "data"


def test_a_healthy_log_directory_starts_and_changes_nothing(stopped: Path) -> None:
    ended = run("forecast", stopped)
    assert ended.code == 0
    assert ended.lines[0].endswith("starts, changes nothing; 11 partitions")
    assert "before the start:" not in ended.lines


def test_a_refusal_names_the_exception_and_what_to_do(tmp_path: Path) -> None:
    folder = _doctored("folder-backup", tmp_path)
    ended = run("forecast", folder)
    assert ended.code == 1
    assert ended.lines[0].endswith(": refuses")
    assert "org.apache.kafka.common.KafkaException: Found directory" in ended.text
    assert f"$ mv {folder}/backup /path/outside/" in ended.text
    assert "the next one recovers all logs" in ended.text  # it loses the marker of the clean shutdown


def test_the_last_step_repeats_the_command_with_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted, it gives the same answer: for the same release, and for this broker's directories only."""
    folder = tmp_path / "a b"
    folder.mkdir()
    _doctored("folder-backup", folder)
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "k.toml"
    config.write_text('[forecast]\nrelease = "4.0"\n', "utf-8")
    for options, expected in (
        (("--release", "3.9.1", "--fail-on", "never"), "--release 3.9.1 --fail-on never"),
        (("--config", "k.toml"), "--release 4.0 --config k.toml"),
    ):
        ended = run("forecast", *options, "a b")
        last = ended.lines[-1].strip()
        assert last == f"$ kforensics forecast {expected} 'a b/data'"
        again = run(*shlex.split(last.removeprefix("$ kforensics ")))
        assert (again.code, again.text) == (ended.code, ended.text)


def test_what_happens_without_a_word_comes_first(tmp_path: Path) -> None:
    ended = run("forecast", _doctored("topic-id-other", tmp_path))
    silent = ended.lines.index("without a warning in its log:")
    assert silent < ended.lines.index("with a warning or an error in its log:")
    assert "created plain-0" in ended.lines[silent + 1]


def test_nothing_is_written(tmp_path: Path) -> None:
    folder = _doctored("marker-missing", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run("forecast", folder).code == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("output_format", [*Format])
def test_every_format_has_the_rows_of_the_function(output_format: str, tmp_path: Path) -> None:
    folder = _doctored("snapshots-missing-open-0", tmp_path)
    ended = run("forecast", "--format", output_format, folder)
    assert ended.code == 1
    expected = kforensics.forecast(folder)["effect"].to_pylist()
    if output_format in ("text", "table"):
        assert "producers-forgotten" in ended.text
        return
    if output_format in ("csv", "csv-safe"):
        effects = [row["effect"] for row in csv.DictReader(io.StringIO(ended.text))]
    elif output_format == "json":
        effects = [row["effect"] for row in json.loads(ended.text)["tables"]["forecast"]]
    elif output_format == "ndjson":
        effects = [row["effect"] for row in ended.objects]
    else:
        reader = pa.BufferReader(ended.out)
        table = pq.read_table(reader) if output_format == "parquet" else pa.ipc.open_stream(reader).read_all()
        effects = table["effect"].to_pylist()
        assert tuple(table.column_names) == FORECAST.names
    assert effects == expected
    assert expected.count("producers-forgotten") == 1


def test_a_killed_broker_recovers_what_its_next_start_recovered() -> None:
    """The samples have the log directory before the start, and what the broker served after it."""
    truth = json.loads((SAMPLES / "crash-after-recovery" / "truth.json").read_text(encoding="utf-8"))["topics"]
    rows = kforensics.forecast(SAMPLES / "crash-before-recovery" / "broker-1").to_pylist()
    found = {
        row["topic"]: (row["log_start_offset"], row["log_end_offset"], row["last_stable_offset"])
        for row in rows
        if row["topic"] in truth
    }
    expected = {
        topic: (at["0"]["earliest"], at["0"]["latest"], at["0"]["latest_read_committed"]) for topic, at in truth.items()
    }
    assert found == expected


def test_a_broker_with_zookeeper_is_not_known() -> None:
    ended = run("forecast", SAMPLES / "legacy-2.7" / "broker-0")
    assert ended.code == 0
    assert "not known" in ended.lines[0]


@pytest.mark.parametrize("arguments", [(), ("--release", "two"), ("--release", "2.8.2")], ids=str)
def test_usage_errors(arguments: tuple[str, ...], stopped: Path) -> None:
    ended = run("forecast", *arguments, *([stopped] if arguments else []))
    assert (ended.code, ended.out) == (2, b"")


def test_a_folder_without_a_log_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no log directory at"):
        kforensics.forecast(tmp_path)


def test_what_is_lost_is_in_the_first_line_and_before_what_is_harmless() -> None:
    """A broker logs the two truncations, and reads the segments of all partitions without a word."""
    ended = run("forecast", SAMPLES / "crash-before-recovery")
    assert ended.lines[0].endswith(": starts, 5 partitions: 2 truncated")
    first, second, third = (ended.lines[number].split()[0] for number in (3, 4, 6))
    assert (first, second, third) == ("warning", "warning", "info")
