"""Bad input on Spark: each a row, a finding or a sentence, with the exit code that it has in process."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kforensics
from kforensics.analyses.audit import without_secrets
from kforensics.errors import EngineError, InputError, UsageError, install_line
from kforensics.forensics.core.formatting import format_size
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES
from kforensics.render.staged_store import StagedStore
from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned
from tests.command import DAMAGED, SAMPLES, Ended, run, sentence
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import forge_coordinator
from tests.forensics.forge import forge, keep_times
from tests.spark.audits import AS_OF_MS, stored
from tests.spark.class_archive import submit_environment
from tests.thorough import some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUDIT = ("audit", "--as-of", "2026-11-21T12:30")
ON_SPARK = (*AUDIT, "--engine", "spark")
LOGS = str(SAMPLES / "transactions-v2")
GOOD, SEGMENT = "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", "00000000000000000000.log"
Scene = Callable[[Path], list[Path]]


def _missing(folder: Path) -> list[Path]:
    return [folder / "nowhere"]


def _missing_and_good(folder: Path) -> list[Path]:
    forge(folder / "good", GOOD)
    return [folder / "good", folder / "nowhere", folder / "no*thing"]


def _empty(folder: Path) -> list[Path]:
    return [folder]


def _no_log_directory(folder: Path) -> list[Path]:
    (folder / "notes").mkdir()
    (folder / "notes" / "server.log").write_text("no segment", encoding="utf-8")
    return [folder]


def _folder_like_a_segment(folder: Path) -> list[Path]:
    forge(folder, GOOD, topic="good")
    (forge(folder, GOOD, topic="odd") / "00000000000000000006.log").mkdir()
    return [folder]


def _dangling_link(folder: Path) -> list[Path]:
    forge(folder, GOOD, topic="good")
    (forge(folder, GOOD, topic="odd") / "00000000000000000006.log").symlink_to(folder / "nowhere")
    return [folder]


def _link_to_above(folder: Path) -> list[Path]:
    (forge(folder, GOOD) / "above").symlink_to(folder)
    return [folder]


def _foreign_files(folder: Path) -> list[Path]:
    good = forge(folder, GOOD)
    (good / "core.1234").write_bytes(b"\x7fELF")
    (good / "00000000000000000000.log.bak").write_bytes(b"no segment")
    (good / "00000000000000000000.index").write_bytes(b"no index")
    (folder / "lost+found").mkdir()
    return [folder]


def _two_copies(folder: Path) -> list[Path]:
    """One partition on two brokers, one of them longer: both are audited, and they are not mixed up."""
    for broker, notation in (("broker-1", GOOD), ("broker-2", "D 1 0 0-4 @0-4 T")):
        forge(folder / broker, notation)
    return [folder]


def _older_than_their_data(folder: Path) -> list[Path]:
    """Only the log of the coordinator shows that the file times are no bounds on what is in the other partition."""
    forge_coordinator(folder, "a Empty 7 0 t 41000; b Empty 9 0 t 60000", clean_shutdown=False)
    forge(folder, f"D 7 0 0-0 @0-0 T ts {NOW + 60_900}", clean_shutdown=False)
    (folder / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    keep_times(folder, 0, 0)
    return [folder]


def _damaged(_folder: Path) -> list[Path]:
    return [DAMAGED]


SCENES: dict[Scene, tuple[int, str]] = {
    _missing: (3, "NOTHING COULD BE READ: 0 partitions"),
    _missing_and_good: (3, "CLEAN, AND NOT ALL COULD BE READ: 1 partition,"),
    _empty: (2, ""),
    _no_log_directory: (2, ""),
    _folder_like_a_segment: (0, "WARNING, 1 incident: 2 partitions,"),
    _dangling_link: (3, "CLEAN, AND NOT ALL COULD BE READ: 2 partitions,"),
    _link_to_above: (3, "INFO, AND NOT ALL COULD BE READ, 1 incident: 1 partition,"),
    _foreign_files: (1, "CRITICAL, 2 incidents: 1 partition,"),
    _two_copies: (0, "WARNING, 1 incident: 2 partitions,"),
    _damaged: (1, "CRITICAL, "),
    _older_than_their_data: (0, "WARNING, "),
}


@pytest.mark.spark
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.strip("_").replace("_", "-"))
def test_both_engines_say_the_same(spark: SparkSession, tmp_path: Path, scene: Scene) -> None:
    """Of what is missing, foreign, doubled or damaged: code, report, sentences and rows."""
    (tmp_path / "logs").mkdir()
    paths = scene(tmp_path / "logs")
    code, begins = SCENES[scene]
    here = run(*AUDIT, "--output", tmp_path / "here", *paths)
    there = run(*ON_SPARK, "--output", tmp_path / "there", *paths)
    assert [line.replace(" --engine spark", "") for line in there.lines] == here.lines
    errors = there.err.replace(str(tmp_path / "there"), str(tmp_path / "here"))
    assert sorted(errors.splitlines()) == sorted(here.err.splitlines())
    assert (there.code, there.text[: len(begins)]) == (here.code, begins) == (code, begins)
    if code == 2:
        assert "there is no log under " in sentence(there)
        assert not (tmp_path / "there").exists()
    else:
        assert stored(tmp_path / "there") == stored(tmp_path / "here")
        assert counts_in(tmp_path / "there") == counts_in(tmp_path / "here")


def counts_in(store: Path) -> tuple[int, int]:
    """Return the numbers of partitions, and of those that could not be read, as the manifest has them."""
    manifest = json.loads((store / "manifest.json").read_text(encoding="utf-8"))
    verdicts = [row for row in stored(store)["partitions"].elements() if "'verdict': 'unread'" in row]
    assert manifest["unread"] == len(verdicts)
    return manifest["partitions"], manifest["unread"]


@pytest.mark.spark
@pytest.mark.parametrize("whole", [None, 0], ids=["whole", "in-splits"])
def test_a_segment_that_vanishes_before_it_is_read_is_reported(
    spark: SparkSession, tmp_path: Path, whole: int | None
) -> None:
    """The other partitions are audited anyway, and there is no other row about this one."""
    logs = tmp_path / "logs"
    forge(logs, GOOD, topic="good")
    gone = shutil.copytree(SAMPLES / "transactions-v2" / "broker-1" / "segments-0", logs / "gone-0")
    request = SparkRequest((str(logs),), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS, whole=whole, split_size=1)
    plan = planned(spark, request)
    last = max(gone.glob("*.log"))
    last.unlink()
    report = audited_on_spark(spark, plan, request)
    assert (report.partitions, report.unread_count) == (2, 1)
    assert next(report.lines()).startswith("CLEAN, AND NOT ALL COULD BE READ: 2 partitions, ")
    tables = stored(tmp_path / "store")
    verdicts = [row for row in tables["partitions"] if "'verdict': 'unread'" in row]
    assert len(verdicts) == 1
    assert last.name in verdicts[0]
    assert not any("'gone'" in row for name in ("findings", "lso", "transactions", "damage") for row in tables[name])
    assert any("'good'" in row for row in tables["lso"])


@pytest.mark.spark
@pytest.mark.parametrize("with_store", [True, False], ids=["store", "no-store"])
def test_a_folder_that_vanishes_with_the_memory_of_the_executors_is_not_forgotten(
    spark: SparkSession, tmp_path: Path, *, with_store: bool
) -> None:
    """The plan is in the store; without one, the audit breaks off rather than lose a partition."""
    logs = Path(shutil.copytree(SAMPLES / "transactions-v2", tmp_path / "logs"))
    output = str(tmp_path / "store") if with_store else None
    request = SparkRequest((str(logs),), output=output, as_of_ms=AS_OF_MS)
    plan = planned(spark, request)
    shutil.rmtree(logs / "broker-1" / "hanging-0")
    spark.catalog.clearCache()  # as when all executors are lost
    if not with_store:
        with pytest.raises(
            EngineError, match=r"of 18 planned partitions, 17 have a result .* hanging-0 in .*/broker-1"
        ):
            audited_on_spark(spark, plan, request)
        return
    report = audited_on_spark(spark, plan, request)
    assert (report.partitions, report.unread_count) == (len(plan.sizes), 1)
    tables, manifest = stored(tmp_path / "store"), json.loads((tmp_path / "store" / "manifest.json").read_text("utf-8"))
    counts = {name: sum(rows.values()) for name, rows in tables.items()}
    assert counts == {name: count for name, count in manifest["rows"].items() if name != CHUNK_SUMMARIES.name}
    assert counts["partitions"] == manifest["partitions"] == len(plan.sizes)
    (unread,) = (row for row in tables["partitions"] if "'verdict': 'unread'" in row)
    assert "'topic': 'hanging'" in unread
    assert not (tmp_path / "store" / "_plan").exists()


@pytest.mark.spark
def test_an_audit_names_its_jobs_and_leaves_nothing_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    context.setJobDescription("mine")
    first = context._jsc.sc().statusStore().jobsList(None).size()
    request = SparkRequest((str(SAMPLES / "replication"),), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS)
    plan = planned(spark, request)
    size = format_size(plan.size)
    audited_on_spark(spark, plan, request)
    jobs = context._jsc.sc().statusStore().jobsList(None)
    texts = {jobs.apply(index).description().getOrElse(None) for index in range(jobs.size() - first)}
    assert texts == {
        "kforensics: list the folders",
        "kforensics: compare copies of partitions",
        f"kforensics: read and evaluate {counts_in(tmp_path / 'store')[0]} partitions with {size} of logs",
        "kforensics: look up the settings",
    }
    assert context.getLocalProperty("spark.job.description") == "mine"
    assert context._jsc.getPersistentRDDs().isEmpty()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_copies_taken_one_after_the_other_are_evaluated_as_in_process(tmp_path: Path) -> None:
    """Each as of the time when it was taken, unless the user gives a time."""
    for broker, hours in (("broker-1", 0), ("broker-2", 1)):
        forge(tmp_path / "logs" / broker, "D 1 0 0-4 @0-4 T; plain @5", topic=broker, clean_shutdown=False)
        for file in (tmp_path / "logs" / broker).rglob("*"):
            os.utime(file, ns=((NOW + 60_000 + 3_600_000 * hours) * 1_000_000,) * 2)
    here = run("audit", "--output", tmp_path / "here", tmp_path / "logs")
    there = run("audit", "--engine", "spark", "--output", tmp_path / "there", tmp_path / "logs")
    assert [line.replace(" --engine spark", "") for line in there.lines] == here.lines
    assert there.err.replace(str(tmp_path / "there"), str(tmp_path / "here")) == here.err
    assert f"{tmp_path / 'logs' / 'broker-1'} was copied 1 h earlier" in here.err
    assert here.text.count("WARNING  stuck-transaction ") == 1
    assert stored(tmp_path / "there") == stored(tmp_path / "here")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_findings_that_are_left_out_are_in_the_store_that_a_command_shows(tmp_path: Path) -> None:
    """Spark prints no tables, so the command is not one with another format."""
    logs, store = SAMPLES / "damaged" / "controls", tmp_path / "a store"
    ended = run(*ON_SPARK, "--verbose", "--output", store, logs)
    shown = next(index for index, line in enumerate(ended.lines) if "more findings, all in the table findings:" in line)
    arguments = shlex.split(ended.lines[shown + 1].removeprefix("  $ kforensics "))
    assert arguments == ["report", str(store), "--output", "report.html"]
    assert run(*arguments[:-1], tmp_path / "report.html").code == 1
    assert "--format ndjson" not in ended.text
    partitions, size = len(list(logs.rglob("*-0"))), sum(log.stat().st_size for log in logs.rglob("*.log"))
    assert f"evidence: {partitions} partitions to analyze, with {format_size(size)} of logs" in ended.err
    assert "time of evaluation: 2026-11-21 12:30:00 UTC, given" in ended.err


@pytest.mark.spark
def test_the_library_raises_what_the_command_says(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a folder as output"):
        kforensics.audit(LOGS, spark=spark)
    with pytest.raises(InputError, match=r"cannot read .*nowhere"):
        kforensics.audit(tmp_path / "nowhere", spark=spark, output=tmp_path / "store")
    with pytest.raises(UsageError, match="there is no log under"):
        kforensics.audit(tmp_path, spark=spark, output=tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    """It is refused before anything is started."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mine").touch()
    says = sentence(run(*ON_SPARK, "--output", tmp_path / "store", LOGS))
    assert f"{tmp_path / 'store'} exists already" in says
    assert [path.name for path in tmp_path.rglob("*")] == ["store", "mine"]


