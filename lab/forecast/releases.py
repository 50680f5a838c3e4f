"""``python -m lab.forecast.releases``: log directories of one release, each started by a broker of another one.

An upgrade or a downgrade can end with a broker that does not start: the release refuses a setting of a topic, or does
not know the metadata version, or a version of a record.
"""

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from queue import SimpleQueue
from typing import Any

from lab.broker import make_cluster, running
from lab.driver import driving, records
from lab.forecast.bases import CONFIG, DATA, RETENTION, Base, pack
from lab.forecast.start import Slot, run
from lab.progress import say
from lab.scenario import workspace, write_json
from lab.scenarios.steps import open_producer

STARTED_BY = ("3.9.1", "4.0.0", "4.1.1", "4.2.1", "4.3.1", "4.4.0")
RESULTS = DATA / "releases.json"
_BROKERS = 2
_KEPT = ("outcome", "fatal", "exceptions", "partitions")
_FILES = ("/", ".kafka_cleanshutdown")


@dataclass(frozen=True, slots=True)
class Written:
    """Log directories to start.

    Attributes:
        base: their release, with a state that names what is special.
        metadata_version: to format with; None for that of the release.
        configs: settings of a topic.
    """

    base: Base
    metadata_version: str | None = None
    configs: tuple[tuple[str, str], ...] = ()


_SMALL = (("segment.bytes", "20000"),)
WRITTEN = (
    *(Written(Base(release, "release")) for release in STARTED_BY),
    Written(Base("4.4.0", "of-3.9"), "3.9-IV0"),
    Written(Base("4.4.0", "of-4.2"), "4.2-IV1"),
    Written(Base("4.3.1", "of-4.0"), "4.0-IV3"),
    Written(Base("3.9.1", "of-3.3"), "3.3-IV0"),
    Written(Base("3.9.1", "small-segments"), configs=_SMALL),
    Written(Base("4.0.0", "small-segments"), configs=_SMALL),
    Written(Base("3.9.1", "of-3.3-small-segments"), "3.3-IV0", _SMALL),
)


def main() -> int:
    """Write the log directories, and start each with every release that has no record yet; returns the exit code."""
    for written in WRITTEN:
        if not written.base.archive.exists():
            _write(written)
    slots: SimpleQueue[Slot] = SimpleQueue()
    for number in range(_BROKERS):
        slots.put(Slot(workspace(f"forecast-release-{number}")))
    results: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    missing = [
        (each, release)
        for each, release in product(WRITTEN, STARTED_BY)
        if release not in results.get(each.base.name, {})
    ]
    with ThreadPoolExecutor(_BROKERS) as pool:
        for written, release, result in pool.map(lambda pair: _started(pair[0], pair[1], slots), missing):
            results.setdefault(written.base.name, {})[release] = result
            say(f"{written.base.name} by {release}: {result['outcome']}")
            write_json(RESULTS, results)
    return 0


def _write(written: Written) -> None:
    """Records in a topic, and a metadata log that has a snapshot."""
    release = written.base.release
    folder = workspace(f"forecast-{written.base.name}")
    cluster = make_cluster(folder, release, config=CONFIG | RETENTION[release[0]])
    cluster.format(*(("--release-version", written.metadata_version) if written.metadata_version else ()))
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        driver.call("create_topic", name="plain", partitions=2, configs=dict(written.configs))
        open_producer(driver, "p", enable_idempotence="true")
        for number in range(6):
            driver.send("p", "plain", records(f"plain {number}", 3), number % 2)
            driver.call("create_topic", name=f"more-{number}", partitions=4)
        cluster.stop()
    copied = folder / written.base.state
    shutil.copytree(cluster.nodes[0].data, copied / "data")
    pack(copied, written.base)


def _started(written: Written, release: str, slots: "SimpleQueue[Slot]") -> tuple[Written, str, dict[str, Any]]:
    slot = slots.get()
    try:
        data = slot.unpack(written.base)
        started = Base(release, written.base.state)
        result = run(slot.node(started), started, data, {})
    finally:
        slots.put(slot)
    files = {name: kind for name, kind in result["files"].items() if name.endswith(_FILES)}
    return written, release, {**{name: result[name] for name in _KEPT if name in result}, "files": files}


if __name__ == "__main__":
    sys.exit(main())
