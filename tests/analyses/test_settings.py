"""Settings: what a user gives comes first, then the metadata log, then what the files prove, then Kafka's defaults."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.analyses.settings import given_settings, rules_for
from kforensics.errors import UsageError
from kforensics.forensics.core.broker_settings import (
    DEFAULT,
    EARLIER,
    KNOWN,
    MAX_TIMEOUT,
    PRODUCER_EXPIRY,
    Setting,
    default_setting,
)
from kforensics.forensics.core.rules import DAY_MS, Rules
from tests.command import ROOT, SAMPLES, run
from tests.forensics.partition_states import partitions_under

TRANSACTIONS = SAMPLES / "transactions-v2"
METADATA = SAMPLES / "cluster-metadata"
DATA = ROOT / "tests" / "data"
PLACES = [(log_dir, topic) for log_dir in ("/one", "/two") for topic in ("t", "u")]


def _given(*assignments: str, file: str | None = None) -> dict[str, str]:
    return {setting.name: setting.value for setting in reversed(given_settings(assignments, file))}


def test_a_setting_is_a_name_and_a_value() -> None:
    assert _given("transaction.max.timeout.ms=3600000", "cleanup.policy=compact,delete", "retention.ms=-1") == {
        "transaction.max.timeout.ms": "3600000",
        "cleanup.policy": "compact,delete",
        "retention.ms": "-1",
    }


def test_a_boolean_is_read_as_kafka_does() -> None:
    assert _given("unclean.leader.election.enable= TRUE ", "transaction.partition.verification.enable=false") == {
        "unclean.leader.election.enable": "true",
        "transaction.partition.verification.enable": "false",
    }


def test_the_last_of_several_values_counts() -> None:
    assert _given("retention.ms=1", "retention.ms=2") == {"retention.ms": "2"}


INVALID = {
    "transaction.max.timeout.ms=1h": "'1h' is not an integer from 1 to 2147483647",
    "transaction.max.timeout.ms=0": "'0' is not an integer from 1",
    "transaction.max.timeout.ms=2147483648": "is not an integer",
    "transaction.max.timeout.ms=": "'' is not an integer",
    "transaction.max.timeout.m=1": "did you mean transaction.max.timeout.ms?",
    "color=blue": "the settings that count are transaction.max.timeout.ms",
    "cleanup.policy=burn": "'burn' is not a list of compact, delete",
    "unclean.leader.election.enable=yes": "'yes' is not one of true, false",
    "transaction.state.log.replication.factor=40000": "is not an integer from 1 to 32767",
    "=1": "write NAME=VALUE",
    "retention.ms": "write NAME=VALUE",
}


@pytest.mark.parametrize(("assignment", "says"), INVALID.items())
def test_a_wrong_setting_is_refused_with_a_sentence(assignment: str, says: str) -> None:
    answer = run("lso", TRANSACTIONS, "--set", assignment)
    assert (answer.code, answer.out) == (2, b"")
    assert says in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["audit", "lso", "producers", "scan", "transactions", "verify", "duplicates", "keys"]
)
def test_every_command_on_partitions_takes_settings(command: str) -> None:
    answer = run(command, TRANSACTIONS, "--set", "transaction.max.timeout.ms=1h")
    assert (answer.code, answer.out) == (2, b"")


PROPERTIES = r"""
# comment=1
! transaction.max.timeout.ms=1
broker.id = 7
transaction.max.timeout.ms : 360\
    0000
