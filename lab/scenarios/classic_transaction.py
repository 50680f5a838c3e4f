"""The classic lab of the field: one transactional producer, one record, COMMIT."""

from lab.driver import record
from lab.scenario import Scenario, Stage


def play(stage: Stage) -> None:
    """One record at offset 0, its COMMIT marker at offset 1."""
    driver = stage.driver
    driver.call("create_topic", name="classic", partitions=1)
    driver.call("producer", name="p", config={"transactional.id": "classic-producer"})
    driver.call("init_transactions", name="p")
    driver.call("begin", name="p")
    driver.send("p", "classic", [record("key", "value")])
    driver.call("commit", name="p")


SCENARIOS = [
    Scenario(
        name="classic-transaction",
        kafka="4.4.0",
        shows="The classic lab of the field: one transactional producer, one record, COMMIT.",
        play=play,
    )
]
