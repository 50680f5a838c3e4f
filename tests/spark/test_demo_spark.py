"""What README shows of `make demo-spark` is what its command prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import documented
from tests.command import ROOT
from tests.spark.class_archive import submit_environment

pytestmark = [pytest.mark.spark, pytest.mark.repository]


def test_the_demo_on_spark_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (shown,) = [
        lines
        for block in documented.blocks(ROOT / "README.md")
        for command, lines in block
        if command == "make demo-spark"
    ]
    recipe = re.search(r"^demo-spark:.*\n\t@.*\n\t(.*)\n", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert recipe is not None
    echoed = recipe[1].replace("$(RUN)", ".venv/bin/python -m")
    command = recipe[1].replace("$(RUN)", f"{sys.executable} -m").replace("out/evidence", str(tmp_path / "evidence"))
    ended = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, **submit_environment(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    printed = ended.stdout.replace(str(tmp_path / "evidence"), "out/evidence").splitlines()
    assert documented.is_shown([echoed, *printed], [documented.LEFT_OUT, *shown]), ended.stdout
