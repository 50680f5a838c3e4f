"""What a scenario is, and the usual way to play one: brokers up, clients at work, truth, stop, copy."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.broker import Cluster, make_cluster, running
from lab.driver import Driver, driving
from lab.places import RUNS, SAMPLES
from lab.progress import say
from lab.truth import take_truth

# Zero-filled indexes of the metadata log: 4.4 leaves them at their full 10 MB even after an orderly stop.
_TOO_LARGE = 1_000_000
_LINE = 120


@dataclass(frozen=True, slots=True)
class Scenario:
    """One folder of ``sample_logs/`` and how it is made.

    Attributes:
        name: the folder.
        kafka: version of the brokers.
        shows: what can be seen in the files, in a sentence or two.
        play: what the clients do; None where ``build`` does everything.
        config: broker settings beyond the lab's own.
        nodes: how many brokers.
        format_options: options of ``kafka-storage format``.
        log_dirs: names of the log dirs inside ``broker-<id>``.
        records: whether ``truth.json`` holds the records.
        prepare: changes the nodes' settings before they are formatted, where those depend on ports, and
            returns further options of ``kafka-storage format``.
        build: replaces the usual way of building it, and writes the folders itself.
    """

    name: str
    kafka: str
    shows: str
    play: "Callable[[Stage], None] | None" = None
    config: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    format_options: Sequence[str] = ()
    log_dirs: Sequence[str] = ("",)
    records: bool = True
    prepare: Callable[[Cluster], Sequence[str]] | None = None
    build: "Callable[[Scenario], None] | None" = None

    def run(self) -> None:
        """Play the scenario and write its folder."""
        say(f"scenario {self.name}")
        (self.build or build_usual)(self)


@dataclass(slots=True)
class Stage:
    """What a scenario can use while it is played.

    Attributes:
        scenario: the scenario being played.
        cluster: the brokers, running.
        driver: the clients.
        after_stop: what to do with the files between the stop and the copy.
        extra_truth: what else the scenario recorded for ``truth.json``.
    """

    scenario: Scenario
    cluster: Cluster
    driver: Driver
    after_stop: list[Callable[[], None]] = field(default_factory=list)
    extra_truth: dict[str, Any] = field(default_factory=dict)

    def restart(self) -> None:
        """Stop all brokers in order and start them again; the clients live on."""
        self.note("stop (SIGTERM); start")
        self.cluster.stop()
        self.cluster.start()

    def note(self, text: str) -> None:
        """Add a line about the brokers to the journal of commands."""
        self.driver.journal.append(text)


def workspace(name: str) -> Path:
    """The folder a scenario runs in."""
    return RUNS / name


def build_usual(scenario: Scenario) -> None:
    """Brokers up, clients at work, truth, orderly stop with the clients still there, copy."""
    cluster = make_cluster(workspace(scenario.name), scenario.kafka, scenario.nodes, scenario.config, scenario.log_dirs)
    prepared = scenario.prepare(cluster) if scenario.prepare is not None else ()
    cluster.format(*scenario.format_options, *prepared)
    with running(cluster), driving(cluster.bootstrap, workspace(scenario.name) / "driver.out") as driver:
        stage = Stage(scenario, cluster, driver)
        if scenario.play is not None:
            scenario.play(stage)
        truth = take_truth(driver, scenario.kafka, records=scenario.records) | stage.extra_truth
        cluster.stop()
    for action in stage.after_stop:
        action()
    keep(scenario, scenario.name, cluster, driver.journal, truth)


def keep(
    scenario: Scenario, folder: str, cluster: Cluster, journal: Sequence[str], truth: Mapping[str, Any] | None
) -> None:
    """Copy the brokers' files into ``sample_logs/<folder>`` with their truth and pedigree."""
    target = SAMPLES / folder
    shutil.rmtree(target, ignore_errors=True)
    dropped = copy_data(cluster, target)
    if truth is not None:
        write_json(target / "truth.json", truth)
    write_json(target / "pedigree.json", _pedigree(scenario, journal, dropped))
    say(f"wrote {folder}: {sum(size_of(path) for path in target.rglob('*')) // 1024} KB")


def copy_data(cluster: Cluster, target: Path) -> list[str]:
    """Copy the brokers' files into a folder, and return what is left out because it is large and has no content."""
    target.mkdir(parents=True)
    for node in cluster.nodes:
        shutil.copytree(node.data, target / node.data.name, copy_function=_copy)
    return _drop_large(target)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON that is easy to read and diff: what fits on a line, and every record, is on one line."""
    path.write_text(_pretty(content, 0) + "\n", encoding="utf-8")


def _pretty(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(value, (dict, list)) or len(line) <= _LINE or "timestamp_type" in value:
        return line
    pad = " " * (depth + 1)
    if isinstance(value, list):
        inner = [pad + _pretty(each, depth + 1) for each in value]
    else:
        inner = [f"{pad}{json.dumps(key)}: {_pretty(each, depth + 1)}" for key, each in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return opening + "\n" + ",\n".join(inner) + "\n" + " " * depth + closing


def _copy(source: str, target: str) -> str:
    # Kafka makes its snapshots readable by their owner alone; git keeps no such thing.
    shutil.copy2(source, target)
    Path(target).chmod(0o644)
    return target


def size_of(path: Path) -> int:
    """Size of a file, 0 for a folder."""
    return path.stat().st_size if path.is_file() else 0


def _drop_large(folder: Path) -> list[str]:
    large = [path for path in sorted(folder.rglob("*")) if size_of(path) > _TOO_LARGE]
    dropped = [f"{path.relative_to(folder)} ({size_of(path)} bytes)" for path in large]
    for path in large:
        path.unlink()
    return dropped


def _pedigree(scenario: Scenario, journal: Sequence[str], dropped: Sequence[str]) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "kafka": scenario.kafka,
        "shows": scenario.shows,
        "brokers": scenario.nodes,
        "config": dict(scenario.config),
        "format_options": list(scenario.format_options),
        "dropped": list(dropped),
        "commands": list(journal),
    }
