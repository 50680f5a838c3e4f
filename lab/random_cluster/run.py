"""Play one plan: brokers up, load and faults, copies, the truth, stop, and the last copy."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from lab.broker import Cluster, make_cluster, running
from lab.driver import Driver, driving
from lab.errors import DriverError, LabError
from lab.jars import broker_jars
from lab.legacy import zookeeper, zookeeper_node
from lab.progress import say
from lab.random_cluster.faults import Faults
from lab.random_cluster.load import Load, Log, create
from lab.random_cluster.plan import Plan, make_plan
from lab.scenario import write_json
from lab.scenarios.hanging_tool import find_hanging
from lab.truth import take_truth

_THREADS = 2
_SESSION = {"zookeeper.session.timeout.ms": "6000"}
# Longer than the longest timeout of a transaction that is not meant to stay open, and a scan of the coordinator.
_SETTLE_SECONDS = 19


def play(folder: Path, kafka: str, brokers: int, seed: int, seconds: int, *, upgrade: str | None = None) -> None:
    """Write ``run/`` (the brokers), ``copies/``, ``events.log``, ``plan.json`` and ``truth.json`` into a folder.

    Args:
        folder: a folder that does not exist yet.
        kafka: release of the brokers.
        brokers: one or three.
        seed: decides settings and choices.
        seconds: how long the load lasts.
        upgrade: release to which the first rolling restart takes the brokers.

    Raises:
        LabError: the folder exists, or the brokers did not start.
    """
    if folder.exists():
        raise LabError(f"{folder} exists already: name a new folder.")
    (folder / "copies").mkdir(parents=True)
    plan = make_plan(kafka, brokers, seed, seconds, upgrade)
    log = Log(folder / "events.log")
    write_json(folder / "plan.json", asdict(plan))
    with _brokers(plan, folder / "run") as cluster, ExitStack() as clients:
        drivers = [
            clients.enter_context(driving(cluster.bootstrap, folder / f"driver-{each}.out", early=plan.early))
            for each in range(_THREADS + 1)
        ]
        for topic in plan.topics:
            create(drivers[0], topic, log)
        _under_load(plan, cluster, drivers, log, folder / "copies")
        say("taking the truth")
        time.sleep(_SETTLE_SECONDS)
        write_json(folder / "truth.json", _truth(plan, cluster, drivers[0], log))
        log.note("FAULT stop all brokers in order")
        cluster.stop()
        copy(cluster, folder / "copies" / "cold", log)


@contextmanager
def _brokers(plan: Plan, folder: Path) -> Iterator[Cluster]:
    if plan.kraft:
        cluster = make_cluster(folder, plan.kafka, plan.brokers, plan.config, plan.log_dirs)
        version = plan.transaction_version
        cluster.format(*(() if version is None else ("--feature", f"transaction.version={version}")))
        with running(cluster):
            yield cluster
        return
    folder.mkdir(parents=True)
    with zookeeper(folder, broker_jars(plan.kafka)) as port:
        config, nodes = {**_SESSION, **plan.config}, range(1, plan.brokers + 1)
        cluster = Cluster([zookeeper_node(each, folder, port, plan.kafka, config) for each in nodes])
        with running(cluster):
            yield cluster


def _under_load(plan: Plan, cluster: Cluster, drivers: list[Driver], log: Log, copies: Path) -> None:
    faults = Faults(plan, cluster, drivers[-1], log)
    chance = Random(plan.seed)
    with _load(plan, drivers[:-1], log):
        deadline, hot = time.monotonic() + plan.seconds, 0
        while time.monotonic() < deadline:
            time.sleep(chance.uniform(3, 8))
            faults.one()
            if hot < 2 and time.monotonic() > deadline - plan.seconds * (0.7 - 0.4 * hot):
                hot += 1
                copy(cluster, copies / f"hot-{hot}", log, pause=lambda: time.sleep(chance.choice((0, 0, 0.01, 0.03))))
        time.sleep(2)
        log.note("FAULT kill -9 all brokers")
        cluster.kill()
        copy(cluster, copies / "killed", log)
        if not plan.kraft:
            time.sleep(8)
        log.note("FAULT start all brokers")
        cluster.start()
        time.sleep(8)


@contextmanager
def _load(plan: Plan, drivers: list[Driver], log: Log) -> Iterator[None]:
    stop = Event()
    loads = [Load(plan, driver, log, number) for number, driver in enumerate(drivers)]
    threads = [Thread(target=load.run, args=(stop,)) for load in loads]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def copy(cluster: Cluster, target: Path, log: Log, pause: Callable[[], Any] = lambda: None) -> None:
    """Copy the log directories file by file; what vanishes meanwhile is left out, as ``rsync`` would."""
    log.note(f"COPY {target.name} begins")
    for node in cluster.nodes:
        for folder, _, names in os.walk(node.data):
            place = target / node.data.name / Path(folder).relative_to(node.data)
            place.mkdir(parents=True, exist_ok=True)
            for name in names:
                with suppress(FileNotFoundError):
                    shutil.copy2(Path(folder) / name, place / name)
                pause()
        log.note(f"COPY {target.name} has broker {node.node_id}")


def _truth(plan: Plan, cluster: Cluster, driver: Driver, log: Log) -> dict[str, Any]:
    for _ in range(5):
        try:
            truth = take_truth(driver, plan.kafka, records=False)
        except DriverError as error:
            log.note(f"truth -> {error}")
            time.sleep(4)
        else:
            break
    with suppress(LabError):
        truth["hanging"] = [] if plan.early else find_hanging(cluster)
    return truth