@pytest.mark.spark
def test_an_output_that_cannot_be_written_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert f"cannot write {tmp_path / 'file' / 'store'}: " in sentence(
        run(*ON_SPARK, "--output", tmp_path / "file" / "store", LOGS)
    )


class _ElsewhereForWorkers(StagedStore):
    """A store in a folder that only the driver can write to."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.staging = "/proc/nowhere"


@pytest.mark.spark
def test_a_store_that_workers_cannot_write_is_a_sentence_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kforensics.spark.audit.run.StagedStore", _ElsewhereForWorkers)
    ended = run(*ON_SPARK, "--output", tmp_path / "store", LOGS)
    assert (ended.code, ended.out) == (2, b"")
    assert f"cannot write {tmp_path / 'store'}: it is not on {platform.node()}, where a task runs" in sentence(ended)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a file system of a size that is soon full."""
    folder = tmp_path / "full"
    folder.mkdir()

    def mounted(size: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("only root may mount a file system, on Linux, and not in every container")
        return folder

    yield mounted
    if folder.is_mount():
        command = ["umount", "--lazy", str(folder)]  # a worker may still hold a file
        subprocess.run(command, check=True)


@pytest.mark.spark
@pytest.mark.parametrize("size", ["4k", "40k", "200k"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    spark: SparkSession, full: Callable[[str], Path], size: str
) -> None:
    """Tasks write the plan and the tables to it, and the driver what is left."""
    folder = full(size)
    ended = run(*ON_SPARK, "--output", folder / "store", LOGS)
    assert (ended.code, ended.out) == (2, b"")
    assert sentence(ended).startswith(f"kforensics: cannot write {folder / 'store'}: No space left on device; choose ")
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--engine", "flink"], "--engine 'flink' is not one of process, spark"),
        (["--master", "local[2]"], "--master is for --engine spark"),
        (["--conf", "spark.executor.memory=4g"], "--conf is for --engine spark"),
        (["--split-size", "64"], "--split-size is for --engine spark"),
        (["--engine", "process", "--master", "local[2]"], "--master is for --engine spark"),
        (["--engine", "spark", "--conf", "spark.executor.memory"], "write NAME=VALUE"),
        (["--engine", "spark", "--conf", "=4g"], "write NAME=VALUE"),
        (["--engine", "spark", "--format", "json"], "leave out --format"),
        (["--engine", "spark", "--processes", "2"], "--processes is for --engine process"),
        (["--engine", "spark", "--fail-on", "doom"], "--fail-on 'doom' is not one of"),
        (["--engine", "spark", "--as-of", "soon"], "--as-of 'soon' is not a time"),
        (["--output", "s3://bucket/store"], "--output s3://bucket/store is for --engine spark"),
        (["--engine", "spark", "--output", f"{LOGS}/broker-1/store"], "would be among the evidence"),
    ],
    ids=" ".join,
)
def test_words_that_make_no_sense_start_nothing(words: list[str], says: str) -> None:
    assert says in sentence(run("audit", *words, LOGS))


