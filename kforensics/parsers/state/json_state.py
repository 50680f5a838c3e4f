"""State files in JSON: ``.kafka_cleanshutdown`` of a log directory and ``quorum-state`` of a KRaft node.

Rules: ``org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler`` for the former,
``org.apache.kafka.raft.FileQuorumStateStore`` and the schema ``QuorumStateData`` for the latter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import TextLine, read_small_file, shrunk_damage, text_lines
from kforensics.parsers.format.rows import Damage

__all__ = ["CleanShutdown", "QuorumState", "read_clean_shutdown", "read_quorum_state"]

MAX_DATA_VERSION = 1
INT_FIELDS = ("leaderId", "leaderEpoch", "votedId")
MANDATORY = {0: ("clusterId", *INT_FIELDS, "appliedOffset", "currentVoters"), 1: (*INT_FIELDS, "votedDirectoryId")}


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The clean shutdown marker. Its existence is what counts; since 3.7 it also contains the broker epoch.

    Attributes:
        position: 0.
        size: size of the JSON in bytes, 0 if there is none.
        version: version of the JSON, None before 3.7.
        broker_epoch: -1 if unknown, None if absent.
    """

    position: int
    size: int
    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(source: Source) -> Iterator[CleanShutdown | Damage]:
    """Yield the marker and any unreadable content, which does not make the shutdown less clean."""
    data = read_small_file(source)
    if isinstance(data, Damage):
        yield from (CleanShutdown(0, 0, None, None), data)
        return
    values = _marker_values(data)
    if isinstance(values, Damage):
        yield from (CleanShutdown(0, 0, None, None), values)
    else:
        yield CleanShutdown(0, len(data), _integer(values, "version"), _integer(values, "brokerEpoch"))
    yield from shrunk_damage(source, data)


def _marker_values(data: bytes) -> dict[str, Any] | Damage:
    if not data:
        return {}
    try:
        values = _parse_object(data.decode())
    except UnicodeDecodeError:
        values = "the text is not UTF-8"
    return Damage(0, len(data), "malformed", values) if isinstance(values, str) else values


def _integer(values: dict[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if type(value) is int else None


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The election state of a KRaft node: its vote and its leader.

    Attributes:
        position: 0.
        size: size of the line in bytes.
        data_version: 0 with a static quorum, 1 with a dynamic one.
        leader_id: -1 if unknown.
        leader_epoch: epoch of the leader or of the vote.
        voted_id: -1 if the node has not voted.
        voted_directory_id: directory id as UUID text; since version 1.
        fields: name and value of every field as stored, the value as JSON.
    """

    position: int
    size: int
    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None
    fields: tuple[tuple[str, str], ...]


def read_quorum_state(source: Source) -> Iterator[QuorumState | Damage]:
    """Yield the quorum state, or the damage that prevents reading it. Like Kafka, read only the first line."""
    data = read_small_file(source)
    if isinstance(data, Damage):
        yield data
        return
    line = next(text_lines(data), None)
    if line is not None:
        yield _quorum_state(line)
        if line.end < len(data):
            yield Damage(line.end, len(data), "trailing", f"{len(data) - line.end} bytes after the first line")
    yield from shrunk_damage(source, data)


def _quorum_state(line: TextLine) -> QuorumState | Damage:
    if line.text is None:
        return line.damage("malformed", "the line is not UTF-8")
    values = _parse_object(line.text)
    if isinstance(values, str):
        return line.damage("malformed", values)
    fault = _quorum_state_fault(values)
    if fault:
        return line.damage(*fault)
    return QuorumState(
        position=line.start,
        size=line.end - line.start,
        data_version=values["data_version"],
        leader_id=values["leaderId"],
        leader_epoch=values["leaderEpoch"],
        voted_id=values["votedId"],
        voted_directory_id=values.get("votedDirectoryId"),
        fields=tuple((name, json.dumps(value, separators=(",", ":"))) for name, value in values.items()),
    )


def _quorum_state_fault(values: dict[str, Any]) -> tuple[str, str] | None:
    """Return reason and detail of the first fault, None if the state is sound."""
    version = values.get("data_version")
    if version is None:
        shown = json.dumps(values, separators=(",", ":"))
        return "malformed", f"Deserialized node {shown} does not have data_version field"
    if type(version) is not int or not 0 <= version <= MAX_DATA_VERSION:
        shown = json.dumps(version)
        return "version", f"data_version ({shown}) is not within the min (0) and max (1) supported version"
    for name in MANDATORY[version]:
        if values.get(name) is None:
            message = f"QuorumStateData: unable to locate field '{name}', which is mandatory in version {version}"
            return "malformed", message
    for name in INT_FIELDS:
        if type(values[name]) is not int:
            return "malformed", f"{name} is not an integer"
    return None


def _parse_object(text: str) -> dict[str, Any] | str:
    """Return the JSON object at the start of a text, or an error message.

    Like Kafka, ignore whatever follows the object.
    """
    try:
        value, _ = _DECODER.raw_decode(text.lstrip())
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    return value if isinstance(value, dict) else "the JSON is not an object"


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)
