"""A Spark cluster of this machine: a master and workers in processes of their own, whose executors may be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from tests.spark.class_archive import class_options

__all__ = ["Cluster", "standalone_cluster"]

PATIENCE = 60.0
HOST = "127.0.0.1"
# Spark starts no second attempt of a task on the same host; these are two for it, both on the loopback interface.
HOSTS = (HOST, "localhost")
# What lives for seconds is not worth being compiled well.
QUICK_COMPILE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DAEMON = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_LAUNCHER_OPTS": QUICK_COMPILE,
    "SPARK_LOCAL_IP": HOST,
    "SPARK_NO_DAEMONIZE": "1",
}
# For a driver: it and its executors are found whatever the machine is called.
DRIVER = {
    "spark.driver.bindAddress": HOST,
    "spark.driver.host": HOST,
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}
MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Registering worker "
EXECUTOR = "CoarseGrainedExecutorBackend"
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Daemon:
    """A master or worker, first of its group and of its session.

    Attributes:
        process: that was started.
        log: what it says.
    """

    process: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def waits_for(self, what: str, question: Callable[[], Answer | None]) -> Answer:
        """Return the first answer to a question; fail the test if none comes or the daemon ends."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            if answer := question():
                return answer
            time.sleep(0.05)
        pytest.fail(f"Spark's {self.log.stem} gave no {what} in {PATIENCE:.0f} s: {self.output()[-1000:]}")


@dataclass(slots=True)
class Cluster:
    """A running cluster.

    Attributes:
        folder: logs, and the work folder of each worker.
        environment: variables of the daemons, which executors and their Pythons inherit.
        url: of the master.
    """

    folder: Path
    environment: dict[str, str]
    url: str = ""
    _daemons: list[_Daemon] = field(default_factory=list)

    @property
    def conf(self) -> dict[str, str]:
        """The properties that a driver needs, the master among them."""
        names = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
        return {**DRIVER, "spark.master": self.url, **dict.fromkeys(names, _java_options())}

    def executors(self) -> list[int]:
        """Return the process ids of the executors that run now, oldest first."""
        return sorted(pid for pid in self._processes() if EXECUTOR in _command(pid))

    def kill_executor(self) -> int:
        """Kill the oldest executor as a machine that loses its power would; return its process id."""
        oldest = self._daemons[0].waits_for("executor", self.executors)[0]
        os.kill(oldest, signal.SIGKILL)
        return oldest

    @contextmanager
    def hanging_executor(self) -> Iterator[None]:
        """Halt the Pythons of the oldest executor, as on a machine that hangs, and let them go on at the end."""
        oldest = self._daemons[0].waits_for("executor", self.executors)[0]
        halted = [pid for pid in self._processes() if oldest in _ancestors(pid)]
        for pid in halted:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in halted:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def executor_logs(self) -> set[Path]:
        """Return the logs of all executors so far."""
        return {*self.folder.glob("work-*/app-*/*/stderr")}

    def stop(self) -> None:
        """End all that was started, executors and their Pythons included; a second call does nothing."""
        left = self._processes()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            until = time.monotonic() + 10
            while (left := self._processes()) and time.monotonic() < until:
                time.sleep(0.05)
        for daemon in self._daemons:
            daemon.process.wait(PATIENCE)

    def _processes(self) -> list[int]:
        """Return the processes of the sessions that the daemons began: Pythons have groups of their own."""
        for daemon in self._daemons:
            daemon.process.poll()  # reaps one that has ended
        sessions = {daemon.process.pid for daemon in self._daemons}
        return [pid for pid in _running() if _session(pid) in sessions]

    def _start(self, name: str, *words: str, host: str = HOST) -> _Daemon:
        log = self.folder / f"{name}.log"
        home = self.environment["SPARK_HOME"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["/bin/bash", f"{home}/bin/spark-class", *words, "--host", host, "--port", "0", "--webui-port", "0"],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(_Daemon(process, log))
        return self._daemons[-1]

    def _start_all(self, workers: int, cores: int) -> None:
        package = "org.apache.spark.deploy"
        master = self._start("master", f"{package}.master.Master")
        self.url = master.waits_for("address", lambda: MASTER_AT.search(master.output()))[1]
        for number in range(workers):
            work = str(self.folder / f"work-{number}")
            size = ("--cores", str(cores), "--memory", "1g", "--work-dir", work)
            host = HOSTS[number % len(HOSTS)]
            self._start(f"worker-{number}", f"{package}.worker.Worker", self.url, *size, host=host)
        master.waits_for("workers", lambda: master.output().count(REGISTERED) == workers)


@contextmanager
def standalone_cluster(
    folder: Path, workers: int = 2, cores: int = 1, environment: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Run a master and workers of the installed Spark on the loopback interface; all have registered when it begins.

    Args:
        folder: an empty folder of the test's own.
        workers: how many; each has 1 GB for executors.
        cores: of each worker.
        environment: more variables for executors, such as those that lead to an object store.
    """
    import pyspark  # only Spark's tests need it

    settings = {
        **DAEMON,
        # The REST server would take a fixed port.
        "SPARK_DAEMON_JAVA_OPTS": f"{_java_options()} -Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    cluster = Cluster(folder, {**inherited, **settings, **(environment or {})})
    try:
        cluster._start_all(workers, cores)
        yield cluster
    finally:
        cluster.stop()


def _java_options() -> str:
    return f"{QUICK_COMPILE} {class_options()}".rstrip()


def _running() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _session(pid: int) -> int | None:
    """Return the session of a process, None if it has ended."""
    try:
        return os.getsid(pid) if _is_alive(pid) else None
    except ProcessLookupError:
        return None


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def _ancestors(pid: int) -> Iterator[int]:
    """Yield the parent of a process, its parent, and so on."""
    while pid > 1:
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return
        pid = int(status.rpartition(")")[2].split()[1])
        yield pid


def _command(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    return ""
