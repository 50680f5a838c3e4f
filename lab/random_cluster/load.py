"""Clients that do what clients do, at random: commit, abort, vanish, are fenced, retry, delete, and grow topics."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Lock
from typing import Any

from lab.driver import Driver, record
from lab.errors import DriverError
from lab.random_cluster.plan import Plan

_IMPATIENT = {"request.timeout.ms": "4000", "delivery.timeout.ms": "12000", "max.block.ms": "12000", "linger.ms": "100"}
_TIMEOUTS = ("3000", "6000", "15000", "900000")
# Milliseconds between the clock and the times of events, which clients may set.
_EVENT_TIMES = (-400 * 86_400_000, -3 * 3_600_000, -60_000, 50 * 60_000)
_GROUPS = ("readers", "movers", "static")


class Log:
    """What was provoked and answered, a line each with its time in milliseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()

    def note(self, text: str) -> None:
        """Add a line."""
        with self._lock, self._path.open("a", encoding="utf-8") as lines:
            lines.write(f"{time.time() * 1000:.0f} {text}\n")


@dataclass(slots=True)
class Client:
    """A producer that is open.

    Attributes:
        name: the driver's name for it.
        transactional_id: None for a producer without transactions.
        begun: whether a transaction is open.
        sent: where it wrote to in this transaction.
    """

    name: str
    transactional_id: str | None
    begun: bool = False
    sent: list[tuple[str, int]] = field(default_factory=list)


