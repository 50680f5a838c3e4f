"""Ten causes of "it read from the start again", one group each, and groups that look alike and are well."""

from dataclasses import replace

from lab.broker import make_cluster, running
from lab.driver import Driver, driving, records
from lab.scenario import Scenario, Stage, keep, workspace
from lab.scenarios.steps import open_producer
from lab.truth import take_truth

# The retention is the shortest there is; everything after the wait takes less, so that nothing else expires.
CONFIG = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
_EXPIRY_MS = 75_000
_CLASSIC = {"group.protocol": "classic", "heartbeat.interval.ms": "500"}
_CONSUMER = {"group.protocol": "consumer"}
_EXPIRED = ("expired", "expired-abandoned")
_TOPICS = ("orders", "recreated", "truncated", "retained")


def build(scenario: Scenario) -> None:
    """Groups read, lose their offsets in ten ways, and read again."""
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, config=scenario.config)
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        stage = Stage(scenario, cluster, driver)
        described = _play(stage)
        truth = take_truth(driver, scenario.kafka, records=False, described=True)
        truth |= {"described_before": described}
        cluster.stop()
    keep(scenario, f"../tests/data/group-resets/{scenario.kafka}", cluster, driver.journal, truth)


def _play(stage: Stage) -> dict[str, object]:
    driver = stage.driver
    for topic in _TOPICS:
        driver.call("create_topic", name=topic)
    open_producer(driver, "p")
    for topic in _TOPICS:
        for number in range(5):
            driver.send("p", topic, records(f"{topic} {number}", 2))
    for group in _EXPIRED:
        _session(driver, group, "orders", 10)
    if stage.scenario.kafka >= "4":
        _session(driver, "expired-modern", "orders", 10, protocol=_CONSUMER)
    described = {group: driver.ask("describe_group", group=group) for group in _EXPIRED}
    driver.call("pause", milliseconds=_EXPIRY_MS)
    _truncate(stage)
    _recreate(driver)
    _session(driver, "expired", "orders", 3, 9)
    if stage.scenario.kafka >= "4":
        _session(driver, "expired-modern", "orders", 4, protocol=_CONSUMER)
    _operators(driver)
    _clients(driver)
    _retention(driver)
    _look_alikes(driver)
    return described


def _session(
    driver: Driver, group: str, topic: str, *offsets: int, protocol: dict[str, str] = _CLASSIC, stay: bool = False
) -> None:
    """A member joins, commits these offsets of partition 0 one after the other, and leaves."""
    name = f"{group} of {topic}"
    driver.call("consumer", name=name, config={"group.id": group, "client.id": group, **protocol})
    driver.call("subscribe", name=name, topics=[topic])
    driver.call("poll", names=[name], milliseconds=1500 if protocol == _CLASSIC else 2500)
    for offset in offsets:
        driver.call("commit_offset", name=name, topic=topic, partition=0, offset=offset, metadata="", leader_epoch=0)
    if not stay:
        driver.call("close_consumer", name=name)


def _truncate(stage: Stage) -> None:
    """The last six records are lost with the broker down, as by an unclean election; the group has read them."""
    driver = stage.driver
    _session(driver, "truncated", "truncated", 10)
    stage.cluster.stop()
    folder = stage.cluster.node(1).data / "truncated-0"
    log = folder / "00000000000000000000.log"
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.truncate(size // 5 * 2)
    (stage.cluster.node(1).data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    stage.note("stop (SIGTERM); cut truncated-0 to its first two batches; delete .kafka_cleanshutdown; start")
    stage.cluster.start()
    _session(driver, "truncated", "truncated", 2, 4)


def _recreate(driver: Driver) -> None:
    _session(driver, "recreated", "recreated", 10)
    driver.call("delete_topic", name="recreated")
    driver.call("pause", milliseconds=1500)
    driver.call("create_topic", name="recreated")
    driver.send("p", "recreated", records("again", 6))
    _session(driver, "recreated", "recreated", 2, 6)


def _operators(driver: Driver) -> None:
    """Offsets deleted, a group deleted, offsets reset with the tool: all of groups without members."""
    _session(driver, "offsets-deleted", "orders", 10)
    driver.call("delete_group_offset", group="offsets-deleted", topic="orders", partition=0)
    _session(driver, "offsets-deleted", "orders", 2, 8)
    _session(driver, "group-deleted", "orders", 10)
    driver.call("delete_group", group="group-deleted")
    _session(driver, "group-deleted", "orders", 2, 8)
    _session(driver, "reset-by-tool", "orders", 10)
    driver.call("alter_group_offset", group="reset-by-tool", topic="orders", partition=0, offset=0, metadata="")
    _session(driver, "reset-by-tool", "orders", 10)


def _clients(driver: Driver) -> None:
    """A member, a consumer without membership and a transaction commit lower offsets than before."""
    _session(driver, "member", "orders", 10, 3, 7)
    driver.call("consumer", name="simple", config={"group.id": "simple", "client.id": "simple"})
    driver.call("assign", name="simple", topic="orders", partition=0)
    for offset in (10, 4):
        driver.call("commit_offset", name="simple", topic="orders", partition=0, offset=offset, leader_epoch=0)
    driver.call("close_consumer", name="simple")
    open_producer(driver, "t", "transaction")
    for offset in (10, 5):
        driver.call("begin", name="t")
        driver.send("t", "orders", records(f"out {offset}", 1))
        driver.call("send_offsets", name="t", group="transaction", topic="orders", offsets={"0": offset}, metadata="")
        driver.call("commit", name="t")


def _retention(driver: Driver) -> None:
    """The log start passes the committed offset of a group with a member and of one without."""
    for group in ("retained", "retained-abandoned"):
        _session(driver, group, "retained", 2, stay=group == "retained")
    driver.call("delete_records", topic="retained", partition=0, before=6)


def _look_alikes(driver: Driver) -> None:
    """A group that restarts and goes on where it was, one that lags, one deleted for good, one with the same again."""
    _session(driver, "well", "orders", 4)
    _session(driver, "well", "orders", 4, 8, stay=True)
    _session(driver, "lags", "orders", 1, stay=True)
    _session(driver, "deleted-for-good", "orders", 10)
    driver.call("delete_group", group="deleted-for-good")


_SHOWS = (
    "Groups that read from the start again: offset expired, deleted, group deleted, reset by the tool, by a member, by"
    " a consumer without membership, by a transaction, log truncated, topic recreated, records deleted by retention."
)
_SCENARIO = Scenario(name="group-resets", kafka="4.4.0", shows=_SHOWS, config=CONFIG, build=build)
SCENARIOS = [_SCENARIO, replace(_SCENARIO, name="group-resets-3.9", kafka="3.9.1")]
