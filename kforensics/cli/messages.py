"""What commands write to standard error: sentences, and errors, which are JSON objects if the results are JSON."""

import os
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

from kforensics.errors import EngineError, InputError, KforensicsError, UsageError

CLEAN, FINDINGS, USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130
# How sentences are written, and whether errors are JSON; the last one counts.
LOG_FORMAT, ERRORS_ARE_JSON = ["text"], [False]
LOG_FORMATS, JSON_FORMATS = ("text", "json"), ("json", "ndjson")
KINDS = {USAGE: "usage", UNREADABLE: "unreadable"}


def notify(sentence: str) -> None:
    """Write a sentence to standard error. If nothing can be written there, results are written all the same."""
    from kforensics.parsers.format.text_encoding import printable  # help has no sentences

    if LOG_FORMAT[-1] == "json":
        _write(_document(time_ms=time.time_ns() // 1_000_000, message=sentence))
    else:
        _write(printable(sentence))


def notify_error(message: object, code: int, prefix: str = "") -> None:
    """Write an error to standard error: an object with kind, message and exit code if results are JSON.

    Args:
        message: what is wrong, a sentence or an exception.
        code: the exit code of a command that has this error.
        prefix: what is before the message in text.
    """
    if ERRORS_ARE_JSON[-1]:
        _write(_document(error={"kind": KINDS.get(code, "other"), "message": str(message), "exit_code": code}))
    else:
        notify(f"{prefix}{message}")


def notify_unreadable(message: object) -> None:
    """Write that an input cannot be read; the command goes on with the others."""
    notify_error(message, UNREADABLE)


def exit_code_of(error: KforensicsError) -> int:
    """Return the exit code of a command that ends with an error."""
    if isinstance(error, UsageError):
        return USAGE
    return UNREADABLE if isinstance(error, InputError | EngineError) else FINDINGS


def set_log_format(log_format: str) -> None:
    """Set how sentences are written.

    Raises:
        UsageError: there is no such format.
    """
    if log_format not in LOG_FORMATS:
        raise UsageError(f"--log-format {log_format!r} is not one of {', '.join(LOG_FORMATS)}")
    LOG_FORMAT[:] = [log_format]


def set_error_format(output_format: object) -> None:
    """Set how errors are written, by the format of the results, however it is spelt; None for none."""
    ERRORS_ARE_JSON[:] = [str(output_format).lower() in JSON_FORMATS]


def format_among(arguments: list[str]) -> str | None:
    """Return the format of results, as far as arguments show it that may be wrong; None if they do not."""
    following = zip(arguments, [*arguments, ""][1:], strict=False)
    given = [value for name, value in following if name == "--format"]
    given += [name.removeprefix("--format=") for name in arguments if name.startswith("--format=")]
    return given[-1] if given else None


def discard_output() -> None:
    """Redirect standard streams that were closed to ``/dev/null``, so that the interpreter's last flush succeeds."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
            continue
        _redirect_to_null(stream)


def _document(**fields: Any) -> str:
    import json  # text does not need it, nor the version

    from kforensics.render.formats import OUTPUT_SCHEMA

    return json.dumps({"schema": OUTPUT_SCHEMA, **fields})


def _write(line: str) -> None:
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        _redirect_to_null(sys.stderr)  # what it has buffered would fail again at the end


def _redirect_to_null(stream: TextIO) -> None:
    with suppress(OSError):  # a stream in memory has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
