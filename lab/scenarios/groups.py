"""Groups of every kind, and what their coordinators write."""

from lab.driver import Driver, records
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer

_CLASSIC = {"group.protocol": "classic", "session.timeout.ms": "45000", "heartbeat.interval.ms": "500"}
_CONSUMER = {"group.protocol": "consumer"}
_COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def play(stage: Stage) -> None:
    """Simple commits, classic groups, groups of the consumer protocol, and one that changes from one to the other."""
    driver = stage.driver
    _topics(driver)
    _simple_commits(driver)
    _classic(driver)
    _consumer_protocol(driver)
    _regex(driver)
    _upgraded(driver)
    _deleted(driver)


def _topics(driver: Driver) -> None:
    driver.call("create_topic", name="orders", partitions=3)
    driver.call("create_topic", name="orders-europe")
    open_producer(driver, "p")
    for partition in range(3):
        driver.send("p", "orders", records(f"order {partition}", 4), partition)
    driver.send("p", "orders-europe", records("europe", 2))


def _join(driver: Driver, name: str, group: str, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    driver.call("consumer", name=name, config={"group.id": group, "client.id": name, **settings})


def _poll(driver: Driver, *names: str, milliseconds: int = 3000) -> None:
    driver.call("poll", names=list(names), milliseconds=milliseconds)


def _commit(driver: Driver, *names: str) -> None:
    for name in names:
        driver.call("commit_offset", name=name)


def _simple_commits(driver: Driver) -> None:
    """Offsets without members: given by hand, with and without metadata and leader epoch, altered and deleted."""
    _join(driver, "simple", "simple")
    driver.call("assign", name="simple", topic="orders", partition=0)
    driver.call("commit_offset", name="simple", topic="orders", partition=0, offset=2, metadata="by hand, größe 世界")
    driver.call("commit_offset", name="simple", topic="orders", partition=1, offset=3, metadata="", leader_epoch=0)
    driver.call("commit_offset", name="simple", topic="orders", partition=0, offset=4, metadata="x" * 200)
    driver.call("alter_group_offset", group="simple", topic="orders", partition=2, offset=1, metadata="altered")
    driver.call("alter_group_offset", group="simple", topic="orders-europe", partition=0, offset=0, metadata="")
    driver.call("delete_group_offset", group="simple", topic="orders", partition=1)


def _classic(driver: Driver) -> None:
    """Two members, one of them static; one leaves, one stays."""
    _join(driver, "classic-1", "classic", **_CLASSIC)
    _join(driver, "classic-2", "classic", group_instance_id="classic-static", **_CLASSIC)
    for name in ("classic-1", "classic-2"):
        driver.call("subscribe", name=name, topics=["orders"])
    _poll(driver, "classic-1", "classic-2")
    _commit(driver, "classic-1", "classic-2")
    driver.call("close_consumer", name="classic-1")
    _poll(driver, "classic-2")
    _commit(driver, "classic-2")
    _join(driver, "sticky", "classic-cooperative", partition_assignment_strategy=_COOPERATIVE, **_CLASSIC)
    driver.call("subscribe", name="sticky", pattern="orders.*")
    _poll(driver, "sticky")
    _commit(driver, "sticky")


def _consumer_protocol(driver: Driver) -> None:
    """Three members of a group of KIP-848, one static, with an assignor and racks; reconciliation and a return."""
    configs = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "5000"}
    driver.call("alter_config", type="GROUP", name="modern", configs=configs)
    for number in (1, 2):
        _join(driver, f"modern-{number}", "modern", client_rack=f"rack-{number}", **_CONSUMER)
        driver.call("subscribe", name=f"modern-{number}", topics=["orders", "orders-europe", "not-there-yet"])
        _poll(driver, *(f"modern-{each}" for each in range(1, number + 1)))
    _commit(driver, "modern-1", "modern-2")
    _join(driver, "static", "modern", group_instance_id="modern-static", group_remote_assignor="range", **_CONSUMER)
    driver.call("subscribe", name="static", topics=["orders"])
    _poll(driver, "modern-1", "modern-2", "static", milliseconds=8000)
    driver.call("close_consumer", name="static")
    driver.call("close_consumer", name="modern-2")
    _poll(driver, "modern-1", milliseconds=6000)
    _join(driver, "static again", "modern", group_instance_id="modern-static", **_CONSUMER)
    driver.call("subscribe", name="static again", topics=["orders"])
    driver.call("create_topic", name="not-there-yet")
    _poll(driver, "modern-1", "static again", milliseconds=8000)
    _commit(driver, "modern-1", "static again")


def _regex(driver: Driver) -> None:
    _join(driver, "regex", "regex", **_CONSUMER)
    driver.call("subscribe", name="regex", regex="orders-.*")
    _poll(driver, "regex")
    _commit(driver, "regex")


