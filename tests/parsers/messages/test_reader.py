import pickle

import pytest

from kforensics.errors import KforensicsError
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.reader import MessageError, MessageReader

# Bytes, and the UTF-16 code units of `new String(bytes, UTF_8)` in Java 17.
STRINGS = [
    ("41c3a9e697a5f09f9880", "004100e965e5d83dde00"),
    ("eda080", "fffd"),
    ("eda0", "fffd"),
    ("eda0ff", "fffdfffd"),
    ("ed9fbf", "d7ff"),
    ("edbfbfed80", "fffdfffd"),
    ("c080", "fffdfffd"),
    ("f0908080", "d800dc00"),
    ("f09080", "fffd"),
    ("f4908080", "fffdfffdfffdfffd"),
    ("e08080", "fffdfffdfffd"),
    ("ff", "fffd"),
    ("e2", "fffd"),
]


@pytest.mark.parametrize(("data", "units"), STRINGS)
def test_strings_are_javas(data: str, units: str) -> None:
    assert java_utf8(bytes.fromhex(data)).encode("utf-16-be").hex() == units


@pytest.mark.parametrize(
    ("data", "number"),
    [
        ("00", 0),
        ("7f", 127),
        ("8001", 128),
        ("8080808000", 0),
        ("ffffffff07", 2**31 - 1),
        ("ffffffff0f", -1),
        ("ffffffff7f", -1),
    ],
)
def test_varints_are_java_ints(data: str, number: int) -> None:
    reader = MessageReader(bytes.fromhex(data))
    assert reader.unsigned_varint() == number
    assert reader.remaining == 0


def test_the_length_below_the_smallest_int_is_the_largest() -> None:
    assert MessageReader(bytes.fromhex("8080808008")).length(compact=True) == 2**31 - 1


def test_the_error_can_be_pickled() -> None:
    error = MessageError("java.lang.RuntimeException", "text")
    assert isinstance(error, KforensicsError)
    assert isinstance(error, ValueError)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (copy.java_class, copy.java_message, str(copy)) == ("java.lang.RuntimeException", "text", "text")
