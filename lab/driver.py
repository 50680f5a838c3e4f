"""The door to the real Java clients: one process, one JSON line per request."""

import json
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.errors import DriverError, LabError
from lab.jars import Artifact, fetch, tool
from lab.places import CLASSES, SOURCES
from lab.progress import say

# The newest release that has all of its clients published: of 4.4.0 there is no Kafka Streams yet.
CLIENT_VERSION = "4.3.1"
# The last clients that speak to brokers before 2.1 (KIP-896).
EARLY_CLIENT_VERSION = "3.9.1"
_SOURCES = SOURCES / "java" / "lab"
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
# Longer than any operation of a scenario; a client has been seen to wait forever for an answer to a record.
_ANSWER_SECONDS = 300
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _QUIET)

Bytes = bytes | str | None
"""A key, value or header value: text means UTF-8, None a null."""


def hexed(data: Bytes) -> str | None:
    """Bytes in hex, as they are sent to the driver and written to ``truth.json``."""
    if data is None:
        return None
    return (data.encode() if isinstance(data, str) else data).hex()


def record(
    key: Bytes = None,
    value: Bytes = None,
    timestamp: int | None = None,
    headers: Sequence[tuple[str, Bytes]] = (),
) -> dict[str, Any]:
    """A record to send; without a timestamp the client takes the clock."""
    pairs = [[name, hexed(content)] for name, content in headers]
    return {"key": hexed(key), "value": hexed(value), "timestamp": timestamp, "headers": pairs}


def records(prefix: str, count: int, size: int = 20) -> list[dict[str, Any]]:
    """A few records with recognizable keys and values of about the given size."""
    values = (f"{prefix} {number} " for number in range(count))
    return [record(f"{prefix}-{number}", text.ljust(size, ".")) for number, text in enumerate(values)]


class Driver:
    """Kafka's own clients, at the disposal of a scenario.

    Attributes:
        journal: every request made, as one readable line each.
    """

    def __init__(self, bootstrap: str, log: Path, *, early: bool = False) -> None:
        self.journal: list[str] = []
        self.bootstrap = bootstrap
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                _java_command(bootstrap, early), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def call(self, operation: str, **arguments: Any) -> Any:
        """Run one operation in the Java process and note it in the journal.

        Raises:
            DriverError: the client threw an exception.
        """
        self.journal.append(_line(operation, arguments))
        return self.ask(operation, **arguments)

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Like :meth:`call`, for questions that leave no trace and need no line in the journal."""
        answer = self._exchange({"operation": operation, **arguments})
        if "error" in answer:
            raise DriverError(operation, answer["error"], answer["message"])
        return answer["result"]

    def refused(self, operation: str, **arguments: Any) -> str:
        """Run an operation that the broker has to refuse; returns the name of the exception.

        Raises:
            LabError: it went through.
        """
        try:
            self.call(operation, **arguments)
        except DriverError as error:
            self.journal[-1] += f"  -> {error.kind}"
            return error.kind
        raise LabError(f"{operation} {arguments} was expected to be refused, but was not.")

    def send(self, name: str, topic: str, batch: Sequence[dict[str, Any]], partition: int | None = 0) -> list[int]:
        """Send records in one flush, which makes one batch per partition; returns their offsets."""
        offsets: list[int] = self.call("send", name=name, topic=topic, partition=partition, records=list(batch))
        return offsets

    def close(self) -> None:
        """End the process without closing its clients: what is open stays open."""
        with self._process:  # closes the pipes and waits
            self._process.kill()

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise LabError("The driver has no pipes.")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        waiting = select.poll()  # select.select refuses file descriptors above 1,023
        waiting.register(self._process.stdout, select.POLLIN)
        if not waiting.poll(_ANSWER_SECONDS * 1000):
            raise LabError(f"The Java driver has not answered {request['operation']} for {_ANSWER_SECONDS} s.")
        line = self._process.stdout.readline()
        if not line:
            raise LabError("The Java driver ended unexpectedly; see its log in .lab/run.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def driving(bootstrap: str, log: Path, *, early: bool = False) -> Iterator[Driver]:
    """A driver for as long as the block lasts; an early one speaks to brokers before 2.1 and knows fewer operations."""
    driver = Driver(bootstrap, log, early=early)
    try:
        yield driver
    finally:
        driver.close()


def client_jars() -> Path:
    """The jars of the clients and of the JSON library the driver speaks with."""
    return fetch(
        f"clients-{CLIENT_VERSION}",
        [
            Artifact(f"org.apache.kafka:kafka-clients:{CLIENT_VERSION}"),
            # State stores on disk are of no use to the lab, and their library is large.
            Artifact(f"org.apache.kafka:kafka-streams:{CLIENT_VERSION}", ["org.rocksdb:rocksdbjni"]),
            Artifact("com.fasterxml.jackson.core:jackson-databind:2.19.0"),
        ],
    )


def _java_command(bootstrap: str, early: bool) -> list[str]:
    jars = _early_jars() if early else client_jars()
    classes = CLASSES / (EARLY_CLIENT_VERSION if early else CLIENT_VERSION)
    compile_java(jars, classes, _early_sources() if early else sorted(_SOURCES.glob("*.java")))
    return [tool("java"), *_JVM, "-cp", f"{classes}:{jars}/*", "lab.Driver", bootstrap]


def _early_jars() -> Path:
    clients = Artifact(f"org.apache.kafka:kafka-clients:{EARLY_CLIENT_VERSION}")
    return fetch(
        f"clients-{EARLY_CLIENT_VERSION}", [clients, Artifact("com.fasterxml.jackson.core:jackson-databind:2.19.0")]
    )


def _early_sources() -> list[Path]:
    """The few operations that need nothing of 4.x, and the ones written for the older clients."""
    shared = [_SOURCES / f"{name}.java" for name in ("ProducerOperations", "Requests")]
    return [*shared, *sorted((SOURCES / "java_early" / "lab").glob("*.java"))]


def compile_java(jars: Path, classes: Path, sources: Sequence[Path]) -> None:
    """Compile sources into a folder, unless that is newer than they are.

    Raises:
        LabError: they do not compile.
    """
    done = classes / ".complete"
    if done.exists() and done.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return
    say(f"compiling {', '.join(source.stem for source in sources)}")
    classes.mkdir(parents=True, exist_ok=True)
    command = [tool("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"The Java sources do not compile:\n{outcome.stderr[-4000:]}")
    done.touch()


def _line(operation: str, arguments: dict[str, Any]) -> str:
    shown = {key: value for key, value in arguments.items() if value is not None}
    if "records" in shown and isinstance(shown["records"], list):
        shown["records"] = len(shown["records"])
    return " ".join([operation, *(f"{key}={_short(value)}" for key, value in shown.items())])


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text if len(text) <= 160 else text[:157] + "..."
