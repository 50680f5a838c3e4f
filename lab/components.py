"""Real components that use transactions: workers of Kafka Connect, Kafka Streams applications, a job of Flink."""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from lab.broker import JavaProcess, free_port, write_properties
from lab.driver import CLIENT_VERSION, compile_java
from lab.errors import LabError
from lab.jars import Artifact, fetch
from lab.places import CLASSES, SOURCES

# The newest connector, and the release of Flink that it is made for.
_FLINK_CONNECTOR, _FLINK = "5.0.0-2.2", "2.2.0"
_FLINK_PARTS = ("clients", "streaming-java", "connector-base", "connector-datagen")
_SOURCES = SOURCES / "java_components" / "lab"
_QUIET = ("-Dorg.slf4j.simpleLogger.showDateTime=true",)
# What Flink itself passes to a Java that encapsulates its packages.
_OPENED = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time", "net"))
_WAIT_SECONDS = 240
# The shortest session that brokers accept: who comes after a killed member waits for its end.
_SESSION = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
_WORKER = {
    "exactly.once.source.support": "enabled",
    **{f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")},
    **{f"{part}.storage.replication.factor": "1" for part in ("offset", "config", "status")},
    **{f"{part}.storage.partitions": "1" for part in ("offset", "status")},
    "offset.flush.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    **_SESSION,
    **{f"consumer.{name}": value for name, value in _SESSION.items()},
}
# What is not about exactly-once: topics of a single replica, and nothing but the copy itself.
_MIRROR = {
    **{f"{part}.storage.replication.factor": "1" for part in ("offset", "config", "status")},
    **{f"{part}.storage.partitions": "1" for part in ("offset", "status")},
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
}
_STREAMS = {
    "num.stream.threads": "2",
    "statestore.cache.max.bytes": "0",
    "producer.transaction.timeout.ms": "900000",
    "consumer.auto.offset.reset": "earliest",
    **{
        f"default.{part}.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde" for part in ("key", "value")
    },
}


@dataclass(slots=True)
class ConnectWorker:
    """A distributed worker with exactly-once support for source connectors.

    Attributes:
        bootstrap: servers of the cluster.
        group: ``group.id`` of the workers.
        folder: where its settings and its output go.
        port: of its REST API.
    """

    bootstrap: str
    group: str
    folder: Path
    port: int = 0

    @property
    def log(self) -> Path:
        """What all workers logged that were started."""
        return self.folder / f"{self.group}.out"

    def start(self) -> JavaProcess:
        """Start the worker, and wait until it has joined the group."""
        self.port = self.port or free_port()
        topics = {f"{part}.storage.topic": f"{self.group}-{part}s" for part in ("offset", "config")}
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "listeners": f"http://127.0.0.1:{self.port}",
            **topics,
            "status.storage.topic": f"{self.group}-status",
            **_WORKER,
        }
        properties = write_properties(self.folder / f"{self.group}.properties", settings)
        process = JavaProcess(_connect_jars(), self.log)
        process.start("org.apache.kafka.connect.cli.ConnectDistributed", str(properties), jvm=_QUIET)
        wait_until(f"the worker of {self.group} answers", lambda: self._request("GET", "connectors") is not None)
        return process

    def configure(self, connector: str, **config: str) -> None:
        """Create a connector or change its settings, and wait until its task runs; underscores stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wait_until(
            f"{connector} is configured",
            lambda: self._request("PUT", f"connectors/{connector}/config", settings) is not None,
        )
        self.wait_for_task(connector)

    def wait_for_task(self, connector: str) -> None:
        """Wait until the only task of a connector runs."""
        wait_until(f"the task of {connector} runs", lambda: self._task_states(connector) == ["RUNNING"])

    def _task_states(self, connector: str) -> list[str]:
        status = self._request("GET", f"connectors/{connector}/status")
        return [] if status is None else [task["state"] for task in status["tasks"]]

    def _request(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer of the REST API; None as long as there is none, as during a rebalance."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        with closing(connection), suppress(OSError, HTTPException):
            text = None if body is None else json.dumps(body)
            connection.request(method, f"/{path}", text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return json.load(answer) if answer.status < 300 else None
        return None


@dataclass(slots=True)
class MirrorMaker:
    """MirrorMaker 2 with exactly-once support, which copies a topic within one cluster, under two names of it.

    Attributes:
        bootstrap: servers of the cluster.
        source: alias under which it is read.
        topic: what is copied, to ``<source>.<topic>``.
        folder: where its settings and its output go.
    """

    bootstrap: str
    source: str
    topic: str
    folder: Path

    def start(self) -> JavaProcess:
        """Start it; its transactions end after ten minutes."""
        target, flow = "copy", f"{self.source}->copy"
        settings = {
            "clusters": f"{self.source},{target}",
            f"{self.source}.bootstrap.servers": self.bootstrap,
            f"{target}.bootstrap.servers": self.bootstrap,
            f"{target}.exactly.once.source.support": "enabled",
            f"{flow}.enabled": "true",
            f"{target}->{self.source}.enabled": "false",
            f"{flow}.topics": self.topic,
            f"{flow}.transaction.boundary": "interval",
            f"{flow}.transaction.boundary.interval.ms": "600000",
            f"{flow}.producer.override.transaction.timeout.ms": "900000",
            **_MIRROR,
        }
        properties = write_properties(self.folder / "mirror-maker.properties", settings)
        process = JavaProcess(mirror_jars(), self.folder / "mirror-maker.out")
        process.start("org.apache.kafka.connect.mirror.MirrorMaker", str(properties), jvm=_QUIET)
        return process


@dataclass(slots=True)
class StreamsApplication:
    """A Kafka Streams application that counts records, see ``StreamsApplication.java``.

    Attributes:
        bootstrap: servers of the cluster.
        name: its ``application.id``.
        folder: where its settings, its output and its state go.
        settings: what differs from other applications.
        version: the release of Kafka Streams.
    """

    bootstrap: str
    name: str
    folder: Path
    settings: Mapping[str, str]
    version: str = CLIENT_VERSION
    _starts: int = 0

    def start(self, commit_ms: int) -> JavaProcess:
        """Start it with a commit interval, and wait until it runs."""
        self._starts += 1
        log = self.folder / f"{self.name}-{self._starts}.out"
        settings = {
            "bootstrap.servers": self.bootstrap,
            "application.id": self.name,
            "client.id": self.name,
            "state.dir": str(self.folder / "state"),
            "commit.interval.ms": str(commit_ms),
            **_STREAMS,
            **({} if self.settings.get("group.protocol") == "streams" else _SESSION),
            **self.settings,
        }
        properties = write_properties(self.folder / f"{self.name}.properties", settings)
        jars = _streams_jars(self.version)
        process = JavaProcess(jars, log, classes=_compiled("StreamsApplication", jars))
        process.start("lab.StreamsApplication", str(properties), jvm=_QUIET)
        process.wait_for("state RUNNING")
        return process


@dataclass(slots=True)
class FlinkJob:
    """A job whose sink writes exactly once, see ``FlinkJob.java``.

    Attributes:
        bootstrap: servers of the cluster.
        topic: what it writes to.
        prefix: of its transactional ids.
        folder: where its output and its checkpoints go.
    """

    bootstrap: str
    topic: str
    prefix: str
    folder: Path
    _starts: int = 0

    @property
    def hold(self) -> Path:
        """The file during whose existence no checkpoint completes."""
        return self.folder / "hold"

    @property
    def pause(self) -> Path:
        """The file during whose existence the tasks of the sink do nothing."""
        return self.folder / "pause"

    def start(self, checkpoint: int | None = None) -> JavaProcess:
        """Start it, from a checkpoint if one is named; the returned process has a log of its own."""
        self._starts += 1
        jars = _flink_jars()
        process = JavaProcess(jars, self.folder / f"flink-{self._starts}.out", classes=_compiled("FlinkJob", jars))
        folder = self.folder / "checkpoints"
        arguments = [self.bootstrap, self.topic, self.prefix, *map(str, (folder, self.hold, self.pause))]
        if checkpoint is not None:
            (restored,) = folder.glob(f"*/chk-{checkpoint}")
            arguments.append(str(restored))
        process.start("lab.FlinkJob", *arguments, jvm=(*_QUIET, *_OPENED))
        return process


def completed_checkpoints(process: JavaProcess) -> list[int]:
    """The checkpoints that a job completed since it was started, by its log."""
    return [int(number) for number in re.findall(r"Completed checkpoint (\d+) ", process.log.read_text("utf-8"))]


def wait_until(what: str, condition: Callable[[], bool], seconds: float = _WAIT_SECONDS) -> None:
    """Wait until something holds.

    Raises:
        LabError: it does not hold in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"It did not happen within {seconds:.0f} s that {what}.")
        time.sleep(0.2)


