"""The command and the function ``forecast`` on the log directories of real brokers, whole and damaged."""

import csv
import io
import json
import shlex
import shutil
import tarfile
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
    case = next(case for case in cases_of(STOPPED) if case.name == name)
    case.doctor(folder / "data")
    return folder / "data"


def test_a_healthy_log_directory_starts_and_changes_nothing() -> None:
    ended = run("forecast", SAMPLES / "transactions-v2")
    assert ended.code == 0
    assert ended.lines[0].endswith("starts, changes nothing; 17 partitions")
    assert "before the start:" not in ended.lines


def test_files_that_a_healthy_broker_deletes_are_counted_and_no_change_of_a_partition(stopped: Path) -> None:
    """Before the start records were deleted up to offset 11, a segment was cleaned, and a metadata snapshot deleted."""
    ended = run("forecast", stopped)
    assert ended.code == 0
    assert ended.lines[0].endswith("starts, no partition changes; 11 partitions")
    assert "  and 12 files that no log needs any more are deleted, see --format table" in ended.lines
    assert "retention-due trimmed-0: 00000000000000000000.log is below the log start 11" in ended.text
    assert "before the start:" not in ended.lines
    assert not [line for line in ended.lines if " afterwards: " in line]


def test_an_emptied_metadata_log_is_no_change_of_a_partition(tmp_path: Path) -> None:
    ended = run("forecast", _doctored("metadata-snapshot-beyond-log", tmp_path))
    assert ended.code == 0
    assert ended.lines[0].endswith("starts, no partition changes; 11 partitions")
    assert "log-emptied: the log ends at 82 and its newest snapshot is at 5000" in ended.text
    assert "00000000000000000082-0000000001.checkpoint is deleted" in ended.text


def test_a_partition_without_segments_begins_empty(tmp_path: Path) -> None:
    """As the recorded broker did, without a word in its log: the records are lost."""
    ended = run("forecast", _doctored("partition-only-metadata", tmp_path))
    assert ended.code == 1
    assert ended.lines[0].endswith("starts, 11 partitions: 1 log-created")
    assert "plain-0 afterwards: served, log 0 to 0, LSO 0" in ended.text