def _upgraded(driver: Driver) -> None:
    """A member of the consumer protocol joins a classic group, which thereby becomes the other kind."""
    _join(driver, "old", "upgraded", partition_assignment_strategy=_COOPERATIVE, **_CLASSIC)
    driver.call("subscribe", name="old", topics=["orders"])
    _poll(driver, "old")
    _commit(driver, "old")
    _join(driver, "new", "upgraded", **_CONSUMER)
    driver.call("subscribe", name="new", topics=["orders"])
    _poll(driver, "old", "new", milliseconds=8000)
    _commit(driver, "old", "new")


def _deleted(driver: Driver) -> None:
    """Groups that are gone: tombstones for all they had."""
    for group, protocol in (("classic-deleted", _CLASSIC), ("modern-deleted", _CONSUMER)):
        _join(driver, group, group, **protocol)
        driver.call("subscribe", name=group, topics=["orders"])
        _poll(driver, group)
        _commit(driver, group)
        driver.call("close_consumer", name=group)
        driver.call("delete_group", group=group)


def play_share(stage: Stage) -> None:
    """Share groups: every acknowledgement, snapshots of the state, offsets moved and deleted, groups deleted."""
    driver = stage.driver
    _topics(driver)
    for group in ("share", "share-altered", "share-deleted"):
        configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
        driver.call("alter_config", type="GROUP", name=group, configs=configs)
    _share(driver, "share", 12, ["ACCEPT", "RELEASE", "REJECT", "ACCEPT"])
    driver.send("p", "orders", records("order later", 6), 0)
    _share(driver, "share", 8, ["ACCEPT"])
    _share(driver, "share-altered", 3, ["REJECT"])
    driver.call("close_share_consumer", name="share-altered 3")
    driver.call("alter_share_group_offset", group="share-altered", topic="orders", partition=1, offset=2)
    driver.call("delete_share_group_offset", group="share-altered", topic="orders")
    _share(driver, "share-deleted", 4, ["ACCEPT"])
    driver.call("close_share_consumer", name="share-deleted 4")
    driver.call("delete_share_group", group="share-deleted")
    driver.call("share_consumer", name="holds", config={"group.id": "share-altered"}, topics=["orders-europe"])
    driver.call("share_poll", name="holds", records=1, acknowledge=["RENEW"], milliseconds=5000)


def _share(driver: Driver, group: str, count: int, acknowledgements: list[str]) -> None:
    name = f"{group} {count}"
    driver.call("share_consumer", name=name, config={"group.id": group, "client.id": name}, topics=["orders"])
    taken = driver.call("share_poll", name=name, records=count, acknowledge=acknowledgements)
    driver.journal.append(f"  -> {taken}")


def play_streams(stage: Stage) -> None:
    """Two members of a streams group with a subtopology that repartitions and keeps state; one leaves."""
    driver = stage.driver
    _topics(driver)
    driver.call("create_topic", name="counts", partitions=2)
    driver.call("alter_config", type="GROUP", name="counting", configs={"streams.session.timeout.ms": "50000"})
    for name in ("streams-1", "streams-2"):
        driver.call("streams", name=name, application="counting", input="orders", output="counts")
        driver.call("wait_for_streams", name=name)
    driver.send("p", "orders", records("order later", 6), 1)
    driver.call("pause", milliseconds=3000)
    driver.call("close_streams", name="streams-1")
    driver.call("pause", milliseconds=3000)


SCENARIOS = [
    Scenario(
        name="groups",
        kafka="4.4.0",
        shows=(
            "`__consumer_offsets`: simple commits with metadata, classic groups (static member, cooperative),"
            " groups of the consumer protocol (static members, regular expression, assignors), one changed"
            " online, offsets and groups deleted."
        ),
        play=play,
    ),
    Scenario(
        name="share-groups",
        kafka="4.4.0",
        shows=(
            "`__share_group_state` with snapshots and updates, and the share group records of"
            " `__consumer_offsets`: records accepted, released and rejected; offsets altered and"
            " deleted; a group deleted."
        ),
        play=play_share,
        config={"share.coordinator.snapshot.update.records.per.snapshot": "2"},
    ),
    Scenario(
        name="streams-group",
        kafka="4.4.0",
        shows="Streams group records of `__consumer_offsets`: topology, members, tasks; Kafka Streams' own topics.",
        play=play_streams,
        config={"group.streams.initial.rebalance.delay.ms": "0"},
    ),
    Scenario(
        name="groups-4.0",
        kafka="4.0.2",
        shows="The same as `groups` by a release that still wrote partition metadata, and offsets without topic ids.",
        play=play,
    ),
]
