"""A driver's Java that says what people want to read: Spark's own remarks stay out of standard error.

Whoever has settings of his own for Spark's log keeps them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread

from kforensics.spark.java_options import OPTIONS, options_first

__all__ = ["Remarks"]

SETTINGS = Path(__file__).with_name("log4j2.properties")
# Java says so itself, whatever is set: Spark asks for a module that only its machine learning uses.
ALWAYS = re.compile(rb"^WARNING: Using incubator modules: .*\n", re.MULTILINE)
STDERR = 2
# A Java that has ended is heard to its end within that.
SECONDS = 2.0


class Remarks:
    """What Java says while Spark starts; all but what it always says is passed on once Spark has started."""

    def __init__(self) -> None:
        self._heard: bytes | None = b""
        self._lock = Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Listen to a Java that is started meanwhile, unless there are settings for its log, or it runs already."""
        if _has_settings() or not SETTINGS.is_file():
            yield
            return
        log = f"-Dlog4j2.configurationFile={SETTINGS.as_uri()}"
        with options_first(log), self._listening():
            yield

    def text(self) -> str:
        """Return what was said and not passed on."""
        return (self._heard or b"").decode(errors="replace")

    @contextmanager
    def _listening(self) -> Iterator[None]:
        kept = os.dup(STDERR)
        ours, theirs = os.pipe()
        listener = Thread(target=self._pass_on, args=(ours, kept), daemon=True)
        listener.start()
        os.dup2(theirs, STDERR)
        os.close(theirs)
        try:
            yield
        except BaseException:
            os.dup2(kept, STDERR)
            listener.join(SECONDS)
            raise
        os.dup2(kept, STDERR)
        with self._lock:
            heard, self._heard = self._heard, None
            # Not to what was kept: who listens closes that once nobody may write any more.
            os.write(STDERR, heard or b"")

    def _pass_on(self, source: int, target: int) -> None:
        """Take what comes, as long as somebody may write; from when Spark has started on, it goes on as it comes."""
        while said := os.read(source, 1 << 16):
            with self._lock:
                if self._heard is None:
                    os.write(target, said)
                else:
                    self._heard = ALWAYS.sub(b"", self._heard + said)
        os.close(source)
        os.close(target)


def _has_settings() -> bool:
    if "PYSPARK_GATEWAY_PORT" in os.environ or "log4j" in os.environ.get(OPTIONS, ""):
        return True
    from pyspark.find_spark_home import _find_spark_home  # only Spark pays for Spark

    folder = Path(os.environ.get("SPARK_CONF_DIR") or f"{_find_spark_home()}/conf")
    return any(folder.glob("log4j2*"))
