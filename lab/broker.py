"""Real brokers on loopback: format, start, stop, kill. Ends only processes that it started itself."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lab.errors import LabError
from lab.jars import broker_jars, tool
from lab.progress import say

CLUSTER_ID = "a2ZvcmVuc2ljcy1sYWItMQ"
_FIRST_PORT = 29092
_PORTS_OF_A_LAB = 200
_LABS = 20
_FIRST_CONTROLLER = 101
_START_SECONDS = 120
_STOP_SECONDS = 60
_JVM = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
_handed_out: set[int] = set()

# Small internal topics, no waiting, and nothing that deletes evidence unless a scenario asks for it.
QUIET_CONFIG: dict[str, str] = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.retention.ms": "-1",
    "log.index.size.max.bytes": "4096",
    "log.initial.task.delay.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "metadata.max.idle.interval.ms": "5000",
    "auto.create.topics.enable": "false",
}
KAFKA_4_CONFIG: dict[str, str] = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def free_port() -> int:
    """A loopback port that is not in use, the lowest first so that runs look alike."""
    first = _FIRST_PORT + _PORTS_OF_A_LAB * _lab_number()
    for port in range(first, first + _PORTS_OF_A_LAB):
        if port not in _handed_out and _is_free(port):
            _handed_out.add(port)
            return port
    raise LabError("No free port was found on the loopback interface.")


def give_back(*ports: int) -> None:
    """Let ports be handed out again."""
    _handed_out.difference_update(ports)


@cache
def _lab_number() -> int:
    """The first number no other lab on this machine holds: a stopped broker wants its port again.

    The locks are the machine's, not the checkout's: a coordinator that looks for a stopped broker of its own cluster
    would otherwise find one of another lab at the same port, and write its markers there.
    """
    for number in range(_LABS):
        if _is_claimed(number):
            return number
    raise LabError(f"There are {_LABS} labs at work already.")


def _is_claimed(number: int) -> bool:
    """Take the lock of a number, which the end of this process gives back; false if another lab or user has it."""
    try:
        claim = os.open(Path(tempfile.gettempdir(), f"kforensics-lab-{number}.lock"), os.O_CREAT | os.O_RDONLY, 0o644)
    except PermissionError:
        return False
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@dataclass(slots=True)
class JavaProcess:
    """A Java program with its output in a file; classes of the lab's own, if any, come before the jars.

    ``environment`` has variables that it gets beyond those of the lab.
    """

    jars: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    classes: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> None:
        """Start the program; a second call restarts it and appends to its log."""
        path = f"{self.jars}/*" if self.classes is None else f"{self.classes}:{self.jars}/*"
        command = [tool("java"), *_JVM, *jvm, "-cp", path, main, *arguments]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.log.parent,
                env={**os.environ, **self.environment},
            )

    def wait_for(self, line: str, times: int = 1, seconds: float = _START_SECONDS) -> None:
        """Wait until a line has been logged so many times.

        Raises:
            LabError: the process ended or the time ran out.
        """
        deadline = time.monotonic() + seconds
        while self.log.read_text(errors="replace").count(line) < times:
            if not self.running:
                raise LabError(f"A Java process ended before it was ready; see {self.log}.")
            if time.monotonic() > deadline:
                raise LabError(f"A Java process did not log {line!r} in {seconds:.0f} s; see {self.log}.")
            time.sleep(0.1)

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def send(self, which: signal.Signals) -> None:
        """Send a signal to this process if it is running."""
        if self.process is not None and self.running:
            self.process.send_signal(which)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal to this process and wait; SIGKILL follows when it does not listen."""
        if self.process is None or not self.running:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise LabError(f"A Java process had to be killed; see {self.log}.") from None


