"""Kafka Connect, Kafka Streams and Flink write exactly once, are killed in the middle of transactions, and go on."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lab.broker import Cluster, JavaProcess, make_cluster, running
from lab.components import ConnectWorker, FlinkJob, MirrorMaker, StreamsApplication, completed_checkpoints, wait_until
from lab.driver import EARLY_CLIENT_VERSION, Driver, driving, records
from lab.places import SAMPLES
from lab.scenario import Scenario, keep, workspace, write_json
from lab.scenarios.steps import open_producer
from lab.truth import take_truth

_CONFIG = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.streams.initial.rebalance.delay.ms": "0",
    **{f"group.streams.{part}session.timeout.ms": "5000" for part in ("", "min.")},
    **{f"group.streams.{part}heartbeat.interval.ms": "1000" for part in ("", "min.")},
}
_NEVER, _SOON, _DAY_MS = 600_000, 1000, 86_400_000
_OUTPUTS = ("stock-counts", "billing-counts", "alert-counts")
_STORIES = (
    "Kafka Connect (workers `etl`, exactly-once source connector `files`, sink connector `archive`), Kafka Streams"
    " (`stock` with exactly_once_v2 and a store on disk, `alerts` with it, a store in memory and the streams protocol,"
    " `billing` of 3.9 with exactly_once) and Flink (`clicks`, with its own sink), killed in the middle of transactions"
    " and started again; MirrorMaker 2 (`shop`, exactly-once support); each with open transactions when the broker was"
    " stopped, and some with records of the day before. `described` in `truth.json` is what the admin client was told"
    " about all groups, `next` what became of the open transactions when the broker and all components were started"
    " again after the copy"
)


@dataclass(slots=True)
class _Components:
    """The components, and the processes of them that were started."""

    driver: Driver
    worker: ConnectWorker
    mirror: MirrorMaker
    job: FlinkJob
    applications: list[StreamsApplication]
    lines: Path
    processes: list[JavaProcess] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a line to the journal of commands."""
        self.driver.journal.append(text)

    def start(self, what: str, start: Callable[[], JavaProcess]) -> JavaProcess:
        """Start a process, which is killed at the latest when the scenario ends."""
        self.note(f"start {what}")
        process = start()
        self.processes.append(process)
        return process

    def kill(self, what: str, *processes: JavaProcess) -> None:
        """Kill processes without any chance to end their transactions."""
        self.note(f"kill {what} (SIGKILL)")
        for process in processes:
            process.end(signal.SIGKILL)

    def open_ids(self, prefix: str) -> list[str]:
        """The ids with this prefix whose transactions are open."""
        states: dict[str, str] = self.driver.ask("list_transactions")
        return [name for name, state in states.items() if name.startswith(prefix) and state == "Ongoing"]

    def wait_for_open(self, prefix: str, count: int = 1) -> None:
        """Wait until so many ids with this prefix have an open transaction."""
        wait_until(f"{count} transactions of {prefix} are open", lambda: len(self.open_ids(prefix)) >= count)


def build(scenario: Scenario) -> None:
    """Play, copy what the broker leaves, and then see what the components do with their open transactions."""
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, config=scenario.config)
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        with _components(cluster, driver, folder) as components:
            checkpoint = _play(components)
            truth = take_truth(driver, scenario.kafka, described=True)
            components.note("stop the broker (SIGTERM)")
            cluster.stop()
            last = _complete_checkpoint(components, checkpoint)
            components.kill("all components, and copy", *components.processes)
            keep(scenario, scenario.name, cluster, driver.journal, truth)
            cluster.start()
            truth["next"] = _go_on(components, truth, last)
        write_json(SAMPLES / scenario.name / "truth.json", truth)


@contextmanager
def _components(cluster: Cluster, driver: Driver, folder: Path) -> Iterator[_Components]:
    server = cluster.bootstrap
    stock = StreamsApplication(
        server, "stock", folder,
        {"processing.guarantee": "exactly_once_v2", "input": "orders", "output": _OUTPUTS[0], "store": "disk"},
    )  # fmt: skip
    old = {**stock.settings, "processing.guarantee": "exactly_once", "output": _OUTPUTS[1]}
    # The aggregate has a repartition topic, which is named for the application.
    memory = {**stock.settings, "group.protocol": "streams", "output": _OUTPUTS[2], "store": "memory"}
    applications = [
        stock,
        replace(stock, name="billing", settings=old, version=EARLY_CLIENT_VERSION),
        replace(stock, name="alerts", settings=memory),
    ]
    components = _Components(
        driver, ConnectWorker(server, "etl", folder), MirrorMaker(server, "shop", "orders", folder),
        FlinkJob(server, "clicks", "clicks", folder), applications, folder / "lines.txt",
    )  # fmt: skip
    try:
        yield components
    finally:
        for process in components.processes:
            process.end(signal.SIGKILL)


