"""The error hierarchy: base classes, messages, attributes, pickling."""

from __future__ import annotations

import copy
import pickle
import shlex
import subprocess
import sys

import pytest

from kforensics import errors
from kforensics.errors import (
    EngineError,
    InputError,
    InputForbiddenError,
    InputKindError,
    InputMissingError,
    KforensicsError,
    MissingExtraError,
    OutputClosedError,
    UnknownNameError,
    UnknownParameterError,
    UsageError,
    install_line,
)

EXAMPLES: list[tuple[KforensicsError, type[Exception], str]] = [
    (KforensicsError("something"), Exception, "something"),
    (UsageError("write A:B"), ValueError, "write A:B"),
    (UnknownParameterError("lso has no parameter x"), TypeError, "lso has no parameter x"),
    (UnknownNameError("there is no table 'x'"), KeyError, "there is no table 'x'"),
    (
        MissingExtraError("spark", "pyspark"),
        ImportError,
        f"pyspark is not installed. Install it with: {sys.executable} -m pip install 'pyspark>=4.1' 'pandas>=2.2,<3'",
    ),
    (EngineError("Spark does not start"), RuntimeError, "Spark does not start"),
    (OutputClosedError("closed"), BrokenPipeError, "closed"),
    (InputError("a.log", "why"), OSError, "cannot read a.log: why"),
    (InputMissingError("a.log", "why"), FileNotFoundError, "cannot read a.log: why"),
    (InputForbiddenError("a.log", "why"), PermissionError, "cannot read a.log: why"),
    (InputKindError("a.log", "why"), InputError, "cannot read a.log: why"),
]
examples = pytest.mark.parametrize(
    ("error", "parent", "text"), EXAMPLES, ids=[type(error).__name__ for error, *_ in EXAMPLES]
)


def test_every_error_is_covered() -> None:
    assert {type(error).__name__ for error, *_ in EXAMPLES} == set(errors.__all__)


@examples
def test_an_error_has_both_base_classes(error: KforensicsError, parent: type[Exception], text: str) -> None:
    assert isinstance(error, KforensicsError)
    assert isinstance(error, parent)
    assert str(error) == text


@examples
def test_an_error_can_be_pickled_and_copied(error: KforensicsError, parent: type[Exception], text: str) -> None:
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(copied) is type(error)
        assert str(copied) == text
        assert vars(copied) == vars(error)


@pytest.mark.parametrize("kind", [InputError, InputMissingError, InputForbiddenError, InputKindError])
def test_an_input_error_has_its_attributes(kind: type[InputError]) -> None:
    error = kind("s3://bucket/a.log", "it is gone")
    assert (error.path, error.why) == ("s3://bucket/a.log", "it is gone")
    assert not isinstance(error, FileNotFoundError) or kind is InputMissingError


@pytest.mark.parametrize("extra", ["plots", "spark"])
def test_a_shell_understands_the_line_that_installs_an_extra(extra: str) -> None:
    """Nothing is published, so the line has no name that anyone could take."""
    line = install_line(extra)
    program, *rest, first, second = shlex.split(line)
    assert (program, rest) == (sys.executable, ["-m", "pip", "install"])
    assert "kforensics" not in f"{first} {second}"
    script = ["/bin/sh", "-c", f"{line} --dry-run --quiet --no-index"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
