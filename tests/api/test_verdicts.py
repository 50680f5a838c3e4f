"""The functions of the library take a time of evaluation, topics and partitions, and their results show themselves."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

import kforensics
from kforensics.errors import UsageError
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
