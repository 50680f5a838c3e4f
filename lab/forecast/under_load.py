"""``python -m lab.forecast.under_load [--hot N] [--killed N]``: copies of a broker that was writing, each started.

A hot copy is taken while the broker runs, folder after folder, as a copying tool takes it. A killed one is what is left
after SIGKILL. The first of each kind are kept as samples; the forecast is compared with all of them.
"""

import argparse
import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

from lab.broker import Node, make_cluster, running
from lab.driver import Driver, driving, records
from lab.errors import LabError
from lab.forecast.bases import CONFIG, DATA, Base
from lab.forecast.start import LOADED, Slot, run
from lab.progress import say
from lab.scenario import workspace, write_json
from lab.scenarios.steps import open_producer, small_segments, transaction

RELEASE = "4.4.0"
KEPT = 12
# Steps of the load before the first hot copy, so that there are several segments and checkpoints.
_FIRST_STEPS = 12
_BROKERS = 2
# What a broker writes now and then, it writes often here.
_OFTEN = {
    "log.flush.offset.checkpoint.interval.ms": "700",
    "log.flush.start.offset.checkpoint.interval.ms": "900",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.cleaner.backoff.ms": "300",
    "log.segment.delete.delay.ms": "1500",
}
# A producer gives up soon after its broker was killed.
_SHORT = {"max_block_ms": "4000", "delivery_timeout_ms": "2500", "request_timeout_ms": "2000", "linger_ms": "200"}
_LONG = {"transaction_timeout_ms": "2147483647", **_SHORT}
_DATE = (2026, 11, 23, 0, 0, 0)


