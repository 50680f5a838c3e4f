"""Play one plan: brokers up, load and faults, copies, the truth, stop, and the last copy."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from lab.broker import Cluster, make_cluster, running
from lab.driver import Driver, driving
from lab.errors import DriverError, LabError
from lab.forecast.bases import APART, Base
from lab.jars import broker_jars
from lab.legacy import zookeeper, zookeeper_node
from lab.preloads import preload
from lab.progress import say
from lab.random_cluster.copies import Copier, Copies, Counts, full_disk_flag
from lab.random_cluster.faults import Faults
from lab.random_cluster.load import Load, Log, create
from lab.random_cluster.migration import Migration
from lab.random_cluster.plan import Plan
from lab.scenario import write_json
from lab.scenarios import remote_storage
from lab.scenarios.hanging_tool import find_hanging
from lab.scenarios.replication import dynamic_quorum
from lab.truth import take_truth

_THREADS = 2
_SESSION = {"zookeeper.session.timeout.ms": "6000"}
# Longer than the longest timeout of a transaction that is not meant to stay open, and a scan of the coordinator.
_SETTLE_SECONDS = 19


def play(folder: Path, plan: Plan, counts: Counts) -> None:
    """Write ``run/`` (the brokers), ``copies/``, ``events.log``, ``plan.json`` and ``truth.json`` into a folder.

    Args:
        folder: a folder that does not exist yet.
        plan: the cluster.
        counts: how many copies to take under load.

    Raises:
        LabError: the folder exists, or the brokers did not start.
    """
    if folder.exists():
        raise LabError(f"{folder} exists already: name a new folder.")
    (folder / "copies").mkdir(parents=True)
    log = Log(folder / "events.log")
    write_json(folder / "plan.json", asdict(plan))
    with _brokers(plan, folder / "run", counts) as cluster, ExitStack() as clients:
        drivers = [
            clients.enter_context(driving(cluster.bootstrap, folder / f"driver-{each}.out", early=plan.early))
            for each in range(_THREADS + 1)
        ]
        for topic in plan.topics:
            create(drivers[0], topic, log)
        faults = Faults(plan, cluster, drivers[-1], log)
        copier = Copier(plan, folder / "copies", log)
        copies = Copies(cluster, copier, counts, faults.start)
        with _load(plan, drivers[:-1], log):
            _provoke(plan, faults, copies, Migration(plan, cluster, faults.replace, log) if plan.migrates else None)
            _kill_all(plan, cluster, log, copier)
        say("taking the truth")
        time.sleep(_SETTLE_SECONDS)
        write_json(folder / "truth.json", _truth(plan, cluster, drivers[0], log))
        log.note("FAULT stop all brokers in order")
        cluster.stop()
        copier.copy([*cluster.nodes, *cluster.controllers], "cold")


@contextmanager
def _brokers(plan: Plan, folder: Path, counts: Counts) -> Iterator[Cluster]:
    if plan.kraft:
        cluster = make_cluster(
            folder, plan.kafka, plan.brokers, plan.config, plan.log_dirs, controllers=plan.controllers
        )
        if plan.tiered:
            remote_storage.prepare(cluster)
        if plan.has_metadata_disk:
            base = Base(plan.kafka, "random", plan.log_dirs, APART)
            for node in cluster.nodes:
                node.config.update(base.settings(node))
        version = plan.transaction_version
        _set_hosts(plan, cluster, counts)
        features = () if version is None else ("--feature", f"transaction.version={version}")
        cluster.format(*features, *(dynamic_quorum(cluster) if plan.dynamic else ()))
        with running(cluster):
            yield cluster
        return
    folder.mkdir(parents=True)
    with zookeeper(folder, broker_jars(plan.kafka)) as port:
        config, nodes = {**_SESSION, **plan.config}, range(1, plan.brokers + 1)
        make = partial(zookeeper_node, log_dirs=plan.log_dirs)
        cluster = Cluster([make(each, folder, port, plan.kafka, config) for each in nodes])
        _set_hosts(plan, cluster, counts)
        with running(cluster):
            yield cluster


def _set_hosts(plan: Plan, cluster: Cluster, counts: Counts) -> None:
    """Let the brokers see another time, and full disks, if the plan or the copies ask for it."""
    names = [*(["skewed_clock"] if plan.skew_ms else []), *(["full_disk"] if counts.full else [])]
    for node in cluster.nodes if names else ():
        environment = preload(
            *names,
            CLOCK_SKEW_MS=plan.clock_error_ms(node.node_id),
            FULL_DISK_FLAG=full_disk_flag(node),
            FULL_DISK_FOLDER=node.data,
        )
        node.environment.update(environment)


def _provoke(plan: Plan, faults: Faults, copies: Copies, migration: Migration | None) -> None:
    steps = migration.steps() if migration is not None else []
    done = 0
    chance, begun = Random(plan.seed), time.monotonic()
    # Some faults take long.
    while (share := (time.monotonic() - begun) / plan.seconds) < 1 or done < len(steps):
        time.sleep(chance.uniform(3, 8))
        faults.one()
        if done < len(steps) and share >= (done + 1) / (len(steps) + 2):
            steps[done]()
            done += 1
        # Some copies of each stage of a migration, however slow that is.
        copies.take(min(share, done / len(steps)) if steps else share)
    copies.take(1)


def _kill_all(plan: Plan, cluster: Cluster, log: Log, copier: Copier) -> None:
    time.sleep(2)
    log.note("FAULT kill -9 all brokers")
    cluster.kill()
    copier.copy(cluster.nodes, "killed")
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


def _truth(plan: Plan, cluster: Cluster, driver: Driver, log: Log) -> dict[str, Any]:
    truth: dict[str, Any] = {}
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
