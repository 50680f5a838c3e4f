"""The functions of the library take a time of evaluation, topics and partitions, and their results show themselves."""

import copy
import pickle
import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

import kforensics
from kforensics.errors import UsageError
from tests.api.views.page import assert_harmless
from tests.command import SAMPLES, run

BROKER = SAMPLES / "transactions-v2" / "broker-1"
HANGING = BROKER / "hanging-0"
AS_OF_MS = 1_795_263_300_000
SAME_TIMES = {
    "ms": AS_OF_MS,
    "text-ms": str(AS_OF_MS),
    "iso": "2026-11-21T12:15",
    "iso-zone": "2026-11-21T13:15:00+01:00",
    "utc": datetime(2026, 11, 21, 12, 15, tzinfo=UTC),
    "zone": datetime(2026, 11, 21, 7, 15, tzinfo=timezone(timedelta(hours=-5))),
}
# Each function that takes a time of evaluation, on a partition whose only open transaction has an age.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lso": kforensics.lso,
    "transactions": kforensics.transactions,
    "producers": kforensics.producers,
    "duplicates": kforensics.duplicates,
    "keys": kforensics.keys,
    "ids": kforensics.ids,
    "groups": kforensics.groups,
    "settings": kforensics.settings,
    "scan": kforensics.scan,
    "verify": kforensics.verify,
    "audit": lambda paths, **options: kforensics.audit(paths, **options).findings,
    "explain": lambda paths, **options: kforensics.explain(paths, offset=3, **options).table,
    "open": lambda paths, **options: kforensics.open(paths, **options).lso.to_arrow(),
    "plot": lambda paths, **options: kforensics.plot("lso", paths, **options),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.mark.parametrize("as_of", SAME_TIMES.values(), ids=SAME_TIMES)
def test_a_time_of_evaluation_can_be_given_in_several_ways(as_of: datetime | str | int) -> None:
    (age,) = kforensics.lso(HANGING, as_of=as_of)["age_ms"].to_pylist()
    (last,) = kforensics.lso(HANGING, as_of=0)["age_ms"].to_pylist()
    assert age - last == AS_OF_MS


# The last offset of each run from offset 1 to 3.
RUNS_OF_HANGING = {"visible": 1, "control": 2, "undecided": 3}


def test_now_is_the_time_of_the_call() -> None:
    before = time.time_ns() // 1_000_000
    (age,) = kforensics.lso(HANGING, as_of="now")["age_ms"].to_pylist()
    (last,) = kforensics.lso(HANGING, as_of=0)["age_ms"].to_pylist()
    assert before <= age - last <= time.time_ns() // 1_000_000


@functions
def test_every_function_refuses_a_time_without_a_zone(name: str) -> None:
    with pytest.raises(UsageError, match="as_of=2026-11-21 12:15:00 has no time zone"):
        FUNCTIONS[name](HANGING, as_of=datetime(2026, 11, 21, 12, 15))  # noqa: DTZ001  # what is refused


@pytest.mark.parametrize("as_of", ["yesterday", 1.5, True, date(2026, 11, 21)], ids=["text", "float", "bool", "date"])
def test_what_is_no_time_is_refused(as_of: Any) -> None:
    with pytest.raises(UsageError, match=r"^as_of.*is not a time"):
        kforensics.lso(HANGING, as_of=as_of)


def test_a_chart_of_the_command_takes_now(tmp_path: Any) -> None:
    chart = tmp_path / "lso.svg"
    assert run("plot", "lso", "--as-of", "now", "--output", chart, HANGING).code == 0
    assert chart.exists()


# Some partitions for each function, all of which have rows.
SOME = [BROKER / name for name in ("hanging-0", "hanging-resolved-0", "multi-0", "multi-1", "multi-2")]
PATHS = {
    "lso": SOME,
    "transactions": SOME,
    "producers": SOME,
    "scan": SOME,
    "audit": [*SOME[:2], SAMPLES / "damaged" / "states" / "index-ragged-0"],
    "duplicates": [SAMPLES / "duplicates" / "broker-1" / f"{topic}-0" for topic in ("retried", "sent-again")],
    "verify": [SAMPLES / "damaged" / "states" / f"{topic}-0" for topic in ("index-ragged", "index-repeated")],
}
TOPIC = {"duplicates": "retried", "verify": "index-ragged"}


def places(name: str, **options: Any) -> set[tuple[str, int]]:
    rows = FUNCTIONS[name](PATHS[name], as_of=AS_OF_MS, alone=True, **options).to_pylist()
    return {(row["topic"], row["partition"]) for row in rows}


@pytest.mark.parametrize("name", PATHS)
def test_every_function_takes_topics(name: str) -> None:
    topic = TOPIC.get(name, "hanging")
    everything = places(name)
    wanted = {place for place in everything if place[0] == topic}
    assert set() < wanted < everything
    assert places(name, topic=topic) == wanted
    assert places(name, topic=[f"{topic[:4]}*", *(f"!{other}" for other, _ in everything if other != topic)]) == wanted


@pytest.mark.parametrize(
    ("partition", "numbers"), [(1, {1}), ("1-2", {1, 2}), ([0, "2-9"], {0, 2})], ids=["number", "range", "list"]
)
def test_partitions_are_selected(partition: Any, numbers: set[int]) -> None:
    assert {number for _, number in places("transactions", partition=partition)} == numbers


def test_an_explanation_takes_topic_and_partition() -> None:
    table = kforensics.explain(SOME, offset=3, topic="mult*", partition=2).table
    assert [(row["topic"], row["partition"]) for row in table.to_pylist()] == [("multi", 2)]


