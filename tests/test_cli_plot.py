"""``kforensics plot``: every chart as every kind of file."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kforensics.cli.plot import NAMES
from tests.command import SAMPLES, run, sentence

TRANSACTIONS = SAMPLES / "transactions-v2"
PARTITION = ("--topic", "interleaved", "--partition", "0")
ARGUMENTS = {
    "atomicity": (),
    "costs": (),
    "damage": ("--topic", "torn"),
    "sequences": ("--topic", "interleaved"),
    "batch-sizes": (),
    "batching": (),
    "compression": (),
    "timeline": (),
}


@pytest.mark.parametrize("chart", NAMES.split(", "))
def test_a_chart_is_a_picture(chart: str, tmp_path: Path) -> None:
    output = tmp_path / "chart.svg"
    sample = SAMPLES / "crash-before-recovery" if chart == "damage" else TRANSACTIONS
    ended = run("plot", chart, *ARGUMENTS.get(chart, PARTITION), "-o", output, sample)
    assert ended.code == 0, ended.err
    assert ended.err.endswith(f"; the chart is in {output}\n")
    root = ET.parse(output).getroot()  # noqa: S314  # our own file
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_picture_names_the_transactions(tmp_path: Path) -> None:
    """The transactional ids of the client are left and right."""
    output = tmp_path / "chart.svg"
    run("plot", "lso", *PARTITION, "--output", output, TRANSACTIONS)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", output.read_text(encoding="utf-8"))
    assert {"left (producer 2)", "right (producer 3)", "log end offset", "last stable offset"} <= {*texts}


def test_a_picture_can_be_png_or_html(tmp_path: Path) -> None:
    png, html = tmp_path / "chart.png", tmp_path / "chart.html"
    for output in (png, html):
        assert run("plot", "lso", "--quiet", *PARTITION, "-o", output, TRANSACTIONS).err == ""
    content = png.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", content[16:24])) > 500
    assert html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_chart_without_data_is_drawn_and_exits_with_1(tmp_path: Path) -> None:
    ended = run("plot", "damage", "-o", tmp_path / "chart.svg", TRANSACTIONS)
    assert (ended.code, (tmp_path / "chart.svg").exists()) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "there is no chart to draw; name one of lso, "),
        (("pie", "x"), f"there is no chart pie; name one of {NAMES}"),
        (("lso",), "there is nothing to draw; name log directories"),
        (("lso", TRANSACTIONS), "the chart needs a file; name one with --output, such as lso.svg"),
        (("lso", TRANSACTIONS, "-o", "chart.gif"), "a chart cannot be written to chart.gif; name a file that ends"),
        (("lso", TRANSACTIONS, "-o", "/nowhere/chart.svg"), "the chart shows one partition, but the table has "),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", "--topic", "x"), "no file belongs to topic x; name another"),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", *PARTITION), "cannot write /nowhere/c.svg: "),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(words: tuple[str | Path, ...], said: str) -> None:
    ended = run("plot", *words)
    assert ended.code == 2
    assert sentence(ended).startswith(f"kforensics: {said}")


def test_a_chart_is_not_written_among_the_evidence() -> None:
    ended = run("plot", "lso", *PARTITION, "-o", TRANSACTIONS / "broker-1" / "chart.svg", TRANSACTIONS / "broker-1")
    assert ended.code == 2
    assert "among the evidence" in sentence(ended)
