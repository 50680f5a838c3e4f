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
    question = ["find-hanging", "--broker-id", str(broker_id), "--max-transaction-timeout", "0"]
    command = [tool("java"), "-cp", f"{_jars()}/*", _MAIN, "--bootstrap-server", bootstrap, *question]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    head, *rows = [line.split() for line in outcome.stdout.splitlines() if line.strip()] or [[]]
    if outcome.returncode != 0 or head[:1] != ["Topic"]:
        raise LabError(f"find-hanging failed:\n{outcome.stdout[-1500:]}{outcome.stderr[-1500:]}")
    # The time since the last write differs from broker to broker.
    return [row[:6] for row in rows]


def _jars() -> Path:
    return fetch(f"tools-{CLIENT_VERSION}", [Artifact(f"org.apache.kafka:kafka-tools:{CLIENT_VERSION}")])