def main() -> int:
    """Take the copies and start a broker on each; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.forecast.under_load", description=__doc__)
    parser.add_argument("--hot", type=int, default=50, metavar="N", help="how many hot copies")
    parser.add_argument("--killed", type=int, default=50, metavar="N", help="how many killed ones")
    options = parser.parse_args()
    for state, count in (("hot", options.hot), ("killed-under-load", options.killed)):
        if count:
            base = Base(RELEASE, state)
            copies = _hot_copies(count) if state == "hot" else _killed_copies(count)
            _start_all(base, copies)
    return 0


def _hot_copies(count: int) -> list[Path]:
    folder = workspace("forecast-hot")
    cluster = make_cluster(folder, RELEASE, config=CONFIG | _OFTEN)
    cluster.format()
    copies = [folder / "copies" / f"{number:02}" for number in range(count)]
    with (
        running(cluster),
        driving(cluster.bootstrap, folder / "driver.out") as driver,
        ThreadPoolExecutor(1) as copying,
    ):
        random = Random(17)  # the same load again
        steps = _load(driver, random)
        for _ in range(_FIRST_STEPS):
            next(steps)
        for number, copy in enumerate(copies):
            done: Future[None] = copying.submit(_copy_hot, cluster.nodes[0].data, copy, Random(number))
            next(steps)
            while not done.done():
                next(steps)
            done.result()
    say(f"{count} hot copies")
    return copies


def _copy_hot(data: Path, target: Path, random: Random) -> None:
    """Copy a log directory that changes meanwhile; what has gone when it is its turn is left out."""
    target.mkdir(parents=True)
    entries = sorted(data.iterdir())
    if random.random() < 0.5:
        random.shuffle(entries)
    for entry in entries:
        if entry.name == ".lock":
            continue
        if entry.is_dir():
            (target / entry.name).mkdir()
        inner = sorted(entry.iterdir()) if entry.is_dir() else [entry]
        for path in inner:
            with suppress(FileNotFoundError):
                shutil.copy2(path, target / path.relative_to(data))


def _killed_copies(count: int) -> list[Path]:
    folder = workspace("forecast-killed")
    cluster = make_cluster(folder, RELEASE, config=CONFIG | _OFTEN)
    cluster.format()
    copies = [folder / "copies" / f"{number:02}" for number in range(count)]
    node: Node = cluster.nodes[0]
    with running(cluster):
        for number, copy in enumerate(copies):
            if number:
                cluster.start()
            with driving(cluster.bootstrap, folder / "driver.out") as driver, ThreadPoolExecutor(1) as killing:
                random = Random(number)
                steps = _load(driver, random, suffix=str(number))
                next(steps)
                for _ in range(random.randrange(3, 9)):
                    next(steps)
                done = killing.submit(_kill, node, driver)  # in the middle of the next step
                with suppress(LabError, OSError):
                    next(steps)
                done.result()
            shutil.copytree(node.data, copy, ignore=shutil.ignore_patterns(".lock"))
    say(f"{count} killed copies")
    return copies


def _kill(node: Node, driver: Driver) -> None:
    """Kill a broker, then its clients, which would wait for it."""
    node.kill()
    driver.close()


def _load(driver: Driver, random: Random, suffix: str = "") -> Iterator[None]:
    """Open the producers, then write at each step: plain, idempotent, committed, aborted and open, deleted, cleaned."""
    small = small_segments(RELEASE, 1500)
    topics = {
        "plain": {**small},
        "single": {},
        "txn": {**small},
        "trimmed": {**small},
        "compact": {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"},
    }
    for name, configs in topics.items() if suffix in ("", "0") else ():
        driver.call("create_topic", name=name, partitions=2 if name == "plain" else 1, configs=configs)
    open_producer(driver, "p", **_SHORT)
    open_producer(driver, "q", enable_idempotence="true", **_SHORT)
    open_producer(driver, "t", f"tx{suffix}", **_LONG)
    open_producer(driver, "u", f"ux{suffix}", **_LONG)
    driver.call("begin", name="u")
    driver.send("u", "txn", records("hanging", 2))
    ends, step = 0, 0
    while True:
        yield
        step += 1
        driver.send("q", "plain", records(f"plain {step}", 3, random.randrange(20, 400)), step % 2)
        driver.send("p", "single", records(f"single {step}", random.randrange(1, 9), 60))
        driver.send("p", "compact", records("compact", 4, 60))
        transaction(driver, "t", "txn", random.choice(("commit", "abort")), 2, 1)
        ends = driver.send("p", "trimmed", records(f"trimmed {step}", 3, 60))[-1]
        if step % 5 == 0:
            driver.call("delete_records", topic="trimmed", partition=0, before=ends - 2)
        if step % 7 == 0:
            driver.call("create_topic", name=f"later-{suffix}-{step}")
            driver.send("p", f"later-{suffix}-{step}", records("later", 2))


def _start_all(base: Base, copies: list[Path]) -> None:
    slots: SimpleQueue[Slot] = SimpleQueue()
    for number in range(_BROKERS):
        slots.put(Slot(workspace(f"forecast-start-{base.name}-{number}")))
    results = dict[str, Any]()
    with ThreadPoolExecutor(_BROKERS) as pool:
        for copy, result in pool.map(lambda copy: (copy, _started(base, copy, slots)), copies):
            results[copy.name] = result
            say(f"{base.name} {copy.name}: {result['outcome']}")
    everything = copies[0].parent / f"{base.name}.json"
    everything.write_text(json.dumps(results))
    kept = copies[:KEPT]
    _pack(base, kept)
    write_json(DATA / f"{base.name}.json", {copy.name: results[copy.name] for copy in kept})
    say(f"all results: {everything}")


def _started(base: Base, copy: Path, slots: "SimpleQueue[Slot]") -> dict[str, Any]:
    slot = slots.get()
    try:
        shutil.rmtree(slot.folder, ignore_errors=True)
        slot.folder.mkdir(parents=True)
        data = slot.folder / "broker-1"
        shutil.copytree(copy, data)
        node = slot.node(base)
        result = run(node, base, data, {})
        loaded = LOADED.findall(node.log.read_text(errors="replace"))
        # What the loads left, before the coordinators go on with their transactions.
        result["loaded"] = {folder: [int(start), int(end)] for folder, start, end in loaded}
        return result
    finally:
        slots.put(slot)


def _pack(base: Base, copies: list[Path]) -> None:
    with zipfile.ZipFile(base.archive, "w", zipfile.ZIP_LZMA) as archive:
        for path in sorted(path for copy in copies for path in [copy, *copy.rglob("*")]):
            name = path.relative_to(copies[0].parent).as_posix() + ("/" if path.is_dir() else "")
            archive.writestr(
                zipfile.ZipInfo(name, _DATE), b"" if path.is_dir() else path.read_bytes(), zipfile.ZIP_LZMA
            )
    say(f"wrote {base.name}: {base.archive.stat().st_size // 1024} KB")


if __name__ == "__main__":
    sys.exit(main())
