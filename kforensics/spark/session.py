"""A Spark session: the active one, or a new one whose Python workers use this environment.

The start-up output of the driver stays out of standard error, unless the user configures Spark's logging.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess  # nosec B404  # it asks Spark's Python for the package
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING

from kforensics.errors import EngineError, MissingExtraError, UsageError, install_line
from kforensics.spark.interrupts import cancelling_jobs, is_interrupted, own_handlers, wait_for_tasks

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "OPTIONS",
    "QUICK_COMPILE",
    "StartupOutput",
    "answering",
    "check_version",
    "check_workers",
    "described",
    "options_first",
    "parallelism",
    "session",
]


# The launcher of Spark adds this variable to the options for Java, before those of its properties.
OPTIONS = "SPARK_SUBMIT_OPTS"
# Java does so little in an audit that optimized compilation costs more than it saves: half of its processor time. Its
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
        self._is_ending = False
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

    def end(self) -> None:
        """Discard what follows: a command that ends early causes errors in Spark's Python, which prints them."""
        self._is_ending = True

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
                if self._is_ending:
                    continue
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


# Spark's property for the Python of workers.
PYTHON = "spark.pyspark.python"
DESCRIPTION = "spark.job.description"
NO_GATEWAY = "JAVA_GATEWAY_EXITED"
# What Java 11 says to the classes of Spark, which are for Java 17.
OLD_JAVA = "UnsupportedClassVersionError"
# Version of Spark with direct partition ids and pushed filters.
OLDEST = (4, 1)
# The innermost error of a line with nested errors.
RAISED = re.compile(r"^.*\b((?:\w+[.$])*\w*(?:Error|Exception): .+)$", re.MULTILINE)
# How a worker reports what the user can correct.
REFUSED = re.compile(rf"^{UsageError.__module__}\.{UsageError.__name__}: (.+)$", re.MULTILINE)
# A thread reports this for an error in another thread, which follows.
ELSEWHERE = "Exception thrown in awaitResult"


@contextmanager
def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield the active session, or a new one that ends with the context.

    Args:
        master: URL of the cluster's master; None for Spark's own configuration, which defaults to all processors of
            this machine.
        conf: properties of Spark.

    Raises:
        MissingExtraError: pyspark is not installed.
        EngineError: Spark does not start, or is too old.
    """
    try:
        check_version()
        from pyspark.sql import SparkSession  # imported only where Spark is used
    except ImportError as error:
        raise MissingExtraError("spark", "pyspark") from error
    if active := SparkSession.getActiveSession():
        yield active
        return
    _check_java()
    given = {**({"spark.master": master} if master else {}), **(conf or {})}
    os.environ.setdefault("PYSPARK_PYTHON", given.get(PYTHON, sys.executable))
    builder = SparkSession.builder.appName("kforensics")
    for name, value in given.items():
        builder = builder.config(name, value)
    remarks = StartupOutput()
    # The Java of a cluster may run for hours and is not ours.
    java = options_first(QUICK_COMPILE) if given.get("spark.master", "local").startswith("local") else nullcontext()
    with answering("Spark does not start", remarks.text), java, remarks.held(), own_handlers():
        started = builder.getOrCreate()
    if _is_submitted_without_settings(given):
        started.sparkContext.setLogLevel("ERROR")
    try:
        with cancelling_jobs(context_of(started), remarks.end):
            yield started
    finally:
        started.stop()


def _is_submitted_without_settings(given: Mapping[str, str]) -> bool:
    """Return whether ``spark-submit`` has started Java and no setting says what Spark logs."""
    folder = os.environ.get("SPARK_CONF_DIR")
    is_configured = "log4j" in os.environ.get(OPTIONS, "") or (folder and any(Path(folder).glob("log4j2*")))
    return "PYSPARK_GATEWAY_PORT" in os.environ and "spark.log.level" not in given and not is_configured


def check_version() -> None:
    """Check that the installed Spark has what the audit and the data source need.

    Raises:
        EngineError: it is too old.
    """
    import pyspark  # only where Spark is used

    if tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2])) < OLDEST:
        raise EngineError(
            f"kforensics needs Spark {'.'.join(map(str, OLDEST))} or later, and this is Spark {pyspark.__version__};"
            f" install it with: {install_line('spark')}"
        )


def check_workers(spark: SparkSession) -> None:
    """Check that the Python workers of a session on this machine have this package; of other machines nothing is known.

    Raises:
        EngineError: they do not have it.
    """
    context = context_of(spark)
    if context is None or not re.fullmatch(r"local(\[.*\])?", context.master or ""):
        return
    python = shutil.which(context.pythonExec)
    # The Python of a virtual environment is a link to one that has other packages, so files are not compared.
    if python is None or Path(python).parent == Path(sys.executable).parent:
        return
    imports = [python, "-c", "import kforensics.spark.source.data_source"]
    if subprocess.run(imports, capture_output=True, check=False).returncode:  # noqa: S603  # nosec B603  # Spark will run it as well
        raise EngineError(
            f"the Python workers of this session are {python}, which cannot import kforensics; set"
            f" PYSPARK_PYTHON={sys.executable} before the session starts"
        )


def _check_java() -> None:
    """Check that there is a Java runtime, unless ``spark-submit`` or a remote server provides one.

    Raises:
        EngineError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    known = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    if not known and not shutil.which("java", path=f"{home}/bin" if home else None):
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        raise EngineError(f"Spark needs Java 17 or later, and there is none {where}; install a runtime and try again")


