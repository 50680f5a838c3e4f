"""``python -m lab.described_groups``: what brokers say of the groups of samples whose truth does not say it.

The brokers of a sample are started once more on a copy, and asked at once, before the sessions of members end. Samples
with ZooKeeper are left out: it is not in them.
"""

import json
import shutil
import time
from pathlib import Path
from typing import Any

from lab.broker import Cluster, Node, kraft_config, running
from lab.driver import Driver, driving
from lab.errors import DriverError, LabError
from lab.forecast.random_copies import PINNED
from lab.places import ROOT, SAMPLES
from lab.progress import say
from lab.scenario import workspace, write_json

DATA = ROOT / "tests" / "data" / "described-groups.json"
# Members stay until the broker has answered.
_SETTINGS = {"group.consumer.max.session.timeout.ms": "600000", "group.consumer.session.timeout.ms": "600000"}
_TRIES, _PAUSE_SECONDS = 20, 0.5


def main() -> None:
    """Start the brokers one after the other, and write what they say."""
    described = {}
    for sample in samples():
        pedigree = json.loads((sample / "pedigree.json").read_bytes())
        say(f"{sample.name}, Kafka {pedigree['kafka']}")
        described[sample.name] = _described(sample, pedigree["kafka"])
    write_json(DATA, described)


def samples() -> list[Path]:
    """The samples without ZooKeeper that have groups, but no description of them."""
    found = []
    for path in sorted(SAMPLES.glob("*/truth.json")):
        truth = json.loads(path.read_bytes())
        has_quorum = any(path.parent.glob("broker-*/__cluster_metadata-0"))
        if truth.get("groups") and "described" not in truth and has_quorum:
            found.append(path.parent)
    return found


def _described(sample: Path, kafka: str) -> dict[str, Any]:
    folder = workspace(f"described-{sample.name}")
    nodes = []
    for broker in sorted(sample.glob("broker-*")):
        shutil.rmtree(folder / broker.name, ignore_errors=True)
        shutil.copytree(broker, folder / broker.name)
        nodes.append(Node(int(broker.name.rpartition("-")[2]), kafka, folder, {}))
    for node in nodes:
        node.config = kraft_config(node, nodes) | PINNED | _SETTINGS
    cluster = Cluster(nodes)
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        return _groups(driver)


def _groups(driver: Driver) -> dict[str, Any]:
    """Every group, once its coordinator has loaded it."""
    for _ in range(_TRIES):
        try:
            groups: dict[str, str] = driver.ask("list_groups")
            if groups:
                return {name: driver.ask("describe_group", group=name) for name in sorted(groups)}
        except DriverError as error:
            say(str(error))
        time.sleep(_PAUSE_SECONDS)
    raise LabError("The broker did not list its groups in time.")


if __name__ == "__main__":
    main()