def _compiled(name: str, jars: Path) -> Path:
    classes = CLASSES / f"{name}-{jars.name}"
    compile_java(jars, classes, [_SOURCES / f"{name}.java"])
    return classes


def _connect_jars() -> Path:
    coordinates = (f"org.apache.kafka:connect-{part}:{CLIENT_VERSION}" for part in ("runtime", "file"))
    return fetch(f"connect-{CLIENT_VERSION}", [Artifact(each) for each in coordinates])


def mirror_jars() -> Path:
    """The jars of MirrorMaker 2, of the newest release that is published."""
    coordinates = (f"org.apache.kafka:connect-{part}:{CLIENT_VERSION}" for part in ("mirror", "runtime"))
    return fetch(f"mirror-{CLIENT_VERSION}", [Artifact(each) for each in coordinates])


def _streams_jars(version: str) -> Path:
    return fetch(f"streams-{version}", [Artifact(f"org.apache.kafka:kafka-streams:{version}")])


def _flink_jars() -> Path:
    connector = f"org.apache.flink:flink-connector-kafka:{_FLINK_CONNECTOR}"
    parts = [f"org.apache.flink:flink-{part}:{_FLINK}" for part in _FLINK_PARTS]
    return fetch(f"flink-{_FLINK_CONNECTOR}", [Artifact(each) for each in (connector, *parts)])
