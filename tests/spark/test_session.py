"""What is heard of a program that is started in Java's place, on this process's own standard error."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kforensics.errors import install_line
from kforensics.spark.session import OPTIONS, StartupOutput, check_workers, options_first
from tests.command import ROOT, SAMPLES
from tests.spark.class_archive import submit_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAYS = "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2; echo before >&2"
STARTS, FAILS = f"{SAYS}; read line; echo after >&2", f"{SAYS}; exit 1"
PATIENCE = 20.0

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _without_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv(OPTIONS, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def _started(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE)


def _fail() -> None:
    _started(FAILS).communicate()
    raise OSError("it has ended")


def _waits_for(question: Callable[[], str], answer: str) -> None:
    until, heard = time.monotonic() + PATIENCE, ""
    while answer not in heard and time.monotonic() < until:
        heard += question()
        time.sleep(0.01)
    assert heard.endswith(answer)


def test_routine_output_of_java_is_dropped_and_all_else_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """While it starts and afterwards, as long as it lives."""
    startup = StartupOutput()
    with startup.held():
        assert "log4j2.properties" in os.environ[OPTIONS]
        java = _started(STARTS)
        _waits_for(startup.text, "before\n")
        assert capfd.readouterr().err == ""
    assert OPTIONS not in os.environ
    assert capfd.readouterr().err == "before\n"
    java.communicate(b"\n")
    _waits_for(lambda: capfd.readouterr().err, "after\n")
    assert startup.text() == ""


def test_what_it_said_before_it_failed_is_kept_for_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    startup = StartupOutput()
    with pytest.raises(OSError, match="it has ended"), startup.held():
        _fail()
    assert startup.text() == "before\n"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("own", ["log4j2.xml", "log4j2.properties"])
def test_who_has_settings_of_his_own_hears_all(tmp_path: Path, own: str, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / own).touch()
    with StartupOutput().held():
        assert OPTIONS not in os.environ
        _started(FAILS).communicate()
    assert capfd.readouterr().err.splitlines()[1:] == ["before"]


def test_options_of_the_user_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS, "-Xss4m")
    with StartupOutput().held():
        assert os.environ[OPTIONS].endswith(" -Xss4m")
    assert os.environ[OPTIONS] == "-Xss4m"


def test_options_for_java_come_before_those_of_the_user_and_go_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that comes later counts."""
    with options_first("-XX:TieredStopAtLevel=1"):
        assert os.environ[OPTIONS] == "-XX:TieredStopAtLevel=1"
    assert OPTIONS not in os.environ
    monkeypatch.setenv(OPTIONS, "-XX:TieredStopAtLevel=4")
    with options_first("-XX:TieredStopAtLevel=1"):
        assert os.environ[OPTIONS] == "-XX:TieredStopAtLevel=1 -XX:TieredStopAtLevel=4"
    assert os.environ[OPTIONS] == "-XX:TieredStopAtLevel=4"


REGISTERS_NOTHING = """
import kforensics.errors
try:
    kforensics.register(None)
except kforensics.errors.KforensicsError as error:
    print(error)
"""
REGISTERS = """
from pyspark.sql import SparkSession
import kforensics.errors
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    kforensics.register(spark)
except kforensics.errors.KforensicsError as error:
    print(error)
"""


def _run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    variables = {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=300)


def test_workers_of_another_python_are_told_before_they_fail(tmp_path: Path) -> None:
    """A virtual environment that is not activated: Spark takes the first python3 on the PATH."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    ended = _run({"PATH": f"{tmp_path}:{os.environ['PATH']}", **submit_environment()}, "-c", REGISTERS)
    assert ended.stdout == (
        f"the Python workers of this session are {python}, which cannot import kforensics; set"
        f" PYSPARK_PYTHON={sys.executable} before the session starts\n"
    ), ended.stderr


def test_workers_of_this_python_are_not_in_doubt(spark: SparkSession) -> None:
    check_workers(spark)


@pytest.mark.parametrize("version", ["3.5.6", "4.0.1"])
def test_a_spark_that_is_too_old_is_one_sentence(tmp_path: Path, version: str) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    says = (
        f"kforensics needs Spark 4.1 or later, and this is Spark {version}; install it with: {install_line('spark')}\n"
    )
    audit = _run(path, "-m", "kforensics", "audit", "--engine", "spark", str(SAMPLES / "transactions-v2"))
    assert (audit.returncode, audit.stdout, audit.stderr) == (3, "", f"kforensics: {says}")
    register = _run(path, "-c", REGISTERS_NOTHING)
    assert register.stdout == says, register.stderr


def test_a_java_that_is_too_old_is_one_sentence(tmp_path: Path) -> None:
    """Java 11 ends with this error before Spark has started."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\necho 'java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a"
        " more recent version of the Java Runtime (class file version 61.0)' >&2; exit 1\n"
    )
    java.chmod(0o755)
    words = ("-m", "kforensics", "audit", "--engine", "spark", str(SAMPLES / "transactions-v2"))
    ended = _run({"JAVA_HOME": str(tmp_path)}, *words)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == (
        f"kforensics: Spark does not start: Spark needs Java 17 or later, and {tmp_path} is older; see Spark's logs\n"
    )
