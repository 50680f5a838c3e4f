"""The metadata log of KRaft: a record of nearly every type, segments, snapshots, and their end."""

import time

from lab.broker import Cluster, free_port
from lab.driver import Driver, records
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer

_CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
    "delegation.token.secret.key": "not-a-secret",
    "metadata.log.max.record.bytes.between.snapshots": "2500",
}
_KAFKA_4_CONFIG = {
    "internal.metadata.log.segment.bytes": "3000",
    "internal.metadata.delete.delay.millis": "3600000",
    "metadata.max.retention.bytes": "8000",
}
_CLEANER_SECONDS = 90
_SECRET = "70617373776f7264"  # noqa: S105
_SALT = "73616c742d666f722d746865"


def play(stage: Stage) -> None:
    """Upgrade step by step and leave every kind of record on the way."""
    driver = stage.driver
    modern = stage.scenario.kafka.startswith("4")
    _topics(driver)
    _acls(driver)
    _quotas(driver)
    _features(driver, ((21, "metadata.version"),) if not modern else _MODERN_FEATURES)
    _scram(driver)
    _tokens(stage)
    _configs(driver, modern)
    stage.restart()
    _topics_again(driver, modern)
    if modern:
        _wait_for_cleaner(stage)


_MODERN_FEATURES = (
    (24, "metadata.version"),
    (30, "metadata.version"),
    (33, "metadata.version"),
    (1, "group.version"),
    (1, "transaction.version"),
    (2, "transaction.version"),
    (1, "share.version"),
    (2, "share.version"),
    (1, "streams.version"),
    (1, "eligible.leader.replicas.version"),
)


def _topics(driver: Driver) -> None:
    driver.call("create_topic", name="kept", partitions=3, configs={"retention.ms": "3600000"})
    driver.call("create_topic", name="removed")
    driver.call("add_partitions", name="kept", partitions=4)
    driver.call("delete_topic", name="removed")
    open_producer(driver, "p")
    driver.send("p", "kept", records("kept", 2))


def _acls(driver: Driver) -> None:
    entries = (
        ("TOPIC", "kept", "LITERAL", "User:alice", "READ", "ALLOW"),
        ("TOPIC", "ke", "PREFIXED", "User:bob", "WRITE", "DENY"),
        ("GROUP", "*", "LITERAL", "User:*", "DESCRIBE", "ALLOW"),
        ("CLUSTER", "kafka-cluster", "LITERAL", "User:carol", "ALTER_CONFIGS", "ALLOW"),
        ("TRANSACTIONAL_ID", "pay", "PREFIXED", "User:dave", "ALL", "ALLOW"),
        ("DELEGATION_TOKEN", "token", "LITERAL", "User:erin", "DESCRIBE", "ALLOW"),
        ("USER", "User:alice", "LITERAL", "User:frank", "CREATE_TOKENS", "ALLOW"),
    )
    for resource, name, pattern, principal, operation, permission in entries:
        acl = {"resource": resource, "name": name, "pattern": pattern, "principal": principal, "host": "*"}
        driver.call("create_acl", **acl, permission_to=operation, permission=permission)
        if resource == "CLUSTER":
            driver.call("delete_acl", **acl, permission_to=operation, permission=permission)


def _quotas(driver: Driver) -> None:
    for entity, key, value in (
        ({"user": "alice"}, "producer_byte_rate", 1024),
        ({"user": "alice", "client-id": "app"}, "consumer_byte_rate", 2048),
        ({"user": None}, "request_percentage", 5000),
        ({"client-id": None}, "consumer_byte_rate", 1000000),
        ({"user": "bob"}, "controller_mutation_rate", 0.1),
        ({"ip": "127.0.0.9"}, "connection_creation_rate", 10),
        ({"user": "alice"}, "producer_byte_rate", None),
    ):
        driver.call("alter_quota", entity=entity, key=key, value=value)


def _features(driver: Driver, levels: tuple[tuple[int, str], ...]) -> None:
    for level, name in levels:
        driver.call("update_feature", name=name, level=level)


def _scram(driver: Driver) -> None:
    for user, mechanism in (("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512"), ("bob", "SCRAM-SHA-256")):
        driver.call("upsert_scram", user=user, mechanism=mechanism, password=_SECRET, salt=_SALT, iterations=4096)
    driver.call("delete_scram", user="bob", mechanism="SCRAM-SHA-256")


