"""Applications that read, write and commit their offsets in one transaction, over several partitions of everything."""

from collections.abc import Mapping, Sequence

from lab.driver import Driver, records
from lab.errors import LabError
from lab.scenario import Scenario, Stage
from lab.scenarios.hanging_tool import find_hanging
from lab.scenarios.steps import open_producer, set_broker
from lab.scenarios.transactions import producer_of, wait_for_end
from lab.truth import wait_for_markers

_CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_INPUTS = (0, 1)
_OUTPUTS = (0, 1, 2)
_STORIES = (
    "applications that read two partitions, write three and commit their offsets in the same transaction, with two"
    " partitions of coordinators of either kind: committed, aborted and done again, at the same time, offsets or"
    " output alone, timed out, fenced, with a write and offsets that came after the end and hang, and one open with"
    " pending offsets when the brokers were stopped. `truth.json` also says what `kafka-transactions.sh find-hanging`"
    " listed (`hanging`) and for which groups and partitions no stable offset was to be had (`unstable`)"
)


def play(stage: Stage) -> None:
    """One group and one transactional id per application."""
    driver = stage.driver
    _topics(stage)
    _committed_and_aborted(driver)
    _at_the_same_time(driver)
    _offsets_or_output_alone(driver)
    _timed_out(driver)
    _fenced(driver)
    _hanging(stage)
    _pending(driver)
    wait_for_markers(driver)
    stage.extra_truth = {"hanging": find_hanging(stage.cluster), "unstable": _unstable(driver)}


def _topics(stage: Stage) -> None:
    ids = [node.node_id for node in stage.cluster.nodes]
    for topic, partitions in (("input", _INPUTS), ("output", _OUTPUTS)):
        assignment = [ids[number % len(ids) :] + ids[: number % len(ids)] for number in partitions]
        stage.driver.call("create_topic", name=topic, assignment=assignment)
    open_producer(stage.driver, "source")
    for partition in _INPUTS:
        stage.driver.send("source", "input", records(f"in {partition}", 8), partition)


def _turn(
    driver: Driver, name: str, outcome: str | None, offset: int | None, outputs: Sequence[int] = _OUTPUTS
) -> None:
    """One transaction: output, the next offset of every input, and its end, unless it is left open."""
    driver.call("begin", name=name)
    for partition in outputs:
        driver.send(name, "output", records(f"{name} {outcome} {offset}", 1 + partition), partition)
    if offset is not None:
        _send_offsets(driver, name, dict.fromkeys(_INPUTS, offset))
    if outcome is not None:
        driver.call(outcome, name=name)


def _send_offsets(driver: Driver, name: str, offsets: Mapping[int, int]) -> None:
    group = name.partition(" ")[0]
    numbers = {str(partition): offset for partition, offset in offsets.items()}
    driver.call("send_offsets", name=name, group=group, topic="input", offsets=numbers, metadata=name)


def _committed_and_aborted(driver: Driver) -> None:
    open_producer(driver, "billing", "billing-app")
    for outcome, offset in (("commit", 2), ("abort", 4), ("commit", 4)):
        _turn(driver, "billing", outcome, offset)


def _at_the_same_time(driver: Driver) -> None:
    """Two applications of two coordinators, and of two groups with two coordinators."""
    open_producer(driver, "shipping", "shipping-app")
    for outcomes, offsets in (
        (("commit", "abort"), (5, 5)),
        (("abort", "commit"), (6, 5)),
        (("commit", "commit"), (6, 6)),
    ):
        for name, offset in zip(("billing", "shipping"), offsets, strict=True):
            _turn(driver, name, None, offset, _OUTPUTS[:2])
        for name, outcome in zip(("billing", "shipping"), outcomes, strict=True):
            driver.call(outcome, name=name)


def _offsets_or_output_alone(driver: Driver) -> None:
    open_producer(driver, "skipping", "skipping-app")
    for outcome in ("commit", "abort"):
        _turn(driver, "skipping", outcome, 3, ())
        _turn(driver, "skipping", outcome, None, _OUTPUTS[1:])