class Load:
    """One thread of clients, with a Java process of its own.

    Args:
        plan: the cluster.
        driver: the clients.
        log: where operations are noted.
        number: of this thread; names and ids contain it.
    """

    def __init__(self, plan: Plan, driver: Driver, log: Log, number: int) -> None:
        self._plan = plan
        self._driver = driver
        self._log = log
        self._number = number
        self._chance = Random(plan.seed * 100 + number)
        self._count = 0
        self._clients: list[Client] = []
        self._partitions = {topic.name: topic.partitions for topic in plan.topics}
        self._readers = 0

    def run(self, stop: Event) -> None:
        """Act until told to stop; what a broker refuses is noted, and the client dropped."""
        actions = self._actions()
        while not stop.is_set():
            action = self._chance.choices([each for each, _ in actions], [weight for _, weight in actions])[0]
            action()

    def _actions(self) -> list[tuple[Callable[[], Any], float]]:
        common: list[tuple[Callable[[], Any], float]] = [
            (self._send, 120), (self._commit, 30), (self._abort, 12), (self._open_transactional, 6),
            (self._open_plain, 2), (self._vanish, 3), (self._zombie, 2), (self._move, 6), (self._consume, 1),
            (self._manage_group, 0.5),
        ]  # fmt: skip
        if self._plan.has_share_groups:
            common.append((self._share, 1))
        if self._number:
            return common
        return [*common, (self._delete_records, 3), (self._recreate, 0.3), (self._grow, 1)]

    def _ask(self, operation: str, **arguments: Any) -> Any:
        """The answer, or None if there was an error; both are noted."""
        shown = {
            key: len(value) if isinstance(value, list) and key == "records" else value
            for key, value in arguments.items()
        }
        try:
            answer = self._driver.ask(operation, **arguments)
        except DriverError as error:
            self._log.note(f"{self._number} {operation} {shown} -> {error.kind}: {error.message[:120]}")
            return None
        self._log.note(f"{self._number} {operation} {shown} -> {answer}")
        return True if answer is None else answer

    def _open(self, transactional_id: str | None, **config: str) -> Client | None:
        self._count += 1
        client = Client(f"{self._number}-{self._count}", transactional_id)
        settings = {**_IMPATIENT, "compression.type": self._plan.codec(self._chance), **config}
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": self._timeout()}
        self._ask("producer", name=client.name, config=settings)
        if transactional_id is not None and not self._ask("init_transactions", name=client.name):
            self._ask("close_producer", name=client.name)
            return None
        self._clients.append(client)
        return client

    def _timeout(self) -> str:
        limit = int(self._plan.config.get("transaction.max.timeout.ms", "900000"))
        return self._chance.choice([each for each in _TIMEOUTS if int(each) <= limit])

    def _open_transactional(self) -> None:
        used = {client.transactional_id for client in self._clients}
        free = [f"tx-{self._number}-{each}" for each in range(6) if f"tx-{self._number}-{each}" not in used]
        if free:
            self._open(self._chance.choice(free))

    def _open_plain(self) -> None:
        if len([client for client in self._clients if client.transactional_id is None]) < 4:
            idempotent = self._chance.choice(("true", "true", "false"))
            acks = "all" if idempotent == "true" else self._chance.choice(("1", "all"))
            self._open(None, **{"enable.idempotence": idempotent, "acks": acks})

    def _any(self, *, begun: bool | None = None) -> Client | None:
        wanted = [client for client in self._clients if begun is None or client.begun == begun]
        return self._chance.choice(wanted) if wanted else None

    def _drop(self, client: Client, seconds: int = 0) -> None:
        self._ask("close_producer", name=client.name, seconds=seconds)
        self._clients.remove(client)

    def _send(self) -> None:
        client = self._any()
        if client is None:
            return
        if client.transactional_id is not None and not client.begun:
            if not self._ask("begin", name=client.name):
                self._drop(client)
                return
            client.begun = True
        topic = self._chance.choice(sorted(self._partitions))
        partition = self._chance.randrange(self._partitions[topic])
        batch = [self._record(topic) for _ in range(self._chance.choice((1, 1, 3, 8)))]
        if self._ask("send", name=client.name, topic=topic, partition=partition, records=batch) is None:
            self._give_up(client)
        else:
            client.sent.append((topic, partition))

    def _record(self, topic: str) -> dict[str, Any]:
        self._count += 1
        tombstone = topic in ("compact", "both", "compressed") and self._chance.random() < 0.1
        value = f"{self._number} {self._count} ".ljust(self._chance.choice((15, 60, 400)), ".")
        is_event = topic in ("growing", "plain") and self._chance.random() < 0.1
        timestamp = int(time.time() * 1000) + self._chance.choice(_EVENT_TIMES) if is_event else None
        return record(f"k{self._chance.randrange(25)}", None if tombstone else value, timestamp)

    def _give_up(self, client: Client) -> None:
        """After an error some abort as they should, others vanish."""
        if client.begun and self._chance.random() < 0.5:
            self._ask("abort", name=client.name)
        self._drop(client)

    def _commit(self) -> None:
        self._end("commit")

    def _abort(self) -> None:
        self._end("abort")

    def _end(self, outcome: str) -> None:
        client = self._any(begun=True)
        if client is None:
            return
        ended = self._ask(outcome, name=client.name)
        client.begun = False
        client.sent.clear()
        if ended is None:
            self._drop(client)

    def _vanish(self) -> None:
        """A client that dies: what is open stays open until it times out."""
        client = self._any()
        if client is not None:
            self._drop(client, self._chance.choice((0, 0, 2)))

    def _zombie(self) -> None:
        """A second client with the same id fences the first, which tries to go on."""
        client = self._any(begun=True)
        if client is None or self._open(client.transactional_id) is None:
            return
        topic = self._chance.choice(sorted(self._partitions))
        self._ask("send", name=client.name, topic=topic, partition=0, records=[self._record(topic)])
        self._ask("commit", name=client.name)
        self._drop(client)

    def _move(self) -> None:
        """Offsets of a group in a transaction."""
        client = self._any(begun=True)
        if client is None or not client.sent:
            return
        topic, partition = self._chance.choice(client.sent)
        offset = self._ask("list_offset", topic=topic, partition=partition, isolation="read_committed")
        if offset is not None:
            place = {"topic": topic, "partition": partition, "offset": offset, "metadata": ""}
            self._ask("send_offsets", name=client.name, group=f"movers-{self._number}", **place)

    def _consume(self) -> None:
        """A group that reads for a moment, commits, and leaves; a static member stays in its group."""
        self._readers += 1
        name = f"reader-{self._number}-{self._readers}"
        topics = self._chance.sample(sorted(self._partitions), 2)
        config = {"group.id": f"readers-{self._number}", "isolation.level": "read_committed"}
        is_static = not self._plan.early and self._chance.random() < 0.4
        if is_static:
            config |= {"group.id": f"static-{self._number}", "group.instance.id": f"member-{self._chance.randrange(2)}"}
        if self._plan.has_consumer_protocol and self._chance.random() < 0.3:
            # Every second time the group takes up the other protocol, and gives it up again.
            suffix = self._chance.choice(("-new", ""))
            config |= {"group.id": f"{config['group.id']}{suffix}", "group.protocol": "consumer"}
        self._ask("consumer", name=name, config=config)
        self._ask("subscribe", name=name, topics=topics)
        self._ask("poll", names=[name], milliseconds=800)
        self._ask("commit_offset", name=name)
        self._ask("close_consumer", name=name, **({"membership": "remain"} if is_static else {}))

    def _share(self) -> None:
        """A member of a share group that takes records for a moment; what it does not accept is delivered again."""
        self._readers += 1
        name, group = f"sharer-{self._number}-{self._readers}", f"sharers-{self._chance.randrange(2)}"
        self._ask("share_consumer", name=name, config={"group.id": group}, topics=["small", "plain"])
        kinds = self._chance.choices(("ACCEPT", "RELEASE", "REJECT"), (8, 1, 1), k=4)
        self._ask("share_poll", name=name, records=20, acknowledge=kinds, milliseconds=2000)
        self._ask("close_share_consumer", name=name)

    def _manage_group(self) -> None:
        """Delete a group, forget one of its offsets, or set one, whether it has members or an open transaction."""
        if self._plan.early:
            return
        kind = self._chance.choice(_GROUPS)
        place = {"group": f"{kind}-{self._number}", "topic": "plain", "partition": self._chance.randrange(3)}
        operation = self._chance.choice(("delete_group", "delete_group_offset", "alter_group_offset"))
        if operation == "delete_group":
            self._ask(operation, group=place["group"])
        elif operation == "delete_group_offset":
            self._ask(operation, **place)
        else:
            self._ask(operation, **place, offset=self._chance.randrange(50), metadata="set")

    def _delete_records(self) -> None:
        topic = self._chance.choice(("plain", "small", "appended", "unclean"))
        partition = self._chance.randrange(self._partitions[topic])
        end = self._ask("list_offset", topic=topic, partition=partition, spec="latest")
        if end:
            self._ask("delete_records", topic=topic, partition=partition, before=self._chance.randrange(end + 1))

    def _recreate(self) -> None:
        topic = next(topic for topic in self._plan.topics if topic.name == "recreated")
        if self._ask("delete_topic", name=topic.name):
            time.sleep(1)
            create(self._driver, topic, self._log)

    def _grow(self) -> None:
        count = self._partitions["growing"] + 1
        if count < 5 and self._ask("add_partitions", name="growing", partitions=count):
            self._partitions["growing"] = count


def create(driver: Driver, topic: Any, log: Log) -> None:
    """Create a topic; a release that does not know a setting of the lab gets the public one."""
    arguments = {"name": topic.name, "partitions": topic.partitions, "replicas": topic.replicas}
    for _ in range(20):
        try:
            driver.ask("create_topic", **arguments, configs=topic.configs)
        except DriverError as error:
            log.note(f"create_topic {topic.name} -> {error.kind}: {error.message[:160]}")
            if error.kind == "TopicExistsException" and "marked for deletion" not in error.message:
                return
            if error.kind in ("InvalidConfigurationException", "InvalidRequestException"):
                topic.configs.pop("internal.segment.bytes", None)
                topic.configs["segment.ms"] = "4000"
            time.sleep(1)
        else:
            log.note(f"create_topic {topic.name} {topic.partitions} {topic.configs}")
            return