def _play(components: _Components) -> JavaProcess:
    """Returns the job of Flink, which has a checkpoint under way."""
    driver = components.driver
    for topic, partitions in {"clicks": 2, "orders": 2, "lines": 1, **dict.fromkeys(_OUTPUTS, 1)}.items():
        driver.call("create_topic", name=topic, partitions=partitions)
    open_producer(driver, "orders")
    _streams(components)
    _connect(components)
    components.start("MirrorMaker 2, which copies orders to shop.orders", components.mirror.start)
    components.wait_for_open("shop-mm2-MirrorSourceConnector-0")
    return _flink(components)


def _streams(components: _Components) -> None:
    """Killed with open transactions; started again, which commits; stopped; and open again."""
    _send_orders(components, "first")
    components.kill("the applications", *_start_applications(components, _NEVER))
    again = _start_applications(components, _SOON)
    # The repartition topic of the third holds back its input until the transaction of its first process times out.
    for topic in _OUTPUTS[:2]:
        wait_until(f"{topic} is written", partial(_is_written, components, topic, 6))
    components.note("stop the applications (SIGTERM)")
    for process in again:
        process.end()
    _send_orders(components, "second")
    _start_applications(components, _NEVER)


def _send_orders(components: _Components, name: str) -> None:
    """Orders of the day before: what Kafka Streams and MirrorMaker write has the timestamps of what they read."""
    yesterday = {"timestamp": int(time.time() * 1000) - _DAY_MS}
    for partition in range(2):
        orders = [order | yesterday for order in records(f"{name} {partition}", 3)]
        components.driver.send("orders", "orders", orders, partition)


def _start_applications(components: _Components, commit_ms: int) -> list[JavaProcess]:
    before = {application.name: set(components.open_ids(application.name)) for application in components.applications}
    processes = [
        components.start(f"the application {application.name}", partial(application.start, commit_ms))
        for application in components.applications
    ]
    if commit_ms == _NEVER:
        for application in components.applications:
            opened = partial(_has_opened, components, application.name, before[application.name])
            wait_until(f"{application.name} has open transactions", opened)
        components.driver.call("pause", milliseconds=5000)
    return processes


def _has_opened(components: _Components, prefix: str, before: set[str]) -> bool:
    return bool(set(components.open_ids(prefix)) - before)


def _is_written(components: _Components, topic: str, count: int) -> bool:
    end: int = components.driver.ask("list_offset", topic=topic, partition=0, spec="latest", isolation="read_committed")
    return end >= count


def _connect(components: _Components) -> None:
    """A worker killed with an open transaction of a task; the next aborts it, commits, and opens another."""
    worker, driver = components.worker, components.driver
    components.lines.write_text("one\ntwo\nthree\n", encoding="utf-8")
    process = components.start("the worker of etl", worker.start)
    _configure_source(components, _NEVER)
    components.note("configure the sink connector archive")
    worker.configure(
        "archive", connector_class="FileStreamSink", tasks_max="1", topics="lines",
        file="archive.txt",
    )  # fmt: skip
    components.wait_for_open("etl-files-0")
    components.kill("the worker of etl", process)
    starts = _source_starts(components)
    components.start("the worker of etl", worker.start)
    wait_until("the task of files runs again", lambda: _source_starts(components) > starts)
    _configure_source(components, _SOON)
    wait_until("the lines are committed", lambda: _is_written(components, "lines", 7))
    _configure_source(components, _NEVER)
    with components.lines.open("a", encoding="utf-8") as file:
        file.write("four\nfive\n")
    components.wait_for_open("etl-files-0")
    driver.call("pause", milliseconds=5000)