def _timed_out(driver: Driver) -> None:
    open_producer(driver, "slow", "slow-app", transaction_timeout_ms="1000")
    _turn(driver, "slow", None, 1)
    wait_for_end(driver, "slow-app")
    driver.refused("commit", name="slow")
    driver.call("close_producer", name="slow")
    open_producer(driver, "slow again", "slow-app")
    _turn(driver, "slow again", "commit", 1)


def _fenced(driver: Driver) -> None:
    """A zombie with offsets under way, and its successor that does the same work."""
    open_producer(driver, "fenced", "fenced-app")
    _turn(driver, "fenced", "commit", 1)
    _turn(driver, "fenced", None, 2)
    open_producer(driver, "fenced successor", "fenced-app")
    _turn(driver, "fenced successor", "commit", 2)
    driver.refused("send", name="fenced", topic="output", partition=0, records=records("zombie", 1))
    driver.call("close_producer", name="fenced")


def _hanging(stage: Stage) -> None:
    """A write and offsets of a group that arrive after the end of their transaction: no marker will ever follow."""
    driver = stage.driver
    open_producer(driver, "late", "late-app")
    _turn(driver, "late", "commit", 1)
    wait_for_markers(driver)
    set_broker(stage, transaction_partition_verification_enable="false")
    last = producer_of(driver, "late-app")
    late = {
        "transactional_id": "late-app",
        "producer_id": last["producer_id"],
        "producer_epoch": last["producer_epoch"],
    }
    # Where every transaction has an epoch of its own (transaction.version 2) sequences start again at 0.
    sequence = 0 if last["producer_epoch"] else 1 + _OUTPUTS[-1]
    write = {"topic": "output", "partition": _OUTPUTS[-1], "sequence": sequence, "records": records("late", 2)}
    _wherever(stage, "raw_produce", **late, **write)
    _wherever(stage, "raw_offsets", **late, group="late", topic="input", offsets={"0": 7})
    set_broker(stage, transaction_partition_verification_enable="true")
    for outcome in ("abort", "commit"):
        _turn(driver, "shipping", outcome, 7)


def _wherever(stage: Stage, operation: str, **arguments: object) -> None:
    """Send a raw request to each broker, until the one that leads has taken it."""
    answers = []
    for node in stage.cluster.nodes:
        answers = stage.driver.call(operation, server=node.listener, **arguments)
        stage.driver.journal[-1] += f"  -> {answers}"
        if answers == ["NONE"]:
            return
    raise LabError(f"{operation} was not taken: {answers}")


def _pending(driver: Driver) -> None:
    """Open when the brokers stop: the group has older offsets, which cannot be fetched as stable."""
    open_producer(driver, "pending", "pending-app", transaction_timeout_ms="900000")
    _turn(driver, "pending", "commit", 3)
    _turn(driver, "pending", None, 5, _OUTPUTS[:2])


def _unstable(driver: Driver) -> dict[str, list[str]]:
    """By group, the input partitions for which the broker returns no stable offset."""
    unstable = {group: [n for n in _INPUTS if not _is_stable(driver, group, n)] for group in driver.ask("list_groups")}
    return {group: [f"input-{number}" for number in numbers] for group, numbers in unstable.items() if numbers}


def _is_stable(driver: Driver, group: str, partition: int) -> bool:
    stable: bool = driver.ask("is_stable", group=group, topic="input", partition=partition)
    return stable


SCENARIOS = [
    Scenario(
        name="consume-transform-produce",
        kafka="4.4.0",
        shows=f"Three brokers, transaction.version 2: {_STORIES}.",
        play=play,
        config={**_CONFIG, **_REPLICATED},
        nodes=3,
        format_options=("--feature", "transaction.version=2"),
    ),
    Scenario(
        name="consume-transform-produce-v1",
        kafka="4.4.0",
        shows="The same by one broker with transaction.version 1.",
        play=play,
        config=_CONFIG,
        format_options=("--feature", "transaction.version=1"),
    ),
    Scenario(
        name="consume-transform-produce-3.9",
        kafka="3.9.1",
        shows="The same by one broker of 3.9.1, with the protocol of 0.11 to 3.9.",
        play=play,
        config=_CONFIG,
    ),
]
