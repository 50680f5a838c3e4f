"""Starts a broker on a doctored copy, within limits, and records what it did."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.broker import Node, give_back, kraft_config
from lab.forecast.bases import CONFIG, RETENTION, Base, make_dynamic, unpack
from lab.forecast.cases import Case
from lab.forecast.offsets import EARLIEST, LATEST, list_offsets
from lab.forecast.with_zookeeper import restored
from lab.jars import broker_jars, tool

_START_SECONDS, _SETTLE_SECONDS, _STOP_SECONDS = 75, 8, 25
_JVM = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
_STARTED = re.compile(r"Kafka ?Server (?:id=\d+\] )?started")
_LINE = re.compile(r"^(?:\d{4}-\d\d-\d\d \S+ |\d+ )?\[([^\]]*)\] (WARN|ERROR) (.*)")
# Folder, log start and log end; the message ends differently before 3.7.
LOADED = re.compile(
    r"Completed load of \w*Log\(dir=(?:\S*/)?([^/,]+),.*? logStartOffset=(-?\d+), logEndOffset=(-?\d+)\)"
)
_EXCEPTION = re.compile(r"^(?:Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b)(?::\s*(.*))?")
_FATAL = re.compile(r"Encountered fatal fault|Exiting Kafka|[Ff]atal error during|Shutdown broker because|Halting")
_CHANGING = re.compile(r"[0-9a-f]{32}|\d{10,}|:\d{4,5}\b|0x[0-9a-f]+|\d+ ?ms\b|[0-9A-Za-z_-]{22}(?![\w-])")
_LONGEST = 300


@dataclass(slots=True)
class Slot:
    """A place in which one broker after the other is started, always on the same ports."""

    folder: Path
    _node: Node | None = None

    def unpack(self, base: Base) -> Path:
        """Replace what the slot has by log directories; returns the folder that has them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        unpack(base, self.folder)
        return (self.folder / "data").rename(self.folder / "broker-1")

    def node(self, base: Base, node_id: int = 1, config: Mapping[str, str] | None = None) -> Node:
        """The broker of the next start, the only one of its cluster.

        Args:
            base: release and log directories.
            node_id: its id.
            config: settings beyond the lab's own; by default those of the bases.
        """
        made = Node(node_id, base.release, self.folder, {}, base.log_dirs)
        if self._node is not None:
            give_back(made.port, made.controller_port)
            made.port, made.controller_port = self._node.port, self._node.controller_port
        settings = CONFIG | RETENTION[base.release[0]] if config is None else dict(config)
        made.config = kraft_config(made, [made]) | settings | base.settings(made)
        if base.state == "dynamic":
            make_dynamic(made)
        self._node = made
        return made


def record(base: Base, case: Case, slot: Slot) -> dict[str, Any]:
    """Doctor a copy, start a broker on it, stop it, and return what came of it."""
    data = slot.unpack(base)
    undoctored = _listing(data)
    case.doctor(data)
    if not base.has_zookeeper:
        return run(slot.node(base), base, data, undoctored)
    with restored(base, slot.folder) as node:
        return run(node, base, data, undoctored)


def run(
    node: Node, base: Base, data: Path, undoctored: dict[str, str], settle_seconds: float = _SETTLE_SECONDS
) -> dict[str, Any]:
    """Start a broker on a log directory, stop it, and return what came of it.

    Args:
        node: the broker.
        base: release and log directories.
        data: the folder of its log directories.
        undoctored: the files that were there before the change, whose partitions are asked for, too.
        settle_seconds: how long to wait for partitions that are not served.
    """
    before = _listing(data)
    places = _partitions({**undoctored, **before})
    node.write_config()
    command = ["nice", "-n", "10", tool("java"), *_JVM, *node.logging(), "-cp", f"{broker_jars(base.release)}/*"]
    with node.log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "kafka.Kafka", str(node.config_file)],
            stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=node.folder,
        )  # fmt: skip
    try:
        outcome = _wait(process, node.log)
        answer = _settled(node, places, settle_seconds) if outcome == "started" else {}
        during = _listing(data)
        if outcome == "started" and process.poll() is not None:
            outcome = "ended"
    finally:
        stopped = _stop(process)
    # The paths of the machine that recorded it are of no interest to others.
    log = node.log.read_text(errors="replace").replace(f"{node.folder}/", "")
    return {
        "outcome": outcome,
        **({"fatal": _fatal(log), "exceptions": _exceptions(log)} if outcome in ("refused", "ended") else {}),
        **({} if stopped else {"stop": "had to be killed"}),
        "partitions": answer,
        "files": _changes(before, during),
        "log": _warnings(log),
    }