def _tokens(stage: Stage) -> None:
    """Tokens are given to users who have shown who they are, so over SASL."""
    driver = stage.driver
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="password";'
    config = {
        "bootstrap.servers": stage.cluster.node(1).config["lab.sasl.listener"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
    }
    driver.call("admin", name="alice", config=config)
    driver.journal[-1] = "admin name=alice, over SASL_PLAINTEXT with PLAIN"
    tokens = [driver.call("create_token", admin="alice") for _ in range(2)]
    # The broker learns of a token from the metadata log, a moment after the controller has answered.
    time.sleep(2)
    driver.ask("expire_token", admin="alice", hmac=tokens[0])
    stage.note("expire_token of the first")


def _configs(driver: Driver, modern: bool) -> None:
    driver.call("alter_config", type="TOPIC", name="kept", configs={"max.message.bytes": "9999", "retention.ms": None})
    driver.call("alter_config", type="BROKER", name="", configs={"log.retention.ms": "999999999"})
    driver.call("alter_config", type="BROKER", name="1", configs={"max.connections": "500"})
    driver.call("alter_config", type="BROKER", name="1", configs={"max.connections": None})
    metrics = {"interval.ms": "60000", "metrics": "org.apache.kafka.producer", "match": "client_id=app.*"}
    driver.call("alter_config", type="CLIENT_METRICS", name="producers", configs=metrics)
    if modern:
        driver.call("alter_config", type="GROUP", name="some-group", configs={"consumer.session.timeout.ms": "50000"})
        driver.call("alter_config", type="TOPIC", name="kept", configs={"min.insync.replicas": "1"})


def _topics_again(driver: Driver, modern: bool) -> None:
    """Enough for some more snapshots; some of them hold what has gone before."""
    for number in range(5):
        driver.call("create_topic", name=f"later-{number}", partitions=3, configs={"retention.ms": "7200000"})
    for number in range(3):
        driver.call("delete_topic", name=f"later-{number}")
    if modern:
        driver.call("update_feature", name="transaction.version", level=1, type="SAFE_DOWNGRADE")


def _wait_for_cleaner(stage: Stage) -> None:
    """Once a minute the metadata log drops what is covered by snapshots."""
    stage.note("wait for the cleaner of the metadata log")
    folder = stage.cluster.node(1).data / "__cluster_metadata-0"
    deadline = time.monotonic() + _CLEANER_SECONDS
    while time.monotonic() < deadline and not list(folder.glob("*.checkpoint.deleted")):
        time.sleep(0.5)


def _add_sasl(cluster: Cluster) -> list[str]:
    for node in cluster.nodes:
        sasl = f"127.0.0.1:{free_port()}"
        login = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            ' username="lab" password="lab" user_alice="password" user_lab="lab";'
        )
        node.config["listeners"] += f",SASL://{sasl}"
        node.config["advertised.listeners"] += f",SASL://{sasl}"
        node.config["listener.security.protocol.map"] += ",SASL:SASL_PLAINTEXT"
        node.config["sasl.enabled.mechanisms"] = "PLAIN"
        node.config["listener.name.sasl.plain.sasl.jaas.config"] = login
        node.config["lab.sasl.listener"] = sasl
    return []


def _make_dynamic(cluster: Cluster) -> list[str]:
    """A quorum whose voters stand in the log itself (kraft.version 1)."""
    _add_sasl(cluster)
    for node in cluster.nodes:
        del node.config["controller.quorum.voters"]
        node.config["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{cluster.nodes[0].controller_port}"
    return ["--standalone"]


SCENARIOS = [
    Scenario(
        name="cluster-metadata",
        kafka="4.4.0",
        shows=(
            "`__cluster_metadata-0` of a dynamic quorum, formatted as 3.9 and upgraded to 4.4: topics,"
            " configurations, quotas, SCRAM credentials, ACLs, delegation tokens, features, a restart; small"
            " segments, snapshots (`.checkpoint`), and those the cleaner has marked for deletion."
        ),
        play=play,
        config={**_CONFIG, **_KAFKA_4_CONFIG},
        format_options=("--release-version", "3.9-IV0"),
        prepare=_make_dynamic,
    ),
    Scenario(
        name="cluster-metadata-3.9",
        kafka="3.9.1",
        shows="The same by 3.9.1 with a static quorum, formatted as 3.3 and upgraded: older record versions.",
        play=play,
        config=_CONFIG,
        format_options=("--release-version", "3.3-IV3"),
        prepare=_add_sasl,
    ),
]
