"""Spark's classes as Java has loaded them once: with them a Spark process starts with half the work.

A run of all tests starts some sixty, and each would read and verify twelve thousand classes of Spark's archives.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

from kforensics.spark.session import OPTIONS, QUICK_COMPILE
from tests.command import ROOT, SAMPLES

__all__ = ["class_options", "local_conf", "submit_environment"]

# Where what outlives a run of the tests is kept.
KEPT = Path(tempfile.gettempdir()) / f"kforensics-tests-{os.geteuid()}"
PATIENCE = 300


# What both ends of a local session need, whatever the machine is called.
LOCAL = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def local_conf() -> dict[str, str]:
    """Return the properties of a session with two workers on this machine."""
    return {**LOCAL, "spark.driver.extraJavaOptions": f"{QUICK_COMPILE} {class_options()}".rstrip()}


def submit_environment() -> dict[str, str]:
    """Return the variable with which commands that start Spark themselves take the classes from the archive."""
    return {OPTIONS: class_options()}


@cache
def class_options() -> str:
    """Return the options for Java to take the classes from the archive; none if this Java makes no archive."""
    import pyspark  # only Spark's tests need it

    home = Path(pyspark.__file__).parent
    java = _java()
    if java is None:
        return ""
    made_of = f"{java} {java.stat().st_mtime_ns} {home} {pyspark.__version__} {(home / 'jars').stat().st_mtime_ns}"
    path = KEPT / f"classes-{sha256(made_of.encode()).hexdigest()[:16]}.jsa"
    KEPT.mkdir(mode=0o700, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _make(path, home)
    # Java goes on without an archive that is not of these classes, and need not say so.
    return f"-XX:SharedArchiveFile={path} -Xlog:disable" if path.stat().st_size else ""


def _java() -> Path | None:
    """Return the Java that Spark starts."""
    found = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else shutil.which("java")
    return Path(found).resolve() if found and Path(found).exists() else None


def _make(path: Path, home: Path) -> None:
    """Audit a sample, and keep the classes that this has loaded; an empty file says that Java cannot."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "classes.jsa"
        options = f"{QUICK_COMPILE} -XX:ArchiveClassesAtExit={archive}"
        request = {"paths": [str(SAMPLES / "replication")], "output": f"{folder}/store"}
        command = ["/bin/bash", f"{home}/bin/spark-submit", "--driver-java-options", options]
        command += [word for name, value in LOCAL.items() for word in ("--conf", f"{name}={value}")]
        command += [f"{ROOT}/tests/spark/audits.py", json.dumps({"conf": {}, "request": request})]
        python = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        done = subprocess.run(
            command, env={**os.environ, **python}, cwd=folder, capture_output=True, check=False, timeout=PATIENCE
        )
        if done.returncode or not archive.exists():
            archive.touch()
        shutil.move(archive, path)
