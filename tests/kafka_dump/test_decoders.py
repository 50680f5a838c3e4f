import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.errors import UsageError
from kforensics.kafka_dump.decoders import (
    DECODER_KINDS,
    DEFAULT_CLASSES,
    class_decoder,
    control_suffix,
    decoder,
    decoder_kinds,
)
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import STYLES
from lab.places import ROOT

GOLDEN = ROOT / "tests" / "parsers" / "messages" / "golden"
STYLE_NAMES = tuple(STYLES)
CASES = [
    pytest.param(style, kind, cases, id=f"{style}-{kind}")
    for style in STYLE_NAMES
    for kind, cases in json.loads((GOLDEN / f"style-{style}.json").read_text(encoding="utf-8"))["kinds"].items()
]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _line(style: str | None, kind: str, key: bytes | None, value: bytes | None, offset: int) -> str:
    if kind == "control":
        return control_suffix(key, value, style)
    key_text, payload = decoder(kind, style)(key, value, offset)
    parts = (("key", key_text), ("payload", payload))
    return "".join(f" {name}: {text}" for name, text in parts if text is not None)


@pytest.mark.parametrize(("style", "kind", "cases"), CASES)
def test_texts_equal_those_of_kafkas_tool(style: str, kind: str, cases: list[list[Any]]) -> None:
    assert cases
    for offset, (key, value, text, error) in enumerate(cases):
        outcome: list[str | list[str] | None]
        try:
            outcome = [_line(style, kind, _bytes(key), _bytes(value), offset), None]
        except JavaError as caught:
            outcome = [None, caught.stderr_lines()]
        assert outcome == [text, error], (key, value)


@pytest.mark.parametrize(("style", "kind", "cases"), CASES)
def test_the_plain_style_never_raises_and_agrees_with_the_newest_tool(
    style: str, kind: str, cases: list[list[Any]]
) -> None:
    for offset, (key, value, text, _) in enumerate(cases):
        line = _line(None, kind, _bytes(key), _bytes(value), offset)
        if style == "4.3" and text is not None and "kipping." not in text and " bytes}" not in text:
            assert line.startswith(text), (key, value)


@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=50),
    kind=st.sampled_from(DECODER_KINDS),
)
def test_arbitrary_bytes_raise_nothing_in_the_plain_style(key: bytes | None, value: bytes | None, kind: str) -> None:
    for text in decoder(kind)(key, value, 7):
        assert text is None or isinstance(text, str)
    assert control_suffix(key, value).startswith(" ")


@given(key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=50))
def test_arbitrary_bytes_raise_only_java_errors_in_a_style(key: bytes | None, value: bytes | None) -> None:
    for style in STYLE_NAMES:
        for kind in ("control", *decoder_kinds(style)):
            with contextlib.suppress(JavaError):
                assert isinstance(_line(style, kind, key, value, 0), str)


def test_a_style_has_the_decoders_of_its_release() -> None:
    assert set(decoder_kinds("4.3")) == set(DECODER_KINDS)
    assert "share-group-state" not in decoder_kinds("3.9")
    assert "cluster-metadata" not in decoder_kinds("2.7")
    with pytest.raises(UsageError, match=r"no decoder 'cluster-metadata' in style 2\.7"):
        decoder("cluster-metadata", "2.7")


@pytest.mark.parametrize("style", STYLE_NAMES)
def test_the_default_class_of_a_style_loads(style: str) -> None:
    loaded = class_decoder(DEFAULT_CLASSES[style], style)
    assert loaded.decode(b"\xc3\xa9") == "é"
    assert loaded.warnings == ()


# Which packages the tools of the five releases accept.
OLD, NEW = "kafka.serializer.", "org.apache.kafka.tools.api."


@pytest.mark.parametrize(
    ("style", "old_loads", "new_loads"),
    [("2.7", True, False), ("2.8", True, False), ("3.9", True, True), ("4.2", False, True), ("4.3", False, True)],
)
def test_class_names_belong_to_releases(style: str, old_loads: bool, new_loads: bool) -> None:
    for package, loads in ((OLD, old_loads), (NEW, new_loads)):
        for name, data, text in (("LongDecoder", b"\xff" * 9, "-1"), ("IntegerDecoder", b"\0\0\0\x05", "5")):
            if loads:
                assert class_decoder(package + name, style).decode(data) == text
            else:
                with pytest.raises(JavaError, match=r"ClassNotFoundException|Failed to load"):
                    class_decoder(package + name, style)


def test_old_names_warn_in_3_9() -> None:
    expected = f"{OLD}LongDecoder is deprecated. Please use {NEW}LongDecoder instead"
    assert class_decoder(f"{OLD}LongDecoder", "3.9").warnings == (expected,)


def test_4_3_wraps_the_error_of_a_missing_class() -> None:
    with pytest.raises(JavaError) as caught:
        class_decoder("foo.Bar", "4.3")
    assert caught.value.stderr_lines() == [
        'Exception in thread "main" java.lang.RuntimeException: Failed to load decoder class',
        "Caused by: java.lang.ClassNotFoundException: foo.Bar",
    ]


def test_too_few_bytes_for_a_number_abort_the_tool_but_not_the_plain_style() -> None:
    with pytest.raises(JavaError, match=r"java\.nio\.BufferUnderflowException"):
        decoder("long", "4.3")(b"1234", None, 0)
    assert decoder("long")(b"1234", None, 0)[0] == "<4 byte(s), too few>"


def test_the_default_decoder_prints_an_array() -> None:
    text = class_decoder(f"{NEW}DefaultDecoder", "4.3").decode(b"abc")
    assert text.startswith("[B@")
    assert text == class_decoder(f"{NEW}DefaultDecoder").decode(b"abc")
