"""Kafka's classes on the command line: released jars, the programs of ``java/``, the flags of Kafka's scripts."""

import subprocess
from pathlib import Path

from lab.errors import LabError
from lab.jars import Artifact, fetch, tool
from lab.places import CLASSES
from lab.progress import say

VERSION = "4.3.1"
_SOURCES = Path(__file__).with_name("java")
# kafka-tools leaves the logging back-end to the distribution, where it is log4j.
_ARTIFACTS = (
    Artifact(f"org.apache.kafka:kafka-tools:{VERSION}", exclusions=()),
    Artifact("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4", exclusions=()),
)
# As kafka-run-class.sh gives them to a tool, but for the JMX agent, which would only make Kafka slower.
_FLAGS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# As kafka-server-start.sh gives it to a broker.
_BROKER_HEAP = ("-Xmx1G", "-Xms1G")
_LOGGING = f"-Dlog4j2.configurationFile={_SOURCES / 'log4j2.xml'}"


def recovery(folder: Path, *, counted: bool = False) -> tuple[str, ...]:
    """What a broker does to a segment after an unclean shutdown, up to but without the segment.

    Args:
        folder: where it may work, on the file system of the segment.
        counted: whether it counts the batches, too.

    Raises:
        LabError: as :func:`program` says.
    """
    return (*program("Recover", *_BROKER_HEAP), "counted" if counted else "timed", str(folder))


def dump_log() -> tuple[str, ...]:
    """Kafka's dump tool as Kafka's script starts it, up to but without its arguments.

    Raises:
        LabError: Java or Maven is missing, or Maven could not fetch the tool.
    """
    # The lab adds a back-end of its own. Two of them would be a warning, and not what Kafka ships.
    jars = _jars(without=("slf4j-simple",))
    return (tool("java"), *_FLAGS, _LOGGING, "-cp", ":".join(jars), "org.apache.kafka.tools.DumpLogSegments")


def program(main: str, *flags: str) -> tuple[str, ...]:
    """One of the programs of ``java/``, up to but without its arguments. It starts without a logging back-end.

    Args:
        main: name of the program.
        flags: for the virtual machine, beyond those of Kafka's scripts.

    Raises:
        LabError: Java, its compiler or Maven is missing, or one of them failed.
    """
    jars = _jars(without=("slf4j-simple", "log4j"))
    return (tool("java"), *_FLAGS, *flags, "-cp", ":".join([str(_compiled(jars)), *jars]), main)


def _jars(without: tuple[str, ...]) -> list[str]:
    folder = fetch(f"bench-{VERSION}", _ARTIFACTS)
    return [str(jar) for jar in sorted(folder.glob("*.jar")) if not jar.name.startswith(without)]


def _compiled(jars: list[str]) -> Path:
    folder = CLASSES / f"bench-{VERSION}"
    sources = sorted(_SOURCES.glob("*.java"))
    for source in sources:
        made = folder / f"{source.stem}.class"
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            _compile(sources, jars, folder)
            break
    return folder


def _compile(sources: list[Path], jars: list[str], folder: Path) -> None:
    say("compiling the Java programs of the benchmark")
    command = [tool("javac"), "-nowarn", "-cp", ":".join(jars), "-d", str(folder), *map(str, sources)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"The Java programs of the benchmark do not compile against {VERSION}:\n{outcome.stderr}")
