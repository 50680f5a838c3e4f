"""Words for a Java that is about to be started; those of a user come behind them, and so they count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["BRIEF", "OPTIONS", "options_first"]

# What the launcher of Spark adds to the words for Java, before all that its properties add.
OPTIONS = "SPARK_SUBMIT_OPTS"
# Java itself does so little in an audit that compiling it well costs more than it saves: half of its processor time.
# What it loads takes 150 MB; with less than that at first it stops several times to look what could be unloaded.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m"


@contextmanager
def options_first(words: str) -> Iterator[None]:
    """Give words to a Java that is started meanwhile.

    Args:
        words: with blanks between them.
    """
    before = os.environ.get(OPTIONS)
    os.environ[OPTIONS] = f"{words} {before or ''}".rstrip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[OPTIONS]
        else:
            os.environ[OPTIONS] = before
