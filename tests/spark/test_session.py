"""What is heard of a program that is started in Java's place, on this process's own standard error."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.spark.session import OPTIONS, StartupOutput, options_first

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
