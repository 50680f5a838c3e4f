"""Functions check their arguments by name and kind before they read anything, and errors call them by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kforensics
from kforensics.errors import KforensicsError, UsageError
from tests.command import SAMPLES

BROKER = SAMPLES / "transactions-v2" / "broker-1"
HANGING = BROKER / "hanging-0"
AS_OF_MS = 1_795_263_300_000
FUNCTIONS = [function for name in kforensics.__all__ if inspect.isfunction(function := getattr(kforensics, name))]
EVALUATING = [
    *("open", "lso", "transactions", "producers", "duplicates", "explain", "keys", "scan", "verify", "audit"),
    *("cluster", "groups", "ids", "settings"),
]
functions = pytest.mark.parametrize("name", EVALUATING)


@functions
def test_an_unknown_parameter_is_named_at_once(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} has no parameter partitions; did you mean partition( or |\\?$)"):
        getattr(kforensics, name)("/nonexistent", partitions=0)


def test_parameters_of_no_evaluation_are_checked_too() -> None:
    with pytest.raises(UsageError, match=r"^dump has no parameter producer_ids; did you mean producer_id"):
        kforensics.dump(HANGING, producer_ids=12)  # type: ignore[call-arg]  # what is refused
    with pytest.raises(UsageError, match=r"^forecast has no parameter topic; it has paths, release, elect$"):
        kforensics.forecast(BROKER, topic="hanging")  # type: ignore[call-arg]  # what is refused


def test_open_refuses_at_once_what_its_tables_would() -> None:
    for wrong in ({"settings": {"x": 1}}, {"alone": "no"}, {"as_of": "soon"}, {"server_properties": "/nonexistent"}):
        with pytest.raises(UsageError):
            kforensics.open(HANGING, **wrong)


@functions
def test_paths_may_be_a_generator(name: str) -> None:
    function, subject = getattr(kforensics, name), {"offset": 3, "topic": "hanging"} if name == "explain" else {}
    given = function((path for path in [str(BROKER)]), as_of=AS_OF_MS, **subject)
    assert repr(given) == repr(function(str(BROKER), as_of=AS_OF_MS, **subject))


def test_tables_of_a_generator_of_paths_can_be_read_later() -> None:
    log = kforensics.open((path for path in [HANGING]), topic=(topic for topic in ["hanging"]))
    assert (len(log.lso), len(log.batches), log.batch(3)["base_offset"]) == (1, 7, 3)


@pytest.mark.parametrize("paths", [None, 3, b"logs", [3], [None], {"a": 1}, [], 1.5], ids=str)
def test_what_is_no_path_is_refused(paths: Any) -> None:
    for function in (kforensics.lso, kforensics.dump, kforensics.open, kforensics.audit, kforensics.collect):
        with pytest.raises(UsageError, match=r"^paths(=.* is not a path; give text or a pathlib.Path| has no path)"):
            function(paths, *(["out"] if function is kforensics.collect else []))


# Values that were taken for another one, or failed without a sentence.
WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "producer_id='12' is not a whole number; give an int": (kforensics.transactions, {"producer_id": "12"}),
    "at='3' is not a whole number; give an int": (kforensics.lso, {"at": "3"}),
    "at=2.5 is not a whole number; give an int": (kforensics.lso, {"at": 2.5}),
    "at=True is not a whole number; give an int": (kforensics.producers, {"at": True}),
    "at=-1 is less than 0; give another number": (kforensics.lso, {"at": -1}),
    "offset=True is not a whole number; give an int": (kforensics.explain, {"offset": True}),
    "offset=1.0 is not a whole number; give an int": (kforensics.explain, {"offset": 1.0}),
    "offset=-1 is less than 0; give another number": (kforensics.dump, {"offset": -1}),
    f"producer_id={10**30} is not a whole number of 64 bits; give": (kforensics.explain, {"producer_id": 10**30}),
    "min_duration_ms='1h' is not a whole": (kforensics.transactions, {"min_duration_ms": "1h"}),
    "min_duration_ms=datetime.timedelta": (kforensics.transactions, {"min_duration_ms": timedelta(hours=1)}),
    "memory='64MB' is not a whole number": (kforensics.duplicates, {"memory": "64MB"}),
    "producer_id=b'1' is not a whole number": (kforensics.dump, {"producer_id": b"1"}),
    "alone='no' is neither True nor False": (kforensics.lso, {"alone": "no"}),
    "history='' is neither True nor False": (kforensics.lso, {"history": ""}),
    "transactional='no' is neither True nor False": (kforensics.dump, {"transactional": "no"}),
    "transactional_id=b'x' is not text; give a str": (kforensics.explain, {"transactional_id": b"x"}),
    "release=4.0 is not text; give a str": (kforensics.forecast, {"release": 4.0}),
    "states=1 is not text; give a str, or several in a list": (kforensics.transactions, {"states": 1}),
    "settings=['a=1'] has no names; give a dict, as in {": (kforensics.settings, {"settings": ["a=1"]}),
    "server_properties=3 is not a path; give": (kforensics.lso, {"server_properties": 3}),
    f"as_of={10**30} is not a time; give": (kforensics.lso, {"as_of": 10**30}),
    f"as_of '{10**30}' is not a time; write": (kforensics.lso, {"as_of": str(10**30)}),
    "as_of=NaT is not a time; give": (kforensics.lso, {"as_of": pd.NaT}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_value_of_another_kind_is_refused_by_the_name_of_its_parameter(sentence: str) -> None:
    function, wrong = WRONG[sentence]
    with pytest.raises(UsageError) as caught:
        function(HANGING, **wrong)
    assert str(caught.value).startswith(sentence)


def test_sql_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^sql=None is not text"):
        kforensics.query(None, logs=HANGING)  # type: ignore[arg-type]  # what is refused


# Numbers and truth values of numpy, and 1 and 0, are those of Python.
SAME: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "at": (kforensics.lso, {"at": np.int64(3)}, {"at": 3}),
    "as_of": (kforensics.lso, {"as_of": np.int64(AS_OF_MS)}, {"as_of": AS_OF_MS}),
    "offset": (kforensics.explain, {"offset": np.int32(1)}, {"offset": 1}),
    "dump": (lambda paths, **given: kforensics.dump(paths, **given).batches, {"offset": np.int64(1)}, {"offset": "1"}),
    "range": (
        lambda paths, **given: kforensics.dump(paths, **given).batches,
        {"offset": range(1, 4)},
        {"offset": "1:4"},
    ),
    "producer_id": (kforensics.transactions, {"producer_id": np.uint16(12)}, {"producer_id": 12}),
    "partition": (kforensics.lso, {"partition": np.array([0])}, {"partition": 0}),
    "history": (kforensics.lso, {"history": np.bool_(True)}, {"history": True}),
    "history=1": (kforensics.lso, {"history": 1}, {"history": True}),
    "topic": (kforensics.lso, {"topic": {"hanging", "hang*"}}, {"topic": "hanging"}),
    "topics": (kforensics.explain, {"topic": iter(["hanging"]), "offset": 3}, {"topic": "hanging", "offset": 3}),
    "states": (kforensics.transactions, {"states": "open"}, {"states": ["open"]}),
    "states set": (kforensics.transactions, {"states": {"open"}}, {"states": ["open"]}),
    "levels": (kforensics.duplicates, {"levels": "sequence"}, {"levels": ("sequence",)}),
}


@pytest.mark.parametrize("name", SAME)
def test_values_of_other_types_count_as_what_they_are(name: str) -> None:
    function, given, usual = SAME[name]
    assert repr(function(HANGING, **given)) == repr(function(HANGING, **usual))


# Sentences that the commands have, too, where they name options.
SENTENCES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "states 'opne' is not one of open, aborted, committed": (kforensics.transactions, {"states": ["opne"]}),
    "levels 'x' is not one of ": (kforensics.duplicates, {"levels": "x"}),
    "listed 'x' is not one of ": (kforensics.keys, {"listed": "x"}),
    "at asks for one value of the last stable offset, and history": (kforensics.lso, {"at": 3, "history": True}),
    "no partition is left by topic and partition; give others": (kforensics.lso, {"partition": 7}),
    "server_properties: cannot read /nonexistent: ": (kforensics.lso, {"server_properties": "/nonexistent"}),
    "key '(--key' is not a regular expression": (kforensics.dump, {"key": "(--key"}),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_errors_name_parameters_and_not_options(sentence: str) -> None:
    function, wrong = SENTENCES[sentence]
    with pytest.raises(UsageError) as caught:
        function(HANGING, **wrong)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("function", [kforensics.lso, kforensics.dump, kforensics.open, kforensics.scan])
def test_an_error_says_once_that_a_path_cannot_be_read(function: Callable[..., Any]) -> None:
    with pytest.raises(KforensicsError) as caught:
        function(["/nonexistent", "/no"])
    assert str(caught.value) == (
        "cannot read /nonexistent: there is no such file; cannot read /no: there is no such file"
    )


def test_every_function_keeps_its_name_and_its_signature() -> None:
    for function in FUNCTIONS:
        assert function.__doc__
        assert getattr(kforensics, function.__name__, function) is function
    assert "producer_id" in inspect.signature(kforensics.transactions).parameters
