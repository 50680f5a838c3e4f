"""The classic labs of the field: one transactional producer, one record, COMMIT."""

from lab.driver import record
from lab.legacy import build_legacy
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer
from lab.truth import wait_for_markers

_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_TOPIC = "lab"


def play(stage: Stage) -> None:
    """One record at offset 0, its COMMIT marker at offset 1."""
    driver = stage.driver
    driver.call("create_topic", name="classic", partitions=1)
    driver.call("producer", name="p", config={"transactional.id": "classic-producer"})
    driver.call("init_transactions", name="p")
    driver.call("begin", name="p")
    driver.send("p", "classic", [record("key", "value")])
    driver.call("commit", name="p")


def play_on_three(stage: Stage) -> None:
    """A plain record, a transaction with one, and one with offsets; what lies in the folders while they run and after.

    The plain record takes 78 bytes, so that the transaction begins at position 78.
    """
    driver = stage.driver
    for topic in (_TOPIC, "output"):
        driver.call("create_topic", name=topic, assignment=[[0, 1, 2]])
    open_producer(driver, "plain", enable_idempotence="true")
    driver.send("plain", _TOPIC, [record(None, "plain text")])
    open_producer(driver, "transactional", "lab-producer")
    driver.call("begin", name="transactional")
    driver.send("transactional", _TOPIC, [record("key", "value")])
    driver.call("commit", name="transactional")
    driver.call("begin", name="transactional")
    driver.send("transactional", "output", [record("key", "copied")])
    driver.call("send_offsets", name="transactional", topic=_TOPIC, partition=0, offset=2, group="copier")
    driver.call("commit", name="transactional")
    wait_for_markers(driver)
    files = {"running": _listed(stage), "stopped": dict[str, dict[str, int]]()}
    stage.extra_truth["files"] = files
    stage.after_stop.append(lambda: files["stopped"].update(_listed(stage)))


def _listed(stage: Stage) -> dict[str, dict[str, int]]:
    """The files of the topic with their sizes, as ``ls -l`` shows them, by broker."""
    folders = {node.data.name: node.data / f"{_TOPIC}-0" for node in stage.cluster.nodes}
    return {
        name: {path.name: path.stat().st_size for path in sorted(folder.iterdir())} for name, folder in folders.items()
    }


SCENARIOS = [
    Scenario(
        name="classic-transaction",
        kafka="4.4.0",
        shows="The classic lab of the field: one transactional producer, one record, COMMIT.",
        play=play,
    ),
    Scenario(
        name="classic-lab-2.7",
        kafka="2.7.2",
        nodes=3,
        shows=(
            "The classic lab on three brokers of 2.7.2: an idempotent record, one in a transaction, COMMIT; then a"
            " transaction with offsets. `truth.json` has what `ls` showed before and after the stop (`files`): the"
            " producer snapshot is written only then."
        ),
        play=play_on_three,
        config=_REPLICATED,
        build=build_legacy,
    ),
]
