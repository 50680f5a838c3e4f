"""What the formatters of ``kafka-console-consumer`` print for the records of coordinators and of MirrorMaker 2.

One JVM per release and formatter (``FormatterServer.java``) gets the records of every log of these topics. The texts go
to ``sample_logs/golden/formatters/<release>.json.xz``; of MirrorMaker to ``tests/data/mirror/formatters.json.xz``.
"""

from __future__ import annotations

import json
import lzma
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import kforensics
from lab.errors import LabError
from lab.golden.tools import OPENED
from lab.jars import Artifact, fetch, tool
from lab.places import CLASSES, ROOT, SAMPLES

GOLDEN = SAMPLES / "golden" / "formatters"
MIRRORS = ROOT / "tests" / "data" / "mirror"
MIRROR_GOLDEN = MIRRORS / "formatters.json.xz"
TOPICS = ("__transaction_state", "__consumer_offsets")
_SERVER = Path(__file__).with_name("FormatterServer.java")
_NULL, _LENGTH = -1, struct.Struct(">i")
_NEW = "org.apache.kafka.tools.consumer"


@dataclass(frozen=True, slots=True)
class FormatterTool:
    """The formatters of one release.

    Attributes:
        version: the release.
        artifacts: what to fetch.
        classes: the formatters by the names of ``--formatter``.
        jvm_options: what this release needs on Java 17.
        name: the name of the folders with the jars and classes.
    """

    version: str
    artifacts: tuple[str, ...]
    classes: dict[str, str] = field(
        default_factory=lambda: {
            "transaction-log": f"{_NEW}.TransactionLogMessageFormatter",
            "offsets": f"{_NEW}.OffsetsMessageFormatter",
            "group-metadata": f"{_NEW}.GroupMetadataMessageFormatter",
        }
    )
    jvm_options: tuple[str, ...] = ()
    name: str = "formatters"

    def jars(self) -> Path:
        """The folder with the jars."""
        artifacts = [Artifact(f"org.apache.kafka:{name}:{self.version}", exclusions=()) for name in self.artifacts]
        return fetch(f"{self.name}-{self.version}", artifacts)


TOOLS = (
    FormatterTool("4.3.1", ("kafka-tools",)),
    FormatterTool("3.9.1", ("kafka-tools", "kafka_2.13")),
    FormatterTool(
        "2.8.2",
        ("kafka_2.13",),
        {
            "transaction-log": "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter",
            "offsets": "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
            "group-metadata": "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter",
        },
        OPENED,
    ),
)


_MIRROR = "org.apache.kafka.connect.mirror.formatters"
MIRROR_TOOL = FormatterTool(
    "4.3.1",
    ("connect-mirror", "kafka-clients"),
    {
        "checkpoint": f"{_MIRROR}.CheckpointFormatter",
        "heartbeat": f"{_MIRROR}.HeartbeatFormatter",
        "offset-sync": f"{_MIRROR}.OffsetSyncFormatter",
    },
    name="mirror-formatters",
)


def mirror_logs() -> list[str]:
    """The logs of the topics of MirrorMaker that are not Connect's, relative to the samples of a mirror."""
    names = ("*.checkpoints.internal-*", "*heartbeats-*", "mm2-offset-syncs.*")
    found = (path for name in names for path in MIRRORS.rglob(f"{name}/*.log"))
    return sorted(str(path.relative_to(MIRRORS)) for path in found if path.stat().st_size)


def logs() -> list[str]:
    """The logs of the coordinators' topics, relative to the samples."""
    found = (path for topic in TOPICS for path in SAMPLES.rglob(f"{topic}-*/*.log"))
    return sorted(str(path.relative_to(SAMPLES)) for path in found if path.stat().st_size)


def records(log: str, folder: Path = SAMPLES) -> Iterator[dict[str, Any]]:
    """The data records of a log in a folder."""
    for row in kforensics.dump(folder / log).records.to_pylist():
        if row["control_type"] is None:
            yield row