@dataclass(slots=True)
class Node:
    """One Kafka process in KRaft mode.

    Attributes:
        node_id: broker id or controller id, or both.
        version: Kafka version.
        folder: everything of this node: configuration, output, and the log dirs.
        config: broker settings beyond the lab's own.
        log_dirs: names of the log dirs; the empty name is the ``broker-<id>`` folder itself.
        roles: ``process.roles``.
        environment: variables beyond those of the lab.
    """

    node_id: int
    version: str
    folder: Path
    config: dict[str, str]
    log_dirs: Sequence[str] = ("",)
    roles: str = "broker,controller"
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    environment: dict[str, str] = field(default_factory=dict)
    _java: JavaProcess | None = None
    _starts: int = 0

    @property
    def data(self) -> Path:
        """The folder that becomes ``broker-<id>`` in the samples."""
        return self.folder / f"{self._kind}-{self.node_id}"

    @property
    def _kind(self) -> str:
        return "broker" if "broker" in self.roles else "controller"

    @property
    def listener(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def voter(self) -> str:
        """This node as an entry of ``controller.quorum.voters``."""
        return f"{self.node_id}@127.0.0.1:{self.controller_port}"

    @property
    def log(self) -> Path:
        """What the broker logged."""
        return self.folder / f"{self._kind}-{self.node_id}.out"

    @property
    def java(self) -> JavaProcess:
        """The process, made at first use."""
        if self._java is None:
            self._java = JavaProcess(broker_jars(self.version), self.log, environment=self.environment)
        return self._java

    def use(self, version: str) -> None:
        """Start with another release from the next start on, which must be of a node that does not run."""
        self.version = version
        self.java.jars = broker_jars(version)

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        """Write a fresh configuration and format the log dirs with the release's own tool."""
        self.write_config()
        command = [tool("java"), *_JVM, "-cp", f"{self.java.jars}/*", "kafka.tools.StorageTool", "format"]
        command += ["-t", cluster_id, "-c", str(self.config_file), *options]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if outcome.returncode != 0:
            raise LabError(f"kafka-storage format failed:\n{outcome.stdout[-1500:]}{outcome.stderr[-1500:]}")

    @property
    def config_file(self) -> Path:
        """The server.properties of this node."""
        return self.folder / f"{self._kind}-{self.node_id}.properties"

    def write_config(self) -> None:
        """Write ``server.properties``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_properties(self.config_file, self.config)

    def start(self, *, wait: bool = True) -> None:
        """Start the broker with the configuration as it is now."""
        self.write_config()
        self._starts += 1
        self.log.touch()
        self.java.start("kafka.Kafka", str(self.config_file), jvm=self.logging())
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until the broker serves requests."""
        self.java.wait_for("Kafka Server started", times=self._starts)

    def stop(self) -> None:
        """Stop in order (SIGTERM)."""
        self.java.end()

    def kill(self) -> None:
        """Stop without any chance to tidy up (SIGKILL)."""
        self.java.end(signal.SIGKILL)

    @staticmethod
    def logging() -> list[str]:
        """JVM options for the quiet logging back-end."""
        return ["-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showDateTime=true"]


@dataclass(slots=True)
class Cluster:
    """Nodes that belong together.

    Attributes:
        nodes: the brokers.
        controllers: the controllers, if they are processes of their own.
    """

    nodes: list[Node]
    controllers: list[Node] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` of this cluster."""
        return ",".join(node.listener for node in self.nodes)

    def node(self, node_id: int) -> Node:
        """The node with this id."""
        return next(node for node in self.nodes if node.node_id == node_id)

    def format(self, *options: str) -> None:
        """Format every node with the same options."""
        for node in (*self.controllers, *self.nodes):
            node.format(*options)

    def start(self) -> None:
        """Start all nodes that do not run, and wait for all."""
        asleep = [node for node in (*self.controllers, *self.nodes) if not node.java.running]
        say(f"starting {len(asleep)} node(s) of Kafka {asleep[0].version}")
        for node in asleep:
            node.start(wait=False)
        for node in asleep:
            node.wait()

    def stop(self) -> None:
        """Stop all nodes in order: brokers together, because a lone survivor of a quorum could not stop cleanly."""
        for nodes in (self.nodes, self.controllers):
            running = [node.java for node in nodes if node.java.running]
            for java in running:
                java.send(signal.SIGTERM)
            for java in running:
                java.end()

    def kill(self) -> None:
        """Kill every node that still runs."""
        for node in (*self.nodes, *self.controllers):
            node.kill()


def make_cluster(
    folder: Path,
    version: str,
    node_count: int = 1,
    config: Mapping[str, str] | None = None,
    log_dirs: Sequence[str] = ("",),
    *,
    controllers: int = 0,
) -> Cluster:
    """Lay out a KRaft cluster in a fresh folder; nothing is started yet.

    Args:
        folder: the folder.
        version: release.
        node_count: number of brokers.
        config: settings of all nodes beyond the lab's own.
        log_dirs: names of the log directories of each broker.
        controllers: number of controllers that are processes of their own; without any, the brokers are controllers.
    """
    shutil.rmtree(folder, ignore_errors=True)
    # The brokers of the scenario before are gone, so their ports are free again.
    _handed_out.clear()
    roles = "broker" if controllers else "broker,controller"
    nodes = [Node(number, version, folder, {}, log_dirs, roles) for number in range(1, node_count + 1)]
    separate = make_controllers(folder, version, controllers, config)
    for node in nodes:
        node.config.update(kraft_config(node, separate or nodes))
        node.config.update(config or {})
    return Cluster(nodes, separate)


def make_controllers(folder: Path, version: str, count: int, config: Mapping[str, str] | None = None) -> list[Node]:
    """Controllers that are processes of their own, neither formatted nor started yet."""
    numbers = range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + count)
    controllers = [Node(number, version, folder, {}, roles="controller") for number in numbers]
    for node in controllers:
        node.config.update({**kraft_config(node, controllers), **(config or {})})
    return controllers


def kraft_config(node: Node, voters: Sequence[Node]) -> dict[str, str]:
    """The settings of a node of a KRaft cluster, without those of a scenario."""
    listeners = {
        "broker": f"PLAINTEXT://{node.listener}",
        "controller": f"CONTROLLER://127.0.0.1:{node.controller_port}",
    }
    roles = node.roles.split(",")
    return {
        "process.roles": node.roles,
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(each.voter for each in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners[role] for role in roles),
        **({"advertised.listeners": f"PLAINTEXT://{node.listener}"} if "broker" in roles else {}),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # Relative to the folder the broker runs in: a setting that names a log dir ends up in the metadata log.
        "log.dirs": ",".join(str(Path(node.data.name) / name) for name in node.log_dirs),
        **QUIET_CONFIG,
        **(KAFKA_4_CONFIG if re.match(r"[4-9]\.", node.version) else {}),
    }


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Start a formatted cluster; whatever happens, nothing of it is left running."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def write_properties(path: Path, settings: Mapping[str, object]) -> Path:
    """Write settings as a properties file."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    return path
