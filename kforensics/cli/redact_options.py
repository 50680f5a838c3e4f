"""The options that redact results, and what they mean."""

# No postponed annotations, see ``command``.

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import OUTPUT
from kforensics.errors import UsageError

if TYPE_CHECKING:
    from kforensics.render.redaction import Redaction

Redact = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Replace transactional and client ids, keys, values and header values by a keyed hash.",
        rich_help_panel=OUTPUT,
    ),
]
RedactNames = Annotated[
    bool,
    typer.Option(
        "--redact-names", help="With --redact: names of topics, groups and hosts too.", rich_help_panel=OUTPUT
    ),
]
RedactKeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the secret, so that hashes of several runs can be compared. Default: random.",
        rich_help_panel=OUTPUT,
    ),
]


def without_key_file(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line without the path of the file with the secret."""
    is_path = False
    for word in words:
        is_option = word.startswith("--redact-key-file")
        yield "--redact-key-file=…" if is_option and "=" in word else "…" if is_path else word
        is_path = is_option and "=" not in word


def redaction_of(key_file: Path | None, *, is_wanted: bool, hides_names: bool) -> "Redaction | None":
    """Return what redacts results, None if nothing does.

    Args:
        key_file: file with the secret, None for a random one.
        is_wanted: whether ``--redact`` is given.
        hides_names: whether ``--redact-names`` is given.

    Raises:
        UsageError: another option is given without ``--redact``, or the file cannot be read or is empty.
    """
    if not is_wanted and not hides_names and key_file is None:
        return None
    from kforensics.cli.dump_run import redactor  # few results are redacted
    from kforensics.render.redaction import Redaction

    if hides_names and not is_wanted:
        raise UsageError("--redact-names is for --redact; add --redact")
    hashing = redactor(key_file, is_wanted=is_wanted)
    return None if hashing is None else Redaction(hashing, hides_names=hides_names)
