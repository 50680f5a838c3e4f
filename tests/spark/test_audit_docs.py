"""What the page on Spark says of the audit is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_the_code_runs_and_prints_what_is_shown(
    spark: SparkSession, page: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    (section,) = re.findall(r"^## The audit\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
    ((code, shown),) = re.findall(r"^```py\n(.*?)^```\n+```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/spark.md", "exec"), {})  # noqa: S102  # it is ours
    assert capsys.readouterr().out.rstrip() == shown.rstrip()


@pytest.mark.parametrize("option", ["--engine", "--master", "--conf", "--split-size", "--output", "--progress"])
def test_options_for_spark_are_in_the_page(page: str, option: str) -> None:
    assert re.search(rf"^\| `{option}[ `]", page, re.MULTILINE)


@pytest.mark.parametrize("name", ["dump.md", "spark.md"])
def test_both_pages_on_storage_name_all_variables(root: Path, name: str) -> None:
    text = (root / "docs" / name).read_text(encoding="utf-8")
    table = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \|", text, re.MULTILINE)
    assert {variable for row in table for variable in re.findall("[A-Z_]+", row)} >= {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_ENDPOINT_URL",
        "GOOGLE_APPLICATION_CREDENTIALS",
    }
