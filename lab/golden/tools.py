"""The dump tools: which releases, where their jars come from, which options each of them has."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.jars import Artifact, fetch, tool
from lab.places import CLASSES

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
_SERVER = Path(__file__).with_name("DumpServer.java")

# Nothing but the tool may write to the streams, and they are UTF-8 whatever the locale says. A method that runs often
# is compiled, and then throws null pointer exceptions without a message unless that is switched off.
_JVM = (
    "-Xmx512m",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    *(f"-D{name}.encoding=UTF-8" for name in ("file", "stdout", "stderr")),
)
# Java 17 hides what the releases before 3.0 use to unmap an index.
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "java.util", "sun.nio.ch")
)


@dataclass(frozen=True, slots=True)
class DumpTool:
    """One released dump tool.

    Attributes:
        version: release it comes from.
        artifact: what to fetch, with all it depends on.
        main: its main class.
        decoders: the options for internal topics that it has.
        class_decoders: packages that hold the decoder classes of this release.
        skips_metadata: whether it has ``--skip-record-metadata``.
        limits_bytes: whether it has ``--max-bytes`` and dumps ``.checkpoint`` files; both came with 3.3.
        jvm_options: what this release needs on Java 17.
    """

    version: str
    artifact: str = "kafka_2.13"
    main: str = "kafka.tools.DumpLogSegments"
    decoders: frozenset[str] = frozenset(DECODERS.values())
    class_decoders: tuple[str, ...] = ("org.apache.kafka.tools.api",)
    skips_metadata: bool = True
    limits_bytes: bool = True
    jvm_options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """The JVM with this tool's class path, up to but without the main class."""
        class_path = f"{self._compiled()}:{self._jars()}/*"
        return [tool("java"), *_JVM, *self.jvm_options, "-cp", class_path]

    def _jars(self) -> Path:
        # Not the folder of a broker, which leaves the decoder classes out.
        coordinates = f"org.apache.kafka:{self.artifact}:{self.version}"
        return fetch(f"dump-{self.version}", [Artifact(coordinates, exclusions=())])

    def _compiled(self) -> Path:
        """The folder with the server, compiled against this release's Exit."""
        folder = CLASSES / f"dump-server-{self.version}"
        made = folder / "DumpServer.class"
        if not made.exists() or made.stat().st_mtime < _SERVER.stat().st_mtime:
            command = [tool("javac"), "-nowarn", "-cp", f"{self._jars()}/*", "-d", str(folder), str(_SERVER)]
            outcome = subprocess.run(command, capture_output=True, text=True, check=False)
            if outcome.returncode != 0:
                raise LabError(f"The dump server does not compile against {self.version}:\n{outcome.stderr}")
        return folder


def _without(*topics: str) -> frozenset[str]:
    return frozenset(option for topic, option in DECODERS.items() if topic not in topics)


TOOLS = (
    DumpTool("4.3.1", artifact="kafka-tools", main="org.apache.kafka.tools.DumpLogSegments"),
    DumpTool("4.2.1"),
    DumpTool(
        "3.9.1",
        decoders=_without("__share_group_state"),
        class_decoders=("org.apache.kafka.tools.api", "kafka.serializer"),
    ),
    DumpTool(
        "2.8.2",
        decoders=_without("__share_group_state", "__remote_log_metadata"),
        class_decoders=("kafka.serializer",),
        limits_bytes=False,
        jvm_options=OPENED,
    ),
    DumpTool(
        "2.7.2",
        decoders=_without("__share_group_state", "__remote_log_metadata", "__cluster_metadata"),
        class_decoders=("kafka.serializer",),
        skips_metadata=False,
        limits_bytes=False,
        jvm_options=OPENED,
    ),
)