producer.id.expiration.ms=1000
producer.id.expiration.ms=5000
log.retention.hours=1
log.retention.minutes=5
listeners=PLAINTEXT://:9092
sasl.jaas.config=secret
"""


def test_a_file_of_properties_is_read_as_java_does(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES)
    assert _given(file=str(path)) == {
        "transaction.max.timeout.ms": "3600000",
        "producer.id.expiration.ms": "5000",
        "retention.ms": "300000",
    }
    assert _given("producer.id.expiration.ms=6000", file=str(path))["producer.id.expiration.ms"] == "6000"


@pytest.mark.parametrize("text", ["producer.id.expiration.ms=1d", "\0\0\0"])
def test_a_file_that_no_broker_would_accept_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(text)
    with pytest.raises(UsageError, match="--server-properties"):
        given_settings((), str(path))
    with pytest.raises(UsageError, match="there is no such file"):
        given_settings((), str(tmp_path / "nothing"))


def _rules(folder: Path, *given: Setting) -> Rules:
    return rules_for(Rules(0), given, partitions_under(folder))


def test_the_metadata_log_has_settings_of_topics_and_the_partition_counts() -> None:
    rules = _rules(TRANSACTIONS)
    of_topics = {(setting.entity, setting.name): setting.value for setting in rules.topic_settings}
    assert of_topics["topic __transaction_state", "cleanup.policy"] == "compact"
    counts = {setting.name: setting.value for setting in rules.settings}
    assert counts["transaction.state.log.num.partitions"] == "1"
    configured = (setting for setting in rules.topic_settings if not setting.is_default)
    assert {setting.source.split(",")[0] for setting in configured} == {"metadata log"}


def test_the_topics_of_coordinators_show_with_how_many_replicas_they_were_created() -> None:
    """The brokers of the lab have one replica and ``min.isr`` 1, those of the elections three replicas of offsets."""
    metadata_log = "metadata log, "
    rows = {row["name"]: (row["value"], row["source"]) for row in _in_force(TRANSACTIONS) if row["topic"] is None}
    assert rows["transaction.state.log.replication.factor"] == (
        "1",
        f"{metadata_log}PartitionRecord of __transaction_state",
    )
    assert rows["transaction.state.log.min.isr"] == ("1", f"{metadata_log}min.insync.replicas of __transaction_state")
    elections = _in_force(SAMPLES / "unclean-election")
    values = {(row["name"], row["topic"]): row["value"] for row in elections}
    assert values["offsets.topic.replication.factor", None] == "3"
    assert values["transaction.state.log.replication.factor", None] == "3"
    assert values["unclean.leader.election.enable", "lossy"] == "true"
    assert values["unclean.leader.election.enable", None] == "false"


def test_the_file_of_a_broker_has_the_defaults_of_topics_under_the_same_name(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("min.insync.replicas=2\nunclean.leader.election.enable=true\n")
    given = _given(file=str(properties))
    assert given == {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}


def test_a_broker_has_its_settings_and_the_others_have_the_default() -> None:
    here = Setting(PRODUCER_EXPIRY, "4000", "metadata log, broker 1", "broker 1", frozenset({"/one"}))
    rules = Rules(0, settings=(here,))
    one, two = rules.at("/one"), rules.at("/two")
    assert (one.pid_expiry_ms, one.source(PRODUCER_EXPIRY)) == (4000, here.source)
    assert (two.pid_expiry_ms, two.is_default(PRODUCER_EXPIRY)) == (DAY_MS, True)


def test_a_given_value_counts_before_one_of_the_metadata() -> None:
    settings = (Setting(MAX_TIMEOUT, "1", "--set"), Setting(MAX_TIMEOUT, "2", "metadata log"))
    assert Rules(0, settings=settings).at(None).evidence(MAX_TIMEOUT) == {
        "setting": MAX_TIMEOUT,
        "setting_value": 1,
        "setting_source": "--set",
    }


def test_the_longest_transactions_of_several_brokers_count() -> None:
    settings = (
        Setting(MAX_TIMEOUT, "3600000", "metadata log", log_dirs=frozenset({"/one"})),
        Setting(MAX_TIMEOUT, "1000", "metadata log", log_dirs=frozenset({"/two"})),
    )
    assert Rules(0, settings=settings).across(["/two", "/one"]).max_txn_timeout_ms == 3_600_000


def test_a_timeout_above_the_default_proves_a_larger_maximum(tmp_path: Path) -> None:
    """The maximum that is given is smaller here, as if a transaction had a longer timeout than it allows."""
    longest = 900_000
    short = Setting(MAX_TIMEOUT, "60000", DEFAULT)
    (proven,) = (one for one in _rules(TRANSACTIONS, short).settings if one.source.startswith("proof"))
    assert (proven.name, proven.value) == (MAX_TIMEOUT, str(longest))
    assert all(not one.source.startswith("proof") for one in _rules(TRANSACTIONS).settings)


def test_a_topic_that_was_deleted_has_no_settings(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(SAMPLES / "deletion", tmp_path / "copy"))
    kept = {setting.entity for setting in _rules(copy).topic_settings}
    assert "topic topic-deleted" not in kept


def test_the_table_has_a_row_for_each_setting() -> None:
    rows = run("audit", TRANSACTIONS, "--format", "ndjson", "--fail-on", "never").rows("settings")
    assert {row["name"] for row in rows} == set(KNOWN)
    (timeout,) = (row for row in rows if row["name"] == MAX_TIMEOUT)
    assert (timeout["value"], timeout["source"], timeout["entity"]) == ("900000", DEFAULT, None)


def test_a_longer_maximum_makes_no_transaction_late() -> None:
    """Idle for an hour: late by the default, and not where transactions may last for two hours."""
    words = ["audit", TRANSACTIONS, "--as-of", "2026-11-21T14:00", "--format", "ndjson", "--fail-on", "never"]
    late = [row for row in run(*words).rows("findings") if row["code"] in ("txn-late", "lso-stuck")]
    assert {'"setting_source": "Kafka\'s default"' in row["evidence"] for row in late} == {True}
    allowed = run(*words, "--set", "transaction.max.timeout.ms=7200000").rows("findings")
    assert not [row for row in allowed if row["code"] in ("txn-late", "lso-stuck")]


def test_a_topic_counts_before_the_default_of_the_brokers() -> None:
    rows = run("audit", METADATA, "--format", "ndjson", "--fail-on", "never").rows("settings")
    values = [(row["entity"], row["value"], row["source"]) for row in rows if row["name"] == "retention.ms"]
    assert values[-2:] == [
        (None, "999999999", "metadata log, default of the brokers"),
        (None, "604800000", DEFAULT),
    ]
    assert {entity for entity, *_ in values[:-2]} == {"topic later-3", "topic later-4"}


HANGING = TRANSACTIONS / "broker-1" / "hanging-0"
LATER_MS = 1795269600000


def test_functions_take_settings_as_commands_do(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("transaction.max.timeout.ms=7200000\nproducer.id.expiration.ms=5000\n")
    given: dict[str, str | int] = {"producer.id.expiration.ms": 6000, "retention.ms": "-1"}
    rows = kforensics.audit(HANGING, as_of=LATER_MS, settings=given, server_properties=path).tables["settings"]
    values = {row["name"]: (row["value"], row["source"]) for row in reversed(rows.to_pylist())}
    assert values["producer.id.expiration.ms"] == ("6000", "settings")
    assert values["transaction.max.timeout.ms"] == ("7200000", str(path))
    assert values["retention.ms"] == ("-1", "settings")


def test_a_function_uses_what_is_around_unless_it_is_told_not_to() -> None:
    def sources(*, alone: bool) -> set[str]:
        rows = kforensics.audit(HANGING, as_of=LATER_MS, alone=alone).tables["settings"].to_pylist()
        return {row["source"].split(",")[0] for row in rows}

    assert "metadata log" in sources(alone=False)
    assert "metadata log" not in sources(alone=True)


FUNCTIONS: dict[str, dict[str, int]] = {
    "audit": {},
    "duplicates": {},
    "explain": {"offset": 0},
    "keys": {},
    "lso": {},
    "producers": {},
    "scan": {},
    "transactions": {},
    "verify": {},
}


@pytest.mark.parametrize(("function", "more"), FUNCTIONS.items(), ids=FUNCTIONS)
def test_every_function_on_partitions_refuses_a_wrong_setting(function: str, more: dict[str, int]) -> None:
    call = getattr(kforensics, function)
    with pytest.raises(UsageError, match=r"settings\['transaction.max.timeout.ms'\]: '1h' is not an integer"):
        call(HANGING, settings={"transaction.max.timeout.ms": "1h"}, **more)
    with pytest.raises(UsageError, match="there is no such file"):
        call(HANGING, server_properties="nothing/server.properties", **more)
    with pytest.raises(TypeError, match=f"^{function} has no parameter as_off; did you mean as_of"):
        call(HANGING, as_off=0, **more)


def test_the_metadata_log_shows_the_release_and_so_the_defaults() -> None:
    rows = {(row["name"], row["value"], row["source"]) for row in _settings_of(TRANSACTIONS)}
    assert ("producer.id.expiration.ms", "86400000", "Kafka's default since 3.4") in rows
    assert ("message.timestamp.after.max.ms", "3600000", "Kafka's default since 4.0") in rows
    assert ("transaction.max.timeout.ms", "900000", DEFAULT) in rows
    of_3_9 = {(row["name"], row["value"], row["source"]) for row in _settings_of(SAMPLES / "transactions-v0")}
    assert ("message.timestamp.after.max.ms", "9223372036854775807", "Kafka's default before 4.0") in of_3_9


def test_the_release_is_not_that_of_a_broker_that_was_unregistered() -> None:
    """A broker of 3.9.1 was, before the others were upgraded to 4.1.1: ``kafka-configs.sh`` showed this value."""
    rows = {row["name"]: (row["value"], row["source"]) for row in _settings_of(DATA / "unregistered-broker")}
    assert rows["message.timestamp.after.max.ms"] == ("3600000", "Kafka's default since 4.0")


def test_without_a_metadata_log_the_release_is_unknown() -> None:
    """As under ZooKeeper; then the table has the newer default, and names both."""
    unknown = "; the release is unknown, before it was"
    sources = {row["name"]: row["source"] for row in _settings_of(SAMPLES / "rolling-restart")}
    assert sources["producer.id.expiration.ms"] == f"Kafka's default since 3.4{unknown} 604800000"
    assert sources["offsets.retention.minutes"] == f"Kafka's default since 2.0{unknown} 1440"


def test_earlier_releases_have_earlier_defaults() -> None:
    earlier = {name: default_setting(name, (1, 1)) for name in EARLIER}
    assert {name: setting.value for name, setting in earlier.items()} == {
        "producer.id.expiration.ms": "604800000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "60000",
        "offsets.retention.minutes": "1440",
        "max.message.bytes": "1000012",
        "message.timestamp.after.max.ms": "9223372036854775807",
        "transaction.partition.verification.enable": "false",
        "unclean.leader.election.enable": "false",
    }
    assert default_setting(PRODUCER_EXPIRY, (3, 3)).source == "Kafka's default before 3.4"
    assert default_setting(PRODUCER_EXPIRY, (3, 4)).value == str(DAY_MS)


def _settings_of(folder: Path) -> list[dict[str, Any]]:
    rows = kforensics.audit(folder).tables["settings"].to_pylist()
    return list(rows)


def test_a_given_partition_count_decides_where_a_transactional_id_belongs() -> None:
    """The topic has one partition; with fifty most ids would belong to others."""

    def wrong(*words: str) -> list[dict[str, Any]]:
        rows = run("audit", TRANSACTIONS, *words, "--format", "ndjson", "--fail-on", "never").rows("findings")
        return [row for row in rows if row["code"] == "txnlog-wrong-partition"]

    assert wrong() == []
    evidence = json.loads(wrong("--set", "transaction.state.log.num.partitions=50")[0]["evidence"])
    assert evidence["setting"] == "transaction.state.log.num.partitions"
    assert (evidence["setting_value"], evidence["setting_source"]) == (50, "--set")
    unknown = run(
        "explain", TRANSACTIONS, "--transactional-id", "no", "--set", "transaction.state.log.num.partitions=7"
    )
    assert "with 7 partitions its coordinator's log is __transaction_state-" in unknown.err


def test_the_partition_of_an_unknown_id_is_that_of_the_known_count() -> None:
    """Its metadata log says that the transaction log has one partition."""
    unknown = run("explain", TRANSACTIONS / "broker-1", "--transactional-id", "no-such")
    assert "with 1 partition its coordinator's log is __transaction_state-0" in unknown.err
    alone = run("explain", TRANSACTIONS / "broker-1" / "__transaction_state-0", "--transactional-id", "zzz", "--alone")
    assert "with the default of 50 partitions its coordinator's log is" in alone.err


def _in_force(*words: object) -> list[dict[str, Any]]:
    ended = run("settings", "--format", "ndjson", *words)
    assert ended.code == 0
    return ended.objects


def test_the_settings_in_force_are_those_of_an_audit_without_what_is_replaced() -> None:
    audited = kforensics.audit(TRANSACTIONS, as_of=LATER_MS).tables["settings"].to_pylist()
    in_force = kforensics.settings(TRANSACTIONS, as_of=LATER_MS).to_pylist()
    replaced = [row for row in audited if row not in in_force]
    assert [row for row in in_force if row not in audited] == []
    assert [(row["name"], row["value"], row["source"]) for row in replaced] == [
        ("transaction.partition.verification.enable", "true", f"{DEFAULT} since 3.6"),
        ("transaction.state.log.replication.factor", "3", DEFAULT),
        ("transaction.state.log.min.isr", "2", DEFAULT),
        ("transaction.state.log.num.partitions", "50", DEFAULT),
        ("offsets.topic.num.partitions", "50", DEFAULT),
        ("offsets.topic.replication.factor", "3", DEFAULT),
        ("min.insync.replicas", "1", DEFAULT),
    ]
    assert {row["name"] for row in in_force} == set(KNOWN)
    assert {row["meaning"] for row in in_force} == {known.meaning for known in KNOWN.values()}


def test_each_source_is_named(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.retention.hours=2\nlog.retention.bytes=7777\nproducer.id.expiration.ms=7000\n")
    words = ("--set", "producer.id.expiration.ms=5000", "--server-properties", properties, METADATA)
    values = {(row["name"], row["topic"]): (row["value"], row["source"]) for row in _in_force(*words)}
    assert values["producer.id.expiration.ms", None] == ("5000", "--set")
    assert values["retention.bytes", None] == ("7777", str(properties))
    assert values["retention.ms", None] == ("999999999", "metadata log, default of the brokers")
    assert values["max.message.bytes", "kept"] == ("9999", "metadata log, topic kept")
    assert values["max.message.bytes", None] == ("1048588", f"{DEFAULT} since 2.5")
    (proven,) = [row for row in _in_force(SAMPLES / "producer-expiry") if row["name"] == PRODUCER_EXPIRY]
    assert proven["source"].startswith("proof: ")


def test_what_was_set_dynamically_counts_before_the_file_of_a_broker(tmp_path: Path) -> None:
    """As in Kafka: topic, broker, default of the brokers, server.properties, and only then its own default."""
    properties = tmp_path / "server.properties"
    properties.write_text("message.max.bytes=8888\nlog.retention.ms=1000\nproducer.id.expiration.ms=7000\n")
    words = ("--server-properties", properties)
    values = {(row["name"], row["topic"]): row["value"] for row in _in_force(*words, METADATA)}
    assert (values["max.message.bytes", "kept"], values["max.message.bytes", None]) == ("9999", "8888")
    assert values["retention.ms", None] == "999999999"
    assert ("retention.ms", "later-3") in values
    file = str(properties)
    (expiry,) = [row for row in _in_force(*words, SAMPLES / "producer-expiry") if row["name"] == PRODUCER_EXPIRY]
    assert (expiry["value"], expiry["source"]) == ("7000", file)
    rules = _rules(METADATA, *given_settings(["retention.ms=5"], file)).at(str(METADATA / "broker-1"), "kept")
    assert rules.of_topic("retention.ms").source == "--set"
    assert rules.of_topic("max.message.bytes").value == "9999"


def test_a_topic_counts_before_its_broker_and_that_before_the_default_of_the_brokers() -> None:
    topic = Setting("retention.ms", "1", "metadata log, topic t", "topic t")
    broker = Setting("retention.ms", "2", "metadata log, broker 1", "broker 1", frozenset({"/one"}))
    rules = Rules(0, topic_settings=(topic, broker, Setting("retention.ms", "3", "metadata log")))
    found = {(log_dir, name): rules.at(log_dir, name).of_topic("retention.ms").value for log_dir, name in PLACES}
    assert found == {("/one", "t"): "1", ("/two", "t"): "1", ("/one", "u"): "2", ("/two", "u"): "3"}


def test_topics_select_their_settings_and_not_those_of_brokers() -> None:
    every, of_kept = _in_force(METADATA), _in_force("--topic", "kept", METADATA)
    assert {row["topic"] for row in every} == {None, "kept", "later-3", "later-4"}
    assert of_kept == [row for row in every if row["topic"] in (None, "kept")]


def test_brokers_with_values_of_their_own_are_shown_besides_the_value_for_all() -> None:
    rows = [row for row in _in_force(SAMPLES / "producer-expiry", TRANSACTIONS) if row["name"] == PRODUCER_EXPIRY]
    assert [(row["value"] == "86400000", Path(row["log_dirs"]).parent.name) for row in rows] == [
        (False, "producer-expiry"),
        (True, "transactions-v2"),
    ]
    text = run("settings", SAMPLES / "producer-expiry").text
    assert " for broker 1: proof: " in text


def test_a_long_list_of_values_is_cut(tmp_path: Path) -> None:
    limit = "kforensics.render.ids_text.LISTED"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit, 2)
        text = run("settings", "--as-of", "2026-11-21T12:15", METADATA).text
        complete = run("settings", "--as-of", "2026-11-21T12:15", "--all", METADATA).text
    assert "  … and 1 more value\n" in text
    assert text.endswith(f"$ kforensics settings --all --as-of 2026-11-21T12:15 {METADATA}\n")
    assert "… and" not in complete
    assert len(complete.splitlines()) == len(text.splitlines()) - 1


def test_the_settings_of_topics_come_first_for_a_topic() -> None:
    """In the text; rows have one order, as a table of several topics."""
    words = ("settings", "--quiet", "--topic", "kept", METADATA)
    names = [line for line in run(*words).lines if not line.startswith(" ")]
    assert names.index("cleanup.policy") < names.index("transaction.max.timeout.ms")
    everything = [line for line in run("settings", "--quiet", METADATA).lines if not line.startswith(" ")]
    assert everything.index("transaction.max.timeout.ms") < everything.index("cleanup.policy")
    assert {*names} == {*everything}
