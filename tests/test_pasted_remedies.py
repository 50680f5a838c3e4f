"""Every command in the remedies of the samples, pasted into bash: Kafka's own tool and this one accept all of them."""

from __future__ import annotations

import fcntl
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kforensics
from lab.broker import Cluster, make_cluster, running
from lab.driver import CLIENT_VERSION
from lab.jars import Artifact, broker_jars, fetch, tool
from lab.places import CACHE
from tests.command import SAMPLES, run

pytestmark = [pytest.mark.slow, pytest.mark.repository]

HOUR = 3_600_000
DAY = 24 * HOUR
# When the samples were written: 2026-11-21.
WRITTEN = 1_795_219_200_000
TIMES = (WRITTEN + DAY, WRITTEN + 60 * DAY)
NAMES = sorted(folder.name for folder in SAMPLES.iterdir() if folder.is_dir() and folder.name != "golden")
LIVE = "transactions-v2"
MAINS = {
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}


@cache
def remedies(name: str, as_of_ms: int) -> list[str]:
    """Return the remedies for the findings in a sample."""
    audit: Any = kforensics.audit(SAMPLES / name, as_of=as_of_ms, processes=1)
    return [text for text in audit.findings["remedy"].to_pylist() if text]


def all_remedies(name: str) -> list[str]:
    """Return the remedies as of all times; of the largest sample, as of one of them."""
    return [text for as_of_ms in TIMES[name == "damaged" :] for text in remedies(name, as_of_ms)]


def commands_of(name: str) -> list[str]:
    """Return the commands for a sample, each once, in the order of the findings."""
    return list(dict.fromkeys(command for text in all_remedies(name) for command in text.split("`")[1::2]))


@pytest.mark.parametrize("name", NAMES)
def test_a_remedy_has_no_gap_and_no_command_outside_of_backquotes(name: str) -> None:
    for text in all_remedies(name):
        prose = "".join(text.split("`")[::2])
        assert not re.search(r"<[^>]*>|\{[a-z_]+\}", text), text
        assert not re.search(r"--[a-z]|\.sh --", prose), text
        assert text.count("`") % 2 == 0


def test_this_tool_accepts_its_own_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They save records, each into a file whose name shows which."""
    monkeypatch.chdir(tmp_path)
    found = [command for name in NAMES for command in commands_of(name) if command.startswith("kforensics ")]
    assert found
    for command in found:
        arguments = shlex.split(command)[1:]
        assert run(*arguments).code == 0
        saved = Path(arguments[arguments.index("--output") + 1])
        assert saved.read_bytes()
        saved.unlink()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a broker of Kafka 4.4 that has started on the log directory of a sample."""
    if shutil.which("mvn") is None:
        pytest.skip("mvn fetches Kafka's brokers and tools, and is not installed here")
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker_jars("4.4.0")
        tools()
    folder = tmp_path_factory.mktemp("live")
    made = make_cluster(folder / "lab", "4.4.0")
    shutil.copytree(SAMPLES / LIVE / "broker-1", made.nodes[0].data)
    with running(made):
        yield made


def tools() -> Path:
    """Return the folder with the jars of Kafka's tools."""
    return fetch(f"tools-{CLIENT_VERSION}", [Artifact(f"org.apache.kafka:kafka-tools:{CLIENT_VERSION}")])


def pasted(command: str, bootstrap: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in bash where Kafka's tools are on the path; they give up soon if there is no such thing."""
    settings = folder / "client.properties"
    settings.write_text("default.api.timeout.ms=5000\nrequest.timeout.ms=4000\n", "utf-8")
    java = f"{tool('java')} -XX:TieredStopAtLevel=1 -cp '{tools()}/*'"
    for name, main in MAINS.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {java} {main} --command-config {settings} "$@"\n', "utf-8")
        script.chmod(0o755)
    environment = {"BOOTSTRAP": bootstrap, "PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False, env=environment)


def shape(command: str) -> str:
    """Return a command without what differs from place to place."""
    return re.sub(r"(--[a-zA-Z-]+)[ =](?:'[^']*'|\$'[^']*'|\S+)", r"\1", command)


@pytest.mark.java
def test_the_remedy_ends_a_transaction_that_hangs(cluster: Cluster, tmp_path: Path) -> None:
    """The broker lists it as hanging; after the abort its consumers receive everything."""
    mine = [command for command in commands_of(LIVE) if "--topic hanging " in command]
    (find,) = (command for command in mine if " find-hanging " in command)
    (abort,) = (command for command in mine if " --start-offset " in command)
    assert re.search(
        r"^hanging\s+0\s+\d+\s+\d+\s+-?\d+\s+3\s", pasted(find, cluster.bootstrap, tmp_path).stdout, re.MULTILINE
    )
    assert pasted(abort, cluster.bootstrap, tmp_path).returncode == 0
    answer: Any = kforensics.lso(cluster.nodes[0].data / "hanging-0")
    (row,) = answer.to_pylist()
    assert (row["open_transactions"], row["last_stable_offset"]) == (0, row["log_end_offset"])


@pytest.mark.java
def test_kafkas_tool_accepts_every_command(cluster: Cluster, tmp_path: Path) -> None:
    """Elsewhere there is no such topic or id, which the tool says; it never says that a command is wrong.

    With the arguments of releases before 3.0 it asks for the leader of a topic that does not exist until it gives up.
    """
    found = [command for name in [LIVE, *NAMES] for command in commands_of(name) if command.startswith("kafka-")]
    by_shape = {shape(command): command for command in reversed(found)}
    assert len(by_shape) >= 5
    for command in by_shape.values():
        done = pasted(command, cluster.bootstrap, tmp_path)
        assert "usage:" not in done.stdout + done.stderr, command
        assert done.returncode in (0, 1), command
        assert done.returncode == 0 or re.search(
            r"not found|could not|UnknownTopic|NotFound|timeout while awaiting", done.stderr, re.IGNORECASE
        ), (
            command,
            done.stderr,
        )