def test_no_path_makes_no_sense() -> None:
    assert "there is no input; name log directories on storage" in sentence(run(*ON_SPARK))


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("spark.executorEnv.AWS_SECRET_ACCESS_KEY=s3cr=et", "spark.executorEnv.AWS_SECRET_ACCESS_KEY=…"),
        ("--conf=spark.executorEnv.AWS_ACCESS_KEY_ID=AKIA1", "--conf=spark.executorEnv.AWS_ACCESS_KEY_ID=…"),
        ("spark.executorEnv.AWS_SESSION_TOKEN=a\nb", "spark.executorEnv.AWS_SESSION_TOKEN=…"),
        ("spark.hadoop.fs.s3a.access.key=AKIA1", "spark.hadoop.fs.s3a.access.key=…"),
        ("spark.executor.memory=4g", "spark.executor.memory=4g"),
        ("/mnt/secret-logs", "/mnt/secret-logs"),
    ],
)
def test_secrets_do_not_get_into_the_manifest(word: str, kept: str) -> None:
    assert without_secrets([word]) == (kept,)


def _run_alone(environment: dict[str, str], *words: str, program: tuple[str, ...] = ("-m", "kforensics")) -> Ended:
    ended = subprocess.run(
        [sys.executable, *program, *words], env=environment, capture_output=True, check=False, timeout=300
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr.decode())