def make_formatter_golden() -> dict[str, int]:
    """Write the golden files; return how many texts of records each release has.

    Raises:
        LabError: a program is missing or fails.
    """
    rows, counts = {log: list(records(log)) for log in logs()}, dict[str, int]()
    for each in TOOLS:
        document = {name: _outputs(each, kind, rows) for name, kind in each.classes.items()}
        GOLDEN.mkdir(parents=True, exist_ok=True)
        _write(GOLDEN / f"{each.version}.json.xz", document)
        counts[each.version] = sum(len(texts) for of_kind in document.values() for texts in of_kind.values())
    return counts


def mirror_records() -> dict[str, list[dict[str, Any]]]:
    """The records of MirrorMaker by log, and the first of each log with every part of its key or value cut off."""
    rows = {log: list(records(log, MIRRORS)) for log in mirror_logs()}
    return {
        **rows,
        "cut/cut-0/0.log": [
            {**cut, "offset": at} for at, cut in enumerate(_cut(of_log[0] for of_log in rows.values()))
        ],
    }


def _cut(whole: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in whole:
        for part in ("key", "value"):
            yield {**row, part: None}
            yield from ({**row, part: row[part][:length]} for length in range(len(row[part])))


def make_mirror_golden() -> int:
    """Write the golden file of MirrorMaker's formatters; return how many texts it has.

    Each formatter also gets the records of the others, at which it throws exceptions.

    Raises:
        LabError: a program is missing or fails.
    """
    rows = mirror_records()
    document = {name: _outputs(MIRROR_TOOL, kind, rows) for name, kind in MIRROR_TOOL.classes.items()}
    _write(MIRROR_GOLDEN, document)
    return sum(len(texts) for of_kind in document.values() for texts in of_kind.values())


def _write(path: Path, document: object) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=0, separators=(",", ":"))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24}]
    path.write_bytes(lzma.compress(text.encode(), format=lzma.FORMAT_XZ, filters=filters))


def _outputs(each: FormatterTool, kind: str, rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[list[Any]]]:
    """For each log the offset of each record, what the formatter wrote, and what it threw."""
    server = subprocess.Popen([*_command(each), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if server.stdin is None or server.stdout is None:
        raise LabError(f"{kind} cannot be started")
    outputs: dict[str, list[list[Any]]] = {}
    with server, server.stdin as requests:
        for log, of_log in rows.items():
            topic, _, partition = Path(log).parent.name.rpartition("-")
            outputs[log] = []
            for row in of_log:
                head = struct.pack(">iq", int(partition), row["offset"])
                requests.write(b"".join((_text(topic.encode()), head, _text(row["key"]), _text(row["value"]))))
                requests.flush()
                outputs[log].append([row["offset"], _read(server.stdout), _read(server.stdout)])
    return outputs


def _text(data: bytes | None) -> bytes:
    return _LENGTH.pack(_NULL) if data is None else _LENGTH.pack(len(data)) + data


def _read(answers: IO[bytes]) -> str:
    (length,) = _LENGTH.unpack(answers.read(_LENGTH.size))
    return answers.read(length).decode("utf-8", "surrogateescape")


def _command(each: FormatterTool) -> list[str]:
    jars, folder = f"{each.jars()}/*", CLASSES / f"{each.name}-server-{each.version}"
    made = folder / "FormatterServer.class"
    if not made.exists() or made.stat().st_mtime < _SERVER.stat().st_mtime:
        command = [tool("javac"), "-nowarn", "-cp", jars, "-d", str(folder), str(_SERVER)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            raise LabError(f"The formatter server does not compile against {each.version}:\n{outcome.stderr}")
    options = ("-Xmx256m", "-XX:-OmitStackTraceInFastThrow", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return [
        tool("java"),
        *options,
        quiet,
        "-Dfile.encoding=UTF-8",
        *each.jvm_options,
        "-cp",
        f"{folder}:{jars}",
        "FormatterServer",
    ]
