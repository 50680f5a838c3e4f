"""Three brokers: leaders that come and go, replicas that move, part ways, and are forgotten."""

import time
from base64 import urlsafe_b64encode
from typing import Any

from lab.broker import Cluster, Node
from lab.driver import Driver, records
from lab.errors import DriverError, LabError
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer, small_segments, transaction

CONFIG = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "leader.imbalance.check.interval.seconds": "3600",
    "log.segment.delete.delay.ms": "3600000",
}
_WAIT_SECONDS = 40


def play(stage: Stage) -> None:
    """Kill, stop, elect, reassign; at the end two replicas differ and one broker is dead."""
    driver = stage.driver
    _topics(stage)
    _write(driver, "all three")
    _leader_is_killed(stage)
    _leader_is_stopped(stage)
    _reassigned(driver)
    _deleted_while_down(stage)
    _voter_leaves_and_returns(stage)
    _unclean_election(stage)


def _topics(stage: Stage) -> None:
    small = small_segments(stage.scenario.kafka, 1500)
    for topic, assignment, configs in (
        ("replicated", [[1, 2, 3], [2, 3, 1]], small),
        ("durable", [[1, 2, 3]], {"min.insync.replicas": "2"}),
        ("reassigned", [[1, 2]], {}),
        ("stray", [[1, 2]], {}),
        ("unclean", [[2, 3]], {"unclean.leader.election.enable": "true"}),
    ):
        stage.driver.call("create_topic", name=topic, assignment=assignment, configs=configs)
    open_producer(stage.driver, "p")
    open_producer(stage.driver, "t", "replicated")


def _write(driver: Driver, text: str) -> None:
    for number in range(3):
        for partition in (0, 1):
            driver.send("p", "replicated", records(f"{text} {number}", 3, 60), partition)
    transaction(driver, "t", "replicated", "commit", 2)
    transaction(driver, "t", "replicated", "abort", 1, partition=1)
    for topic in ("durable", "reassigned", "unclean"):
        driver.send("p", topic, records(text, 2))


def _leader_is_killed(stage: Stage) -> None:
    """Broker 1 dies; the preferred leader gets its place back later."""
    driver = stage.driver
    driver.call("begin", name="t")
    driver.send("t", "replicated", records("while the leader dies", 2))
    end(stage, 1, "kill")
    wait_for(driver, "replicated", leader=2)
    driver.call("commit", name="t")
    _write(driver, "without broker 1")
    start(stage, 1)
    wait_for(driver, "replicated", isr=3)
    driver.call("elect_leader", type="PREFERRED", topic="replicated", partition=0)
    _write(driver, "after the preferred election")


def _leader_is_stopped(stage: Stage) -> None:
    end(stage, 2, "stop")
    wait_for(stage.driver, "replicated", 1, leader=3)
    _write(stage.driver, "without broker 2")
    start(stage, 2)
    wait_for(stage.driver, "replicated", 1, isr=3)


def _reassigned(driver: Driver) -> None:
    driver.call("reassign", topic="reassigned", partition=0, replicas=[2, 3])
    wait_for(driver, "reassigned", isr=2, replicas=[2, 3])
    driver.send("p", "reassigned", records("after the move", 2))


def _deleted_while_down(stage: Stage) -> None:
    """A topic is deleted while broker 1 is away; at its return the replica is a stray."""
    stage.driver.send("p", "stray", records("stray", 3))
    end(stage, 1, "stop")
    wait_for(stage.driver, "replicated", leader=2)
    stage.driver.call("delete_topic", name="stray")
    start(stage, 1)
    wait_for(stage.driver, "replicated", isr=3)


def _voter_leaves_and_returns(stage: Stage) -> None:
    leader = stage.driver.ask("describe_quorum")["leader"]
    # A leader that is removed resigns, and its clients then ask in vain for the new one.
    node = next(node for node in stage.cluster.nodes if node.node_id != leader)
    voter = {"voter": node.node_id, "directory": directory_id(node)}
    _insist(stage.driver, "remove_voter", **voter)
    _insist(stage.driver, "add_voter", **voter, endpoint=f"127.0.0.1:{node.controller_port}")


def _insist(driver: Driver, operation: str, **arguments: Any) -> None:
    """Ask until the quorum agrees: it refuses while it has just changed its leader or its voters."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            driver.ask(operation, **arguments)
        except DriverError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            driver.journal.append(f"{operation} voter={arguments['voter']}")
            return


def _unclean_election(stage: Stage) -> None:
    """The only replica in sync dies, one that lags takes over; the dead one keeps records that no other replica has."""
    driver = stage.driver
    end(stage, 3, "kill")
    wait_for(driver, "unclean", leader=2, isr=1)
    for number in range(3):
        driver.send("p", "unclean", records(f"lost {number}", 2))
    end(stage, 2, "kill")
    start(stage, 3)
    wait_for(driver, "unclean", leader=3)
    open_producer(driver, "after")
    for number in range(2):
        driver.send("after", "unclean", records(f"after the unclean election {number}", 2))
    driver.call("unregister_broker", broker=2)


def end(stage: Stage, number: int, how: str) -> None:
    """End a broker: ``kill``, or ``stop`` it in order."""
    stage.note(f"{how} broker {number}")
    node = stage.cluster.node(number)
    (node.kill if how == "kill" else node.stop)()


def start(stage: Stage, number: int) -> None:
    """Start a broker that has ended."""
    stage.note(f"start broker {number}")
    stage.cluster.node(number).start()


def wait_for(
    driver: Driver,
    topic: str,
    partition: int = 0,
    *,
    leader: int | None = None,
    isr: int | None = None,
    replicas: list[int] | None = None,
) -> None:
    """Wait until a partition has this leader, so many replicas in sync, or these replicas."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        now: dict[str, Any] = driver.ask("list_topics")[topic]["partitions"][partition]
        met = (leader in (None, now["leader"]), isr in (None, len(now["isr"])), replicas in (None, now["replicas"]))
        if all(met):
            return
        time.sleep(0.3)
    raise LabError(f"{topic}-{partition} did not come to leader {leader}, {isr} in sync, replicas {replicas}: {now}")


def directory_id(node: Node) -> str:
    """The id of the log directory of a voter: ours, so that it is the same in every run."""
    return urlsafe_b64encode(f"kforensics-dir-{node.node_id}".encode()[-16:]).decode().rstrip("=")


def dynamic_quorum(cluster: Cluster) -> list[str]:
    """All controllers are voters from the start, and the voters stand in the log (kraft.version 1)."""
    nodes = cluster.controllers or cluster.nodes
    endpoints = {node.node_id: f"127.0.0.1:{node.controller_port}" for node in nodes}
    for node in (*cluster.controllers, *cluster.nodes):
        del node.config["controller.quorum.voters"]
        node.config["controller.quorum.bootstrap.servers"] = ",".join(endpoints.values())
    voters = [f"{node.node_id}@{endpoints[node.node_id]}:{directory_id(node)}" for node in nodes]
    return ["--initial-controllers", ",".join(voters)]


SCENARIOS = [
    Scenario(
        name="replication",
        kafka="4.4.0",
        shows=(
            "Three brokers and a quorum of three: leaders killed, stopped and elected again, a replica"
            " reassigned (`-delete`), a topic deleted while a broker was away (`-stray`), a voter removed and"
            " added, and an unclean election: broker 2 was killed and never started again, and its replica of"
            " `unclean-0` holds records that the new leader has overwritten."
        ),
        play=play,
        config=CONFIG,
        nodes=3,
        prepare=dynamic_quorum,
    )
]
