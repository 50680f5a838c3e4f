"""``kforensics plot``: every chart as every kind of file."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import kforensics
from kforensics.cli.plot import NAMES
from kforensics.errors import UsageError
from kforensics.plots.image import image
from kforensics.plots.timeline import EXPLAINED
from tests.command import SAMPLES, run, sentence
from tests.forensics.forge import forge

SVG = "{http://www.w3.org/2000/svg}"

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


# What a legend is drawn for, if not for a partition of transactions.
LEGENDS = {
    "atomicity": (SAMPLES / "consume-transform-produce", {}),
    "damage": (SAMPLES / "crash-before-recovery", {"topic": "torn"}),
    "sequences": (TRANSACTIONS, {"topic": "hanging"}),
}


@pytest.mark.parametrize("chart", NAMES.split(", "))
def test_a_legend_lists_the_values_that_are_drawn_and_no_others(chart: str) -> None:
    named = {"topic": "interleaved"} if chart in ("lso", "lso-time", "transactions", "transactions-time") else {}
    sample, place = LEGENDS.get(chart, (TRANSACTIONS, named))
    drawn = kforensics.plot(chart, sample, **place)
    values = {str(value) for value in _meanings(drawn.to_dict())}
    listed = _legend(drawn)
    assert len(listed) == len({*listed})
    if chart == "timeline":  # the names of the other lanes explain their marks
        values = values.intersection(EXPLAINED)
    assert {*listed} == (values if chart != "compression" else set())


def test_a_value_has_the_same_color_whatever_else_is_drawn() -> None:
    """One partition has transactions of all outcomes, the other one only committed ones."""
    colors = [
        _colors(kforensics.plot(chart, TRANSACTIONS, topic=topic))
        for chart in ("transactions", "atomicity", "timeline")
        for topic in ("interleaved", "committed", "aborted", "open", "hanging")
    ]
    for value in {*chain.from_iterable(colors)}:
        assert len({each[value] for each in colors if value in each}) == 1, value
    shapes = [_colors(kforensics.plot("sequences", TRANSACTIONS, topic=topic)) for topic in ("hanging", "interleaved")]
    assert shapes[0].items() <= shapes[1].items() or shapes[1].items() <= shapes[0].items()


def _encodings(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each layer's data, and each of its encodings that has a legend."""
    for layer in spec["layer"]:
        for name in ("color", "fill", "shape"):
            if "field" in layer["encoding"].get(name, {}):
                yield layer.get("data", spec.get("data"))["name"], layer["encoding"][name]


def _meanings(spec: dict[str, Any]) -> Iterator[Any]:
    """Yield what the marks of a chart mean by their colors and shapes."""
    for data, encoding in _encodings(spec):
        for row in spec["datasets"][data]:
            yield row[encoding["field"].replace("\\", "")]


def _colors(chart: Any) -> dict[str, str]:
    """Return the color and shape of each value that a chart names."""
    scales = [encoding["scale"] for _, encoding in _encodings(chart.to_dict()) if "scale" in encoding]
    pairs = [pair for scale in scales for pair in zip(scale["domain"], scale["range"], strict=True)]
    colors: dict[str, str] = {}
    for value, color in dict.fromkeys(pairs):
        colors[value] = colors.get(value, "") + color
    return colors


def _legend(chart: Any) -> list[str]:
    """Return the labels of the legends of a chart, as they are drawn."""
    root = ET.fromstring(image(chart, Path("chart.svg")))  # noqa: S314  # our own picture
    groups = (group for group in root.iter(f"{SVG}g") if "role-legend-label" in group.get("class", ""))
    return [text.text or "" for group in groups for text in group.iter(f"{SVG}text")]


def test_an_axis_of_integers_labels_each_once(tmp_path: Path) -> None:
    """Vega put ticks at halves too, and labeled them 1 and 2."""
    for records in (2, 3, 4, 9):
        folder = forge(tmp_path / str(records), f"D 1 0 0-{records - 1} @0-{records - 1}")
        for chart in ("sequences", "lso", "transactions", "batch-sizes"):
            root = ET.fromstring(image(kforensics.plot(chart, folder), Path("chart.svg")))  # noqa: S314  # our own
            axes = [group for group in root.iter(f"{SVG}g") if "role-axis-label" in group.get("class", "")]
            for labels in ([text.text for text in axis.iter(f"{SVG}text")] for axis in axes):
                assert len(labels) == len({*labels}), (chart, labels)


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
        (("pie", "x"), f"there is no chart 'pie'; name one of {NAMES}"),
        (("trasactions", "x"), "there is no chart 'trasactions'; did you mean transactions or transactions-time?"),
        (("lso",), "there is nothing to draw; name log directories"),
        (("lso", TRANSACTIONS), "the chart needs a file; name one with --output, such as lso.svg"),
        (("lso", TRANSACTIONS, "-o", "chart.gif"), "a chart cannot be written to chart.gif; name a file that ends"),
        (("lso", TRANSACTIONS, "-o", "/nowhere/chart.svg"), "the chart shows one partition, but the table has "),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", "--topic", "opne"), "no topic 'opne'; did you mean open?"),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", "--topic", "x"), "no topic 'x'; there are "),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", "--partition", "7-9"), "no partition is left by --topic"),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", "--partition", "x"), "--partition 'x' is not a number or a"),
        (("lso", TRANSACTIONS, "-o", "/nowhere/c.svg", *PARTITION), "cannot write /nowhere/c.svg: "),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(words: tuple[str | Path, ...], said: str) -> None:
    ended = run("plot", *words)
    assert ended.code == 2
    assert sentence(ended).startswith(f"kforensics: {said}")


def test_globs_and_ranges_select_what_is_drawn() -> None:
    def drawn(chart: str, **place: Any) -> Any:
        return kforensics.plot(chart, TRANSACTIONS, as_of="2026-11-21T13:00", **place).to_dict()["datasets"]

    assert drawn("lso", topic=["han*", "!hanging-*"], partition="0-4") == drawn("lso", topic="hanging", partition=0)
    assert drawn("costs", topic="abo*", partition="0-9") == drawn("costs", topic="aborted") != drawn("costs")
    both, *each = (drawn("timeline", topic=topic) for topic in (["open", "hanging"], "open", "hanging"))
    assert both not in each
    with pytest.raises(UsageError, match="no topic 'opn'"):
        drawn("lso", topic=["open", "opn"])


def test_a_chart_is_not_written_among_the_evidence() -> None:
    ended = run("plot", "lso", *PARTITION, "-o", TRANSACTIONS / "broker-1" / "chart.svg", TRANSACTIONS / "broker-1")
    assert ended.code == 2
    assert "among the evidence" in sentence(ended)
