"""Writes after the end of their transaction, and administrators who end transactions without their coordinator."""

from collections.abc import Callable
from random import Random
from typing import Any

from lab.broker import Cluster
from lab.driver import record
from lab.errors import LabError

Ask = Callable[..., Any]
_ID = "tx-late"
_OFFSETS_TOPIC = "__consumer_offsets"
# Their coordinator still owes a marker for each partition that it lists.
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


class LateWrites:
    """A producer that was paused, and the tools with which an operator mends what it left.

    Args:
        cluster: the brokers.
        ask: asks the driver; None stands for an error, which it notes.
        chance: decides.
    """

    def __init__(self, cluster: Cluster, ask: Ask, chance: Random) -> None:
        self._cluster = cluster
        self._ask = ask
        self._chance = chance

    def write(self) -> None:
        """Write a batch after the end of its transaction, as a producer that was paused meanwhile."""
        partition = self._chance.randrange(3)
        self._open()
        written = self._ask(
            "send", name="late", topic="plain", partition=partition, records=[record("late", "in time")]
        )
        known = self._end(written)
        server = self._leader("plain", partition)
        if known is not None and server is not None:
            place = {"topic": "plain", "partition": partition, "server": server}
            batch = [record("late", "too late")]
            sequence = self._chance.choice((0, 1))
            self._raw("raw_produce", **place, **known, sequence=sequence, records=batch, version=7)

    def commit_offsets(self) -> None:
        """Commit offsets of a group after the end of the transaction that they belong to."""
        self._open()
        place = {"group": "late-movers", "topic": "plain", "partition": 0, "metadata": ""}
        written = self._ask("send", name="late", topic="plain", partition=0, records=[record("late", "in time")])
        self._ask("send_offsets", name="late", **place, offset=1)
        known = self._end(written)
        # Only the coordinator of the group takes them; the others refuse.
        for node in self._cluster.nodes if known is not None else []:
            self._raw("raw_offsets", **place, **(known or {}), offset=2, server=node.listener)

    def _open(self) -> None:
        config = {"transactional.id": _ID, "max.block.ms": "8000", "transaction.timeout.ms": "20000"}
        self._ask("producer", name="late", config=config)
        self._ask("init_transactions", name="late")
        self._ask("begin", name="late")

    def _end(self, written: Any) -> dict[str, Any] | None:
        """The producer whose transaction has ended, or None if it did not end in order."""
        ended = self._ask(self._chance.choice(("commit", "abort")), name="late")
        self._ask("close_producer", name="late", seconds=1)
        known = self._ask("describe_transaction", id=_ID) if written is not None and ended is None else None
        if known is None:
            return None
        epochs = {each: known[each] for each in ("producer_id", "producer_epoch")}
        return {**epochs, "transactional_id": _ID}

    def _leader(self, topic: str, partition: int) -> str | None:
        """The address of the leader of a partition."""
        topics = self._ask("list_topics")
        leader = topics[topic]["partitions"][partition]["leader"] if topics else -1
        return None if leader < 0 else self._cluster.node(leader).listener

    def _raw(self, operation: str, **arguments: Any) -> None:
        try:
            self._ask(operation, **arguments)
        except LabError:
            # The driver has noted it; a broker that is away refuses the connection.
            return

    def abort(self) -> None:
        """Abort what hangs, as ``kafka-transactions abort`` does; now and then a transaction that does not."""
        topics = self._ask("list_topics") or {}
        listed = self._listed_partitions()
        if listed is None:
            return
        spares_the_living = self._chance.random() < 0.8
        places = [("plain", each) for each in range(3)]
        places += [(_OFFSETS_TOPIC, each["partition"]) for each in topics.get(_OFFSETS_TOPIC, {}).get("partitions", [])]
        for topic, partition in places:
            for producer in self._ask("describe_producers", topic=topic, partition=partition) or []:
                is_alive = f"{topic}-{partition}" in listed.get(producer["producer_id"], ())
                if producer["current_transaction_start_offset"] >= 0 and not (is_alive and spares_the_living):
                    self._abort_one(topic, partition, producer, is_alive=is_alive)
                    if is_alive:
                        return

    def _listed_partitions(self) -> dict[int, list[str]] | None:
        """The partitions that coordinators list for each producer with an open transaction."""
        listed: dict[int, list[str]] = {}
        states = self._ask("list_transactions")
        for name, state in (states or {}).items():
            known = self._ask("describe_transaction", id=name) if state in _OPEN_STATES else None
            if known is not None:
                listed[known["producer_id"]] = known["topic_partitions"]
        return None if states is None else listed

    def _abort_one(self, topic: str, partition: int, producer: dict[str, Any], *, is_alive: bool) -> None:
        self._ask(
            "abort_hanging", topic=topic, partition=partition, producer_id=producer["producer_id"],
            producer_epoch=producer["producer_epoch"], coordinator_epoch=max(producer["coordinator_epoch"], 0),
            note="ABORTS A LIVING ONE" if is_alive else "hangs",
        )  # fmt: skip

    def terminate(self) -> None:
        """Have a coordinator end the transaction of some id, or fence its producer."""
        states = self._ask("list_transactions") or {}
        if states:
            name = self._chance.choice(sorted(states))
            if self._chance.random() < 0.5:
                self._ask("terminate_transaction", id=name)
            else:
                self._ask("fence_producers", ids=[name])
