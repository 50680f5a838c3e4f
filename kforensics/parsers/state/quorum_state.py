"""``quorum-state``: whom a KRaft node voted for and whom it follows.

Rule: ``org.apache.kafka.raft.FileQuorumStateStore`` and the schema ``QuorumStateData``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import TextLine, shrunk, small_file, text_lines
from kforensics.parsers.format.json_text import parse_object
from kforensics.parsers.format.rows import Damage

__all__ = ["QuorumState", "read_quorum_state"]

HIGHEST_VERSION = 1
NUMBERS = ("leaderId", "leaderEpoch", "votedId")
MANDATORY = {0: ("clusterId", *NUMBERS, "appliedOffset", "currentVoters"), 1: (*NUMBERS, "votedDirectoryId")}


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The line as it stands, and its meaning.

    Attributes:
        position: 0.
        size: bytes of the line.
        data_version: 0 with a static quorum, 1 with a dynamic one.
        leader_id: -1 if none is known.
        leader_epoch: epoch of the leader, or of the vote.
        voted_id: -1 if no vote was cast.
        voted_directory_id: text of a uuid, from version 1 on.
        fields: every name and value, the value as JSON.
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
    """Yield the state, or why there is none; of several lines Kafka reads the first."""
    data = small_file(source)
    if isinstance(data, Damage):
        yield data
        return
    line = next(text_lines(data), None)
    if line is not None:
        row = _read(line)
        yield row
        if line.end < len(data):
            yield Damage(line.end, len(data), "trailing", f"{len(data) - line.end} bytes behind the first line")
    yield from shrunk(source, data)


def _read(line: TextLine) -> QuorumState | Damage:
    if line.text is None:
        return line.damage("malformed", "the line is not UTF-8")
    values = parse_object(line.text)
    if isinstance(values, str):
        return line.damage("malformed", values)
    fault = _fault(values)
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


def _fault(values: dict[str, Any]) -> tuple[str, str] | None:
    version = values.get("data_version")
    if version is None:
        shown = json.dumps(values, separators=(",", ":"))
        return "malformed", f"Deserialized node {shown} does not have data_version field"
    if type(version) is not int or not 0 <= version <= HIGHEST_VERSION:
        shown = json.dumps(version)
        return "version", f"data_version ({shown}) is not within the min (0) and max (1) supported version"
    for name in MANDATORY[version]:
        if values.get(name) is None:
            message = f"QuorumStateData: unable to locate field '{name}', which is mandatory in version {version}"
            return "malformed", message
    for name in NUMBERS:
        if type(values[name]) is not int:
            return "malformed", f"{name} is not an integer"
    return None