def test_what_is_cut_off_a_metadata_log_is_counted_once(tmp_path: Path) -> None:
    """A segment without an index is recovered for it, and again because the metadata log always is."""
    folder = tmp_path / "broker-1"
    shutil.copytree(SAMPLES / "transactions-v2" / "broker-1", folder)
    log = max(folder.glob("__cluster_metadata-0/*.log"))
    content = bytearray(log.read_bytes())
    content[len(content) // 3] ^= 1
    log.write_bytes(content)
    ended = run("forecast", folder)
    assert ended.lines[0].endswith("starts, 17 partitions: 1 truncated, 14 stray")
    assert ended.text.count("truncated: cut to offset 26: 4238 of 6225 bytes") == 1


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
    config.write_text('[forecast]\nrelease = "4.4"\n', "utf-8")
    for options, expected in (
        (("--release", "4.4.0", "--fail-on", "never"), "--release 4.4.0 --fail-on never"),
        (("--config", "k.toml"), "--release 4.4 --config k.toml"),
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


def test_a_broker_with_zookeeper_needs_what_zookeeper_has() -> None:
    ended = run("forecast", SAMPLES / "legacy-2.7" / "broker-0")
    assert ended.code == 0
    assert ", release 3.9 assumed, with ZooKeeper: starts, " in ended.lines[0]
    assert any("the start needs broker.id=0 in its settings and the cluster id " in line for line in ended.lines)


@pytest.mark.parametrize(("release", "is_said"), [("3.9", True), ("3.6", True), ("3.5", False)])
def test_a_migration_makes_stray_what_is_not_assigned(release: str, is_said: bool) -> None:
    """A broker of 3.9.1 in migration mode renamed the folder of a deleted topic; only its settings show that mode."""
    ended = run("forecast", "--release", release, SAMPLES / "legacy-2.7" / "broker-0")
    assert ended.text.count("stay as they are") == 1
    assert ("zookeeper.metadata.migration.enable" in ended.text) is is_said


def test_a_release_without_zookeeper_does_not_start_from_its_files() -> None:
    ended = run("forecast", "--release", "4.4.0", SAMPLES / "legacy-2.7" / "broker-0")
    assert (ended.code, ended.lines[0].endswith(": not known")) == (0, True)
    assert any("4.4 has no ZooKeeper: migrate the cluster to KRaft with 3.9 first" in line for line in ended.lines)


@pytest.mark.parametrize("arguments", [(), ("--release", "two"), ("--release", "2.8.2"), ("--release", "2.7")], ids=str)
def test_usage_errors(arguments: tuple[str, ...], stopped: Path) -> None:
    ended = run("forecast", *arguments, *([stopped] if arguments else []))
    assert (ended.code, ended.out) == (2, b"")


def test_a_folder_without_a_log_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no log directory at"):
        kforensics.forecast(tmp_path)


def test_what_is_lost_is_in_the_first_line_and_before_what_is_harmless() -> None:
    """A broker logs two truncations, one of zeros, and reads the segments of all partitions without a word."""
    ended = run("forecast", SAMPLES / "crash-before-recovery")
    assert ended.lines[0].endswith(": starts, 5 partitions: 1 truncated")
    first, second, third = (ended.lines[number].split()[0] for number in (3, 5, 7))
    assert (first, second, third) == ("warning", "info", "info")


@pytest.mark.parametrize("above", ["case", "var/lib/kafka"])
def test_folders_above_the_packed_log_directories_do_not_matter(above: str, tmp_path: Path) -> None:
    """A folder of brokers is packed with its name, and a path with all of its folders."""
    folder = SAMPLES / "replication"
    archive = tmp_path / "case.tar"
    with tarfile.open(archive, "w") as out:
        out.add(folder, above)
    ended = run("forecast", archive)
    assert ended.text.replace(f"{archive}!/{above}", str(folder)) == run("forecast", folder).text
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("names", [("replication",), ("replication/broker-1", "replication/broker-2")], ids=len)
def test_a_collected_archive_of_several_brokers_is_forecast(names: tuple[str, ...], tmp_path: Path) -> None:
    archive = tmp_path / "case.tar.gz"
    folders = [SAMPLES / name for name in names]
    assert run("collect", *folders, "--output", archive).code == 0
    rows = kforensics.forecast(archive).to_pylist()
    assert {row["broker_id"] for row in rows} == {1, 2, *([3] if len(names) == 1 else [])}
    assert [row["effect"] for row in rows] == [row["effect"] for row in kforensics.forecast(folders).to_pylist()]


def test_what_is_left_out_of_an_archive_makes_a_forecast_impossible(tmp_path: Path) -> None:
    """A broker reads every file when it starts."""
    archive = tmp_path / "case.tar"
    with tarfile.open(archive, "w") as out:
        out.add(SAMPLES / "crash-before-recovery", "case")
        link = tarfile.TarInfo("case/broker-1/meta.properties")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/kafka/meta.properties"
        out.addfile(link)
    ended = run("forecast", archive)
    assert (ended.code, ended.out) == (3, b"")
    assert "link to /etc/kafka/meta.properties" in ended.err


def test_a_list_that_is_cut_ends_with_the_command_that_shows_the_rest(tmp_path: Path) -> None:
    unpack(next(base for base in BASES if base.state == "killed"), tmp_path)
    lines = run("forecast", "-q", tmp_path / "data").lines
    assert "           … and 1 more of recovered" in lines
    assert lines[-2:] == ["in full:", f"  $ kforensics forecast --all --quiet {tmp_path / 'data'}"]
    complete = run("forecast", "-q", "--all", tmp_path / "data").lines
    assert not [line for line in complete if "more of" in line or "--all" in line]


def test_what_is_cut_off_is_counted_and_can_be_looked_at() -> None:
    """A torn end has no whole batch; zeros of a preallocated segment are nothing."""
    text = run("forecast", "--quiet", SAMPLES / "crash-before-recovery/broker-1").text
    torn, command = text.partition("truncated torn-0: ")[2].splitlines()[:2]
    assert torn.endswith("(no whole batch, 137 bytes)")
    assert command.strip().startswith("$ kforensics dump --damage ")
    zeros = text.partition("truncated preallocated-0: ")[2].splitlines()
    assert zeros[0].endswith("all zeros (36.4 KB)")
    assert "dump" not in zeros[1]


UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("arguments", [(), ("--all",)], ids=["changes", "all"])
def test_a_folder_that_is_deleted_is_not_its_partition(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A partition was moved to another disk, and is served there."""
    broker = tmp_path / "broker-1"
    shutil.copytree(SAMPLES / "replication" / "broker-1", broker)
    shutil.copytree(broker / "durable-0", broker / f"durable-0.{UNIQUE}-delete")
    lines = run("forecast", *arguments, broker).lines
    after = [line.strip() for line in lines if "afterwards" in line]
    assert [line for line in after if line.startswith("durable-0 ")] == [
        "durable-0 afterwards: served, log 0 to 8, LSO 8"
    ]
    assert not [line for line in after if line.endswith("deleted")]
    effect = f"deleted durable-0: the folder durable-0.{UNIQUE}-delete is deleted a minute after the start"
    assert sum(line.endswith(effect) for line in lines) == 1


def test_of_several_folders_the_one_out_of_service_is_named(tmp_path: Path) -> None:
    broker = tmp_path / "broker-1"
    shutil.copytree(SAMPLES / "replication" / "broker-1", broker)
    stray = broker / f"durable-0.{UNIQUE}-stray"
    shutil.copytree(broker / "durable-0", stray)
    after = [line.strip() for line in run("forecast", "--all", broker).lines if "afterwards" in line]
    assert f"folder {stray} afterwards: stray" in after
    assert sum(line.startswith("durable-0 afterwards: served, ") for line in after) == 1
    assert "stray-0 afterwards: stray" in after  # the only folder of its partition
