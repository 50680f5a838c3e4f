"""How the package is shipped: with Spark's own programs, and to workers that have everything but it."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import kforensics
from kforensics.parsers.kernels import library
from tests.command import ROOT, SAMPLES
from tests.spark.audits import Stored, audit_in_process, stored
from tests.spark.class_archive import local_conf
from tests.spark.clusters import Cluster, standalone_cluster

LOGS = str(SAMPLES / "transactions-v2")
AUDIT = ("audit", "--quiet", "--as-of", "2026-11-21T12:30", "--fail-on", "never")
# Asks twice: what was compiled is kept.
KERNELS = """
import kforensics
from kforensics.parsers.kernels.library import load_kernels
found = [load_kernels(print), load_kernels(print, compile_missing=False)]
print(".zip" in kforensics.__file__, [one is not None for one in found])
"""
COMPILING = "compiling the fast kernels for this processor, once; this takes some seconds"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package as ``--py-files`` takes it: what a wheel has, in a zip."""
    package = Path(kforensics.__file__).parent
    path = tmp_path_factory.mktemp("archive") / "kforensics.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in package.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has what the package needs, but not the package where that is a checkout's."""
    path = tmp_path_factory.mktemp("bare") / "python"
    packages = os.pathsep.join(site.getsitepackages())
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster whose workers have no home."""
    file = tmp_path_factory.mktemp("home") / "file"
    file.touch()
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), environment={"HOME": f"{file}/home"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return what an audit in this process says."""
    return audit_in_process([LOGS], tmp_path_factory.mktemp("expected") / "store")


def _submitted(conf: Mapping[str, str], python: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    import pyspark  # only these tests need it

    home = Path(pyspark.__file__).parent
    properties = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.run(
        ["/bin/bash", str(home / "bin" / "spark-submit"), *properties, *words],
        cwd=cwd,
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.spark
@pytest.mark.repository
def test_spark_submit_runs_a_checkout(tmp_path: Path, expected: Stored) -> None:
    """It brings its session, and without ``--engine`` the audit takes it."""
    store = tmp_path / "store"
    ended = _submitted(local_conf(), sys.executable, "cli.py", *AUDIT, "--output", str(store), LOGS, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("CRITICAL, 4 incidents: 18 partitions, ")
    assert stored(store) == expected
    # What Spark says before the session is there; it logs hundreds of lines about tasks otherwise.
    assert " INFO DAGScheduler: " not in ended.stderr
    assert len(ended.stderr.splitlines()) < 150


@pytest.mark.spark
def test_spark_submit_sends_the_package_as_a_zip(
    cluster: Cluster, archive: Path, bare: Path, tmp_path: Path, expected: Stored
) -> None:
    """Neither driver nor workers have it otherwise, nor a home to keep anything in; paths are those of the driver."""
    (tmp_path / "cli.py").write_text((ROOT / "cli.py").read_text("utf-8"), encoding="utf-8")
    store = tmp_path / "store"
    where = ("--output", str(store), str(Path(LOGS).relative_to(ROOT)))
    sent = ("--py-files", str(archive), str(tmp_path / "cli.py"), *AUDIT, *where)
    ended = _submitted(cluster.conf, str(bare), *sent, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("CRITICAL, 4 incidents: 18 partitions, ")
    assert stored(store) == expected
    assert json.loads((store / "manifest.json").read_text("utf-8"))["version"] == kforensics.__version__


@pytest.mark.spark
@pytest.mark.repository
def test_workers_without_the_package_are_reported_in_one_sentence(cluster: Cluster, bare: Path, tmp_path: Path) -> None:
    """Workers would find an installed package too, so this needs a checkout."""
    words = ["-m", "kforensics", *AUDIT, "--engine", "spark", "--output", str(tmp_path / "store"), LOGS]
    words += [word for name, value in cluster.conf.items() for word in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "PYSPARK_PYTHON": str(bare)}
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    (line,) = ended.stderr.splitlines()
    assert "No module named 'kforensics'" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.repository
def test_kernels_of_a_package_in_a_zip_are_compiled_and_kept(archive: Path, bare: Path, tmp_path: Path) -> None:
    """Who has no home to keep them in keeps them among temporary files. A zip of a wheel has them compiled.

    Here numba writes what was compiled before, which takes no time: this is about what surrounds the compiler.
    """
    (tmp_path / "file").touch()
    compiled = next(path for path in library._cache_files() if path.exists())
    copy = f"os.write(1, open({str(compiled)!r}, 'rb').read())"
    (tmp_path / "numba.py").write_text(f"import os\n{copy}\nos._exit(0)\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KFORENSICS_", "XDG_"))}
    path = f"{archive}:{tmp_path}"
    places = {"HOME": str(tmp_path / "file" / "home"), "TMPDIR": str(tmp_path), "PYTHONPATH": path}
    first, second = (
        subprocess.run(
            [str(bare), "-c", KERNELS],
            env={**kept, **places},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        for _ in range(2)
    )
    assert first.stdout.splitlines() == [COMPILING, "True [True, True]"]
    assert second.stdout.splitlines() == ["True [True, True]"]
    assert len(list((tmp_path / f"kforensics-{os.geteuid()}").glob("kernels-*.o"))) == 1
