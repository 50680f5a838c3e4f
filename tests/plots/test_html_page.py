"""Pages and frames of charts need no network, and their data cannot affect them."""

import builtins
import json
import re
from collections.abc import Callable
from itertools import cycle
from typing import Any

import altair as alt
import pyarrow as pa
import pytest

import kforensics
from kforensics.errors import MissingExtraError, install_line
from kforensics.plots import (
    Plot,
    atomicity,
    batch_sizes,
    compression,
    damage_map,
    lso,
    lso_over_time,
    offline,
    page,
    sequences,
    transactions,
)
from tests.api.views.page import HOSTILE, Seen, seen
from tests.command import CLASSIC
from tests.plots.test_atomicity import END, ROW

OURS = {"html", "head", "meta", "title", "style", "script", "body", "h1", "h2", "div"}
MOST = 10 << 20


def _charts(text: str) -> dict[str, Callable[[], Plot]]:
    """Return functions that make charts of all kinds, with one text as every name."""
    place: dict[str, Any] = {"log_dir": text, "topic": text, "partition": 0, "path": f"/{text}/{text}.log"}
    history = {**place, "from_high_watermark": 0, "to_high_watermark": 9, "last_stable_offset": 4, "producer_id": 1}
    batch = {
        **place,
        "producer_id": 1,
        "producer_epoch": 0,
        "base_offset": 0,
        "last_offset": 4,
        "base_sequence": 0,
        "last_sequence": 4,
        "max_timestamp": 5,
        "position": 0,
        "size": 70,
        "count": 5,
        "compression_type": text,
        "is_control": False,
        "magic": 2,
        "base_timestamp": 5,
        "timestamp_type": "CreateTime",
    }
    record = {**place, "batch_position": 0, "offset": 0, "timestamp": 5, "key_size": 1, "value_size": 3}
    record["headers"] = [{"key": text, "value": b"1"}]
    lanes = {**place, **END, "topic": text, "partition": 0, "first_offset": 0, "last_offset": 4, "marker_offset": 5}
    hurt = {**place, "start": 3, "end": 9, "reason": text, "inside_batch": None}
    joint = {**ROW, "transactional_id": text, "partitions": f"{text}-0", "topic": text, "atomic": text}
    hurt_table = _table(hurt).set_column(7, "inside_batch", pa.array([None], pa.int64()))
    return {
        "lso": lambda: lso(_table(history)),
        "lso over time": lambda: lso_over_time(_table(history), _table(batch)),
        "transactions": lambda: transactions(_table(lanes)),
        "sequences": lambda: sequences(_table(batch)),
        "sizes": lambda: batch_sizes(_table(batch)),
        "compression": lambda: compression(_table(batch), _table(record)),
        "damage": lambda: damage_map(_table({**place, "size": 20}), hurt_table),
        "atomicity": lambda: atomicity(_table(joint), _table({**END, "topic": text, "outcome": text})),
    }


def _table(row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row])


def _specs(parsed: Seen) -> list[dict[str, Any]]:
    """Return the charts of a page as a browser reads them."""
    return [json.loads(text) for text in parsed.texts if text.startswith('{"')]


@pytest.mark.slow
def test_hostile_text_does_not_affect_a_page() -> None:
    """Each text is in one chart, in turn; the tests below have some texts in all charts."""
    made_by = zip(cycle(_charts("")), HOSTILE.values(), strict=False)
    charts = {f"{text}{kind}": _charts(text)[kind]() for kind, text in made_by}
    made = page(charts, title="".join(HOSTILE.values()))
    parsed = seen(made)
    assert set(parsed.elements) == OURS
    assert parsed.elements.count("script") == 2 + len(HOSTILE)
    assert {name for _, name, _ in parsed.attributes} == {"charset", "http-equiv", "content", "type"}
    specs = [json.dumps(spec) for spec in _specs(parsed)]
    assert specs == [json.dumps(chart.to_dict()) for chart in charts.values()]
    assert all(json.dumps(json.loads(spec), ensure_ascii=False).isprintable() for spec in specs)
    assert not [spec for spec in specs if "<" in spec]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["script", "attribute", "close", "comment"])
def test_hostile_text_does_not_affect_a_frame(name: str) -> None:
    chart = _charts(HOSTILE[name])["atomicity"]()
    parsed = seen(chart._repr_mimebundle_()["text/html"])
    assert parsed.elements == ["iframe"]
    attributes = {name: value for _, name, value in parsed.attributes}
    assert {*attributes} == {"sandbox", "style", "srcdoc"}
    assert "allow-same-origin" not in attributes["sandbox"]
    assert set(seen(attributes["srcdoc"]).elements) == OURS - {"h1", "h2"}


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</script><script>alert(1)</script>", "<!--<script>"])
def test_hostile_text_does_not_affect_a_page_of_altair(text: str) -> None:
    """Altair writes data unescaped into a script."""
    for calm, chart in zip(_charts("x").values(), _charts(text).values(), strict=True):
        made = chart().to_html()
        assert seen(made).elements == seen(calm().to_html()).elements
        assert "<script>alert" not in made


def test_a_page_loads_nothing_and_is_small() -> None:
    log = kforensics.open(CLASSIC)
    made = page({"LSO": lso(log.lso_history), "Sequences": sequences(log.batches)})
    assert len(made) < MOST / 5
    parsed = seen(made)
    policy = next(value for _, name, value in parsed.attributes if name == "content")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    assert "editor: false" in made
    assert "LSO" in parsed.texts
    assert [spec["title"]["text"] for spec in _specs(parsed)] == [
        "Last stable offset: classic-0",
        "Sequences: classic-0",
    ]


def test_another_altair_renderer_is_used_if_enabled() -> None:
    chart = lso(kforensics.open(CLASSIC).lso_history)
    with alt.renderers.enable("mimetype"):
        assert "text/html" not in chart._repr_mimebundle_()
    shown = chart._repr_mimebundle_()
    assert shown["text/html"].startswith("<iframe ")
    assert shown["text/plain"] == "chart: Last stable offset: classic-0"


def test_every_chart_can_be_drawn() -> None:
    """Vega compiles and draws every chart that Altair accepts."""
    import vl_convert

    for chart in _charts("topic").values():
        drawn = vl_convert.vegalite_to_svg(chart().to_dict())
        assert drawn.startswith("<svg")
        assert "NaN" not in drawn


def test_a_missing_vega_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "vl_convert":
            raise ImportError(name)
        return real(name, *rest)

    chart = lso(kforensics.open(CLASSIC).lso_history)
    page.__globals__["libraries"].cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=re.escape(install_line("plots"))):
        page({"": chart})


def test_offline_covers_all_charts() -> None:
    chart = lso(kforensics.open(CLASSIC).lso_history)
    before = alt.renderers.active
    try:
        offline()
        shown: list[Any] = [chart._repr_mimebundle_(), (chart & (chart | chart))._repr_mimebundle_()]
    finally:
        alt.renderers.enable(before)
    made = [bundle["text/html"] for bundle in shown]
    assert [seen(one).elements for one in made] == [["iframe"], ["iframe"]]
    heights = [int(re.findall(r"height: (\d+)px", one)[0]) for one in made]
    assert heights == [470, 940]


def test_the_title_can_be_changed() -> None:
    chart = lso(kforensics.open(CLASSIC).lso_history).properties(title="Mine")
    assert chart._repr_mimebundle_()["text/plain"] == "chart: Mine"