def test_keys_take_topics() -> None:
    broker = SAMPLES / "partition-growth" / "broker-1"
    assert set(kforensics.keys(broker, topic=["k*", "by-*", "!by-hand"])["topic"].to_pylist()) == {"keyed"}
    with pytest.raises(UsageError, match="keys belong to whole topics"):
        kforensics.keys(broker, partition=0)


@functions
def test_every_function_refuses_a_topic_that_is_not_there(name: str) -> None:
    if name not in ("open", "plot", "ids"):
        with pytest.raises(UsageError, match="no topic 'hangin'; did you mean hanging"):
            FUNCTIONS[name](SOME, topic="hangin")


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="partition 'a' is not a number or a range"):
        kforensics.lso(SOME, partition="a")
    with pytest.raises(UsageError, match="no partition is left"):
        kforensics.lso(SOME, partition=99)


def test_other_topics_remain_evidence() -> None:
    """The state of its coordinator, which is in another topic, decides about an open transaction."""
    rows = kforensics.audit(BROKER, topic="hanging", as_of=AS_OF_MS).findings.to_pylist()
    assert "txn-hanging" in {row["code"] for row in rows}


def test_an_audit_on_spark_takes_topics_alone(tmp_path: Any) -> None:
    """It is refused before Spark is used."""
    spark: Any = object()
    with pytest.raises(UsageError, match="an audit on Spark is of whole topics"):
        kforensics.audit(SOME, spark=spark, output=tmp_path / "store", partition=0)
    with pytest.raises(UsageError, match=r"no topic 'hangni\*'"):
        kforensics.audit(BROKER, spark=spark, output=tmp_path / "store", topic="hangni*")


RESULT_FUNCTIONS = ("lso", "transactions", "producers", "duplicates", "scan", "verify")


@pytest.mark.parametrize("name", RESULT_FUNCTIONS)
def test_results_show_themselves(name: str) -> None:
    result = FUNCTIONS[name](PATHS[name], alone=True)
    assert re.match(rf"{result.definition.name}: \d+ rows?, one per ", repr(result))
    assert max(map(len, repr(result).splitlines())) <= 100
    assert_harmless(result._repr_html_())


def test_an_audit_shows_its_incidents(tmp_path: Any) -> None:
    audit = kforensics.audit(SOME, as_of=AS_OF_MS, output=tmp_path / "store")
    assert re.match(r"audit of 5 partitions: \d+ findings\nincidents: \d+ rows", repr(audit))
    assert "hanging" in repr(audit)
    assert "incidents" in assert_harmless(audit._repr_html_()).texts
    assert "since" in audit.incidents.to_pandas().select_dtypes("datetimetz")
    assert set(audit.tables) >= {"findings", "incidents", "transactions"}
    with pytest.raises(KeyError, match=r"^there is no table 'lsos'; did you mean lso\?$"):
        audit.tables["lsos"]
    assert "lsos" not in audit.tables


def test_an_audit_can_be_pickled_and_copied(tmp_path: Any) -> None:
    """The rows of duplicates may be in temporary files, which a copy in another process does not have."""
    paths = PATHS["duplicates"]
    for audit in (kforensics.audit(paths, records=True), kforensics.audit(paths, records=True, output=tmp_path / "s")):
        for copied in (pickle.loads(pickle.dumps(audit)), copy.deepcopy(audit)):  # noqa: S301  # our own bytes
            assert repr(copied) == repr(audit)
            assert {name: len(table) for name, table in copied.tables.items()}["duplicates"] > 0
            assert all(copied.tables[name] == audit.tables[name] for name in audit.tables)


def test_a_table_has_one_schema_wherever_it_is_read(tmp_path: Any) -> None:
    """Its text names the items of lists too, for which DuckDB and Parquet have names of their own."""
    place: dict[str, Any] = {"topic": "open", "as_of": AS_OF_MS}
    kept = kforensics.audit(BROKER, **place)
    stored = kforensics.audit(BROKER, **place, output=tmp_path / "store")
    for name, table in kept.tables.items():
        queried = kforensics.query(f"SELECT * FROM {name}", store=tmp_path / "store")  # noqa: S608  # a known name
        schemas = {str(each.to_arrow().schema) for each in (table, stored.tables[name], queried)}
        assert schemas == {str(table.to_arrow().schema)}
    log = kforensics.open(BROKER, **place)
    for name in ("records", "producers"):
        queried = kforensics.query(f"SELECT * FROM {name}", logs=BROKER, **place)  # noqa: S608  # a known name
        assert str(queried.to_arrow().schema) == str(log.table(name).to_arrow().schema)
        assert queried.to_arrow() == log.table(name).to_arrow()


def test_an_explanation_shows_itself() -> None:
    explanation = kforensics.explain(HANGING, offset=3, as_of=AS_OF_MS)
    assert repr(explanation) == explanation.text.rstrip("\n")
    assert explanation.text.splitlines() == assert_harmless(explanation._repr_html_()).text.splitlines()


@pytest.mark.parametrize("offset", [range(1, 4), "1:4"])
def test_a_range_of_offsets_is_explained(offset: range | str) -> None:
    runs = kforensics.explain(HANGING, offset=offset, as_of=AS_OF_MS).table
    shown = run("explain", "--offset", "1:4", "--as-of", "2026-11-21T12:30", "--format", "ndjson", HANGING).rows(
        "explained_runs"
    )
    assert [row["fate"] for row in runs.to_pylist()] == [row["fate"] for row in shown] == [*RUNS_OF_HANGING]
    assert [row["last_offset"] for row in runs.to_pylist()] == [*RUNS_OF_HANGING.values()]


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [(range(0, 9, 2), "leaves offsets out"), (range(3, 3), "has no offset"), ("x", "not a range")],
)
def test_a_range_without_offsets_or_with_gaps_is_refused(offset: range | str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        kforensics.explain(HANGING, offset=offset)