def _wait(process: subprocess.Popen[bytes], log: Path) -> str:
    # Beside other work a start takes longer, and is no hang.
    share = os.getloadavg()[0] / (os.cpu_count() or 1)
    deadline = time.monotonic() + _START_SECONDS * max(1, share)
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return "refused"
        if _STARTED.search(log.read_text(errors="replace")):
            return "started"
        time.sleep(0.2)
    return "hung"


def _settled(node: Node, partitions: list[tuple[str, int]], seconds: float) -> dict[str, Any]:
    """The offsets of the partitions, once all are served or enough time has passed."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            ends = list_offsets(node.port, partitions, LATEST, committed=False)
        except OSError:
            ends = {}
        served = ends and not any(error for error, _ in ends.values())
        if served or time.monotonic() > deadline:
            break
        time.sleep(0.3)
    time.sleep(0.5)
    try:
        ends = list_offsets(node.port, partitions, LATEST, committed=False)
        starts = list_offsets(node.port, partitions, EARLIEST, committed=False)
        stable = list_offsets(node.port, partitions, LATEST, committed=True)
    except OSError:
        return {}
    return {f"{topic}-{number}": _offsets(starts, ends, stable, (topic, number)) for topic, number in partitions}


_Offsets = dict[tuple[str, int], tuple[int, int]]


def _offsets(starts: _Offsets, ends: _Offsets, stable: _Offsets, place: tuple[str, int]) -> list[int] | str:
    error = ends[place][0]
    return f"error {error}" if error else [starts[place][1], ends[place][1], stable[place][1]]


def _partitions(before: dict[str, str]) -> list[tuple[str, int]]:
    folders = {Path(name).parent.name for name in before if "/" in name}
    matches = [re.fullmatch(r"(.+)-(\d+)", folder) for folder in sorted(folders)]
    found = {(match[1], int(match[2])) for match in matches if match and match[1] != "__cluster_metadata"}
    return sorted(place for place in found if not place[0].startswith(("plain.", "single.")))


def _stop(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
    return True


def _listing(data: Path) -> dict[str, str]:
    """Size and hash of each file, and an entry for each folder."""
    found: dict[str, str] = {}
    for path in sorted(data.rglob("*")):
        name = path.relative_to(data).as_posix()
        with suppress(OSError):  # Kafka has just removed or renamed it
            found[name + "/" * path.is_dir()] = "" if path.is_dir() else _digest(path)
    return found


def _digest(path: Path) -> str:
    return f"{path.stat().st_size} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def _changes(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    moved = {name for name in before.keys() ^ after.keys() if name.endswith("/")}
    for name in sorted(before.keys() | after.keys()):
        if any(name != folder and name.startswith(folder) for folder in moved):
            continue  # it came or went with its folder
        if name.startswith("__cluster_metadata-0/") and "deleted" not in name and name in after:
            continue  # its log grows with each start
        if before.get(name) != after.get(name):
            kinds[_constant(name)] = _kind(before.get(name), after.get(name))
    return kinds


def _kind(before: str | None, after: str | None) -> str:
    if before is None:
        return "created"
    if after is None:
        return "removed"
    old, new = before.split()[0], after.split()[0]
    return "changed" if old == new else f"{old} -> {new} bytes"


def without_usual(result: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what a start of the undoctored copy did and logged too."""
    files, lines = result["files"], set(usual["log"])
    if result["outcome"] == "started":
        shown = {name: kind for name, kind in files.items() if usual["files"].get(name) != kind}
        shown |= {name: "as before" for name in usual["files"] if name not in files}
    else:
        shown = {name: kind for name, kind in files.items() if name.endswith(("/", ".kafka_cleanshutdown"))}
    return result | {"files": shown, "log": [line for line in result["log"] if line not in lines]}


def _constant(name: str) -> str:
    return re.sub(r"[0-9a-f]{32}", "*", name)


def _fatal(log: str) -> list[str]:
    """The line with which the broker gives up, and the class and message of the exception below it, if there is one."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        if match and _FATAL.search(match[3]):
            below = _EXCEPTION.match(lines[number + 1]) if number + 1 < len(lines) else None
            return [match[3][:_LONGEST], *([below[1], (below[2] or "")[:_LONGEST]] if below else [])]
    return []


def _exceptions(log: str) -> list[list[str]]:
    """Each exception in the log, class and message, once; the first of a fatal line first."""
    found = [[match[1], (match[2] or "")[:_LONGEST]] for match in map(_EXCEPTION.match, log.splitlines()) if match]
    return [each for number, each in enumerate(found) if each not in found[:number]][:8]


def _warnings(log: str) -> list[str]:
    lines: list[str] = []
    for line in log.splitlines():
        match = _LINE.match(line)
        if match:
            text = f"{match[2]} {match[3]}"[:_LONGEST]
            lines.append(_CHANGING.sub("*", text))
    return list(dict.fromkeys(lines))[:60]
