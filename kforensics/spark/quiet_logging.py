"""Keeps the start-up output of Spark's driver out of standard error, unless the user configures Spark's logging."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread

__all__ = ["OPTIONS", "QUICK_COMPILE", "StartupOutput", "options_first"]

# The launcher of Spark adds this variable to the options for Java, before those of its properties.
OPTIONS = "SPARK_SUBMIT_OPTS"
# Java does so little in an audit that optimised compilation costs more than it saves: half of its processor time. Its
# classes take 150 MB of metaspace; with a smaller initial size it pauses several times to look for classes to unload.
QUICK_COMPILE = "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m"


@contextmanager
def options_first(options: str) -> Iterator[None]:
    """Pass options to a Java process that is started within the context.

    Args:
        options: the options, separated by blanks.
    """
    before = os.environ.get(OPTIONS)
    os.environ[OPTIONS] = f"{options} {before or ''}".rstrip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[OPTIONS]
        else:
            os.environ[OPTIONS] = before


SETTINGS = Path(__file__).with_name("log4j2.properties")
# Java prints this whatever is configured: Spark requests a module that only its machine learning uses.
ALWAYS = re.compile(rb"^WARNING: Using incubator modules: .*\n", re.MULTILINE)
STDERR = 2
# Time to read the remaining output of a Java process that has ended.
SECONDS = 2.0


class StartupOutput:
    """Output of Java while Spark starts; it is passed on once Spark has started, except for the known warning."""

    def __init__(self) -> None:
        self._heard: bytes | None = b""
        self._lock = Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Capture the output of a Java process started within the context, unless its logging is configured."""
        if _has_settings() or not SETTINGS.is_file():
            yield
            return
        log = f"-Dlog4j2.configurationFile={SETTINGS.as_uri()}"
        with options_first(log), self._listening():
            yield

    def text(self) -> str:
        """Return the output that was not passed on."""
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
            # Not to ``kept``: the listener closes it once all writers are gone.
            os.write(STDERR, heard or b"")

    def _pass_on(self, source: int, target: int) -> None:
        """Read until all writers are gone: keep the output until Spark has started, then pass it on immediately."""
        while output := os.read(source, 1 << 16):
            with self._lock:
                if self._heard is None:
                    os.write(target, output)
                else:
                    self._heard = ALWAYS.sub(b"", self._heard + output)
        os.close(source)
        os.close(target)


def _has_settings() -> bool:
    if "PYSPARK_GATEWAY_PORT" in os.environ or "log4j" in os.environ.get(OPTIONS, ""):
        return True
    from pyspark.find_spark_home import _find_spark_home  # imported only where Spark is used

    folder = Path(os.environ.get("SPARK_CONF_DIR") or f"{_find_spark_home()}/conf")
    return any(folder.glob("log4j2*"))
