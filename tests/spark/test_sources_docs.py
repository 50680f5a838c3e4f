"""The page on Spark says what is so: its code runs and prints what it shows, its options are those there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kforensics.spark.source.source_options import OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_the_code_runs_and_prints_what_is_shown(
    spark: SparkSession, page: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    (section,) = re.findall(r"^## The data source\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```py\n(.*?)^```\n+```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert len(blocks) == section.count("```py\n") > 1
    known: dict[str, Any] = {}
    for code, shown in blocks:
        exec(compile(code, "docs/spark.md", "exec"), known)  # noqa: S102  # it is ours
        assert capsys.readouterr().out.rstrip() == shown.rstrip()


def test_every_option_is_in_the_page(page: str) -> None:
    rows = re.findall(r"^\| (`\w+` \| .*) \|$", page, re.MULTILINE)
    assert [row for row in rows if row.split("`")[1] in OPTIONS] == [
        f"`{name}` | {doc}" for name, doc in OPTIONS.items()
    ]