@contextmanager
def answering(failure: str, output: Callable[[], str] = str) -> Iterator[None]:
    """Turn exceptions of Spark into one sentence.

    Args:
        failure: what did not work, as the start of the sentence.
        output: returns the output of Java, in case it exits before it raises anything.

    Raises:
        KeyboardInterrupt: a signal ended the block, and Spark raised something else after it.
        UsageError: a task raised it: a folder that it writes to is full, for example.
        EngineError: Spark raised something else.
    """
    from py4j.protocol import Py4JError  # imported only where Spark is used
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if is_interrupted(error):
            raise KeyboardInterrupt from error
        text = str(error)
        if refused := REFUSED.search(text):
            raise UsageError(refused[1]) from error
        reason = _reason((output() if NO_GATEWAY in text else "") or text)
        raise EngineError(f"{failure}: {reason}; see Spark's logs") from error


def _reason(text: str) -> str:
    """Return the reason: the error that a worker raised, otherwise the first line."""
    if OLD_JAVA in text:
        return f"Spark needs Java 17 or later, and {os.environ.get('JAVA_HOME') or shutil.which('java')} is older"
    lines = [line.strip() for line in text.splitlines() if line.strip() and ELSEWHERE not in line]
    raised: list[str] = RAISED.findall("\n".join(lines))
    reason = [*raised, *lines, "no reason is given"][0].rstrip(".")
    if "No module named 'kforensics'" in reason:
        return f"{reason}; set PYSPARK_PYTHON to a Python of the workers that has it"
    return reason


@contextmanager
def described(spark: SparkSession, work: str) -> Iterator[None]:
    """Give the jobs of the context a description, which Spark's UI shows instead of a line of code.

    If a signal ends the context, wait until the tasks of cancelled jobs have ended too: they may be writing a store
    that is about to be deleted.

    Args:
        spark: the session.
        work: what the jobs do.
    """
    context = context_of(spark)
    if context is None:
        yield
        return
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, f"kforensics: {work}")
    try:
        yield
    except BaseException as error:
        if is_interrupted(error):
            wait_for_tasks(context)
        raise
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def parallelism(spark: SparkSession) -> int:
    """Return the approximate number of tasks that can run at once."""
    context = context_of(spark)
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1) if context is None else context.defaultParallelism


def context_of(spark: SparkSession) -> SparkContext | None:
    """Return the context of a session; None for a client of Spark Connect, which does not see the cluster."""
    from pyspark.errors import PySparkAttributeError  # imported only where Spark is used

    try:
        return spark.sparkContext
    except PySparkAttributeError:
        return None