@pytest.mark.parametrize("home", [None, "/nowhere"], ids=["no-home", "wrong-home"])
def test_without_java_a_sentence_says_what_to_install(tmp_path: Path, home: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    ended = _run_alone(environment | ({"JAVA_HOME": home} if home else {}), *ON_SPARK, LOGS)
    where = "in JAVA_HOME, which is /nowhere" if home else "on the PATH"
    assert (ended.code, ended.out) == (3, b"")
    assert ended.err == (
        f"kforensics: Spark needs Java 17 or later, and there is none {where}; install a runtime and try again\n"
    )


def test_without_pyspark_a_sentence_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None; from kforensics.cli import main; main()"
    ended = _run_alone({**os.environ}, *ON_SPARK, LOGS, program=("-c", program))
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err == f"kforensics: pyspark is not installed. Install it with: {install_line('spark')}\n"


@pytest.mark.spark
def test_a_job_that_breaks_off_leaves_a_sentence_and_no_store(tmp_path: Path) -> None:
    """The workers have no Python; Spark's own log is not shown."""
    words = (*ON_SPARK, "--master", "local[1]", "--conf", "spark.pyspark.python=/nowhere/python")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    ended = _run_alone(environment | submit_environment(), *words, "--output", str(tmp_path / "store"), LOGS)
    assert (ended.code, ended.out) == (3, b"")
    (line,) = ended.err.splitlines()
    assert line.startswith("kforensics: the folders were not looked into: ")
    assert "/nowhere/python" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_a_master_that_is_none_is_a_sentence() -> None:
    ended = _run_alone(os.environ | submit_environment(), *ON_SPARK, "--master", "flink://host", LOGS)
    assert (ended.code, ended.out) == (3, b"")
    (line,) = ended.err.splitlines()
    assert line.startswith("kforensics: Spark does not start: ")
    assert "Master must" in line


@pytest.mark.spark
@pytest.mark.parametrize(
    ("files", "number"),
    some([("*.part/_plan/*", signal.SIGTERM), ("*", signal.SIGINT), ("*.part/_finished/*/*", signal.SIGINT)], 2),
    ids=some(["SIGTERM when the plan exists", "Ctrl-C while folders are listed", "Ctrl-C when a task has finished"], 2),
)
def test_an_interrupted_audit_leaves_nothing_and_says_nothing(
    tmp_path: Path, files: str, number: signal.Signals
) -> None:
    """Ctrl-C, which a terminal sends to all processes, or the signal that a service manager sends to one."""
    words = [*ON_SPARK, "--master", "local[1]", "--output", str(tmp_path / "store"), str(SAMPLES)]
    audit = subprocess.Popen(
        [sys.executable, "-m", "kforensics", *words],
        env={**os.environ, **submit_environment(), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until = time.monotonic() + 240
    while not list(tmp_path.glob(files)) and audit.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    (os.killpg if number == signal.SIGINT else os.kill)(audit.pid, number)
    streams = audit.communicate(timeout=240)
    assert (audit.returncode, streams) == (128 + number, (b"", b""))
    assert not list(tmp_path.iterdir())