def _configure_source(components: _Components, transaction_ms: int) -> None:
    """Its file is relative to the folder of the worker: a setting ends up in the topic of the configurations."""
    components.note(f"configure the source connector files, with a transaction every {transaction_ms} ms")
    starts = _source_starts(components)
    components.worker.configure(
        "files", connector_class="FileStreamSource", tasks_max="1", topic="lines", file=components.lines.name,
        exactly_once_support="required", transaction_boundary="interval",
        transaction_boundary_interval_ms=str(transaction_ms), producer_override_transaction_timeout_ms="900000",
    )  # fmt: skip
    wait_until("the task of files runs with its settings", lambda: _source_starts(components) > starts)


def _source_starts(components: _Components) -> int:
    """How often the task of the source connector was started, by the log of the workers."""
    return components.worker.log.read_text("utf-8").count("Source task finished initialization and start")


def _flink(components: _Components) -> JavaProcess:
    """Killed between the end of a checkpoint and its commit; restored; and again with a checkpoint under way."""
    job = components.job
    first = components.start("the job clicks", job.start)
    _leave_precommitted(components, first)
    last = _complete_checkpoint(components, first)
    components.kill("the job clicks", first)
    job.pause.unlink()
    second = components.start(f"the job clicks from checkpoint {last}", partial(job.start, last))
    _leave_precommitted(components, second)
    return second


def _leave_precommitted(components: _Components, process: JavaProcess) -> None:
    """Hold a checkpoint when the sink has done its part and opened the next transactions."""
    job = components.job
    wait_until("two checkpoints are complete", lambda: len(completed_checkpoints(process)) > 1)
    before = set(components.driver.ask("list_transactions"))
    components.note("hold the next checkpoint of the job clicks when its sink has done its part")
    job.hold.touch()
    wait_until(
        "the sink has opened the transactions after the checkpoint",
        lambda: len(set(components.open_ids(f"{job.prefix}-")) - before) > 1,
    )
    job.pause.touch()
    components.driver.call("pause", milliseconds=2000)


def _complete_checkpoint(components: _Components, process: JavaProcess) -> int:
    """Let the held checkpoint complete; the sink is paused and does not commit. Returns its number."""
    components.note("let the checkpoint complete")
    before = completed_checkpoints(process)
    components.job.hold.unlink()
    wait_until("the checkpoint is complete", lambda: completed_checkpoints(process) != before)
    return completed_checkpoints(process)[-1]


def _go_on(components: _Components, truth: dict[str, Any], checkpoint: int) -> dict[str, dict[str, str]]:
    """What became of each open transaction, by id and partition, after all components were started again."""
    components.job.pause.unlink()
    components.start("the worker", components.worker.start)
    components.start("MirrorMaker 2", components.mirror.start)
    components.start("the job", partial(components.job.start, checkpoint))
    for application in components.applications:
        components.start(application.name, partial(application.start, _SOON))
    ids = {described["producer_id"]: name for name, described in truth["transactions"].items()}
    opened = [
        (ids[producer["producer_id"]], topic, int(number), producer["current_transaction_start_offset"])
        for topic, partitions in truth["topics"].items()
        for number, partition in partitions.items()
        for producer in partition["producers"] or ()
        if producer["current_transaction_start_offset"] >= 0
    ]
    resolved = [each[1:] for each in opened if not each[0].startswith("alerts-")]
    wait_until("the transactions have ended", lambda: all(_outcome(components, *each) != "open" for each in resolved))
    components.driver.call("pause", milliseconds=5000)
    outcomes: dict[str, dict[str, str]] = {}
    for name, topic, number, offset in opened:
        outcomes.setdefault(name, {})[f"{topic}-{number}"] = _outcome(components, topic, number, offset)
    return outcomes


def _outcome(components: _Components, topic: str, partition: int, offset: int) -> str:
    """Whether consumers of committed records see the first record of a transaction, or wait for its end."""
    place = {"topic": topic, "partition": partition, "isolation": "read_committed"}
    if components.driver.ask("list_offset", spec="latest", **place) <= offset:
        return "open"
    seen = {record["offset"] for record in components.driver.ask("read", **place)}
    return "committed" if offset in seen else "aborted"


SCENARIOS = [
    Scenario(
        name="exactly-once-clients",
        kafka="4.4.0",
        shows=f"{_STORIES}.",
        config=_CONFIG,
        build=build,
    )
]
