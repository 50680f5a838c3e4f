"""What ``kafka-transactions.sh find-hanging`` reports: Kafka's tool for transactions that will never end."""

import subprocess
from pathlib import Path

from lab.broker import Cluster
from lab.driver import CLIENT_VERSION
from lab.errors import LabError
from lab.jars import Artifact, fetch, tool

_MAIN = "org.apache.kafka.tools.TransactionsCommand"


def find_hanging(cluster: Cluster) -> list[dict[str, str | int]]:
    """The transactions that the tool lists, however young, each once although every broker is asked.

    Raises:
        LabError: the tool failed.
    """
    hanging = {tuple(row) for node in cluster.nodes for row in _rows(cluster.bootstrap, node.node_id)}
    return [
        {
            "topic": topic,
            "partition": int(partition),
            "producer_id": int(producer_id),
            "producer_epoch": int(epoch),
            "start_offset": int(start),
        }
        for topic, partition, producer_id, epoch, _coordinator_epoch, start, *_times in sorted(hanging)
    ]


def _rows(bootstrap: str, broker_id: int) -> list[list[str]]:
    """The table that the tool prints, without its head."""
    outcome = _run(bootstrap, "find-hanging", "--broker-id", str(broker_id), "--max-transaction-timeout", "0")
    head, *rows = [line.split() for line in outcome.stdout.splitlines() if line.strip()] or [[]]
    if outcome.returncode != 0 or head[:1] != ["Topic"]:
        raise LabError(f"find-hanging failed:\n{outcome.stdout[-1500:]}{outcome.stderr[-1500:]}")
    # The time since the last write differs from broker to broker.
    return [row[:6] for row in rows]


def abort_hanging(cluster: Cluster, topic: str, partition: int, start_offset: int) -> None:
    """End a transaction in one partition, as an operator does.

    Raises:
        LabError: the tool failed.
    """
    place = ["--topic", topic, "--partition", str(partition), "--start-offset", str(start_offset)]
    outcome = _run(cluster.bootstrap, "abort", *place)
    if outcome.returncode != 0:
        raise LabError(f"abort failed:\n{outcome.stdout[-1500:]}{outcome.stderr[-1500:]}")


def _run(bootstrap: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [tool("java"), "-cp", f"{_jars()}/*", _MAIN, "--bootstrap-server", bootstrap, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _jars() -> Path:
    return fetch(f"tools-{CLIENT_VERSION}", [Artifact(f"org.apache.kafka:kafka-tools:{CLIENT_VERSION}")])
