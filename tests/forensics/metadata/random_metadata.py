"""Metadata logs of random records, valid and not, which Kafka's classes have replayed for the golden images.

``python -m tests.forensics.metadata.random_metadata FOLDER`` writes the logs; ``python -m lab.metadata_images
FOLDER/*/*`` then prints what the stored images contain.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from kforensics.parsers.messages import metadata as schemas
from kforensics.parsers.messages.codec import default_of
from kforensics.parsers.messages.schema import MessageSchema
from tests.parsers.builders import batch, record
from tests.parsers.messages.encoder import encode, unsigned_varint

SEEDS = range(12)
RECORDS = 400
TIME = 1_700_000_000_000
CONFIGS = ("retention.ms", "cleanup.policy", "min.insync.replicas")


def metadata_record(message: MessageSchema, **fields: Any) -> bytes:
    """Return the value of a record of the metadata log; fields that are not given have their defaults.

    Args:
        message: its type.
        fields: its fields by Kafka's names, and its ``version`` if that is not the highest one.
    """
    version: int = fields.pop("version", message.highest_version)
    value = {field.name: default_of(field)() for field in message.fields if field.until is None} | fields
    return b"\1" + unsigned_varint(message.id or 0) + unsigned_varint(version) + encode(message, version, value)


ABORT = metadata_record(schemas.ABORT_TRANSACTION_RECORD)


def uuid(number: int) -> str:
    """Return a UUID as Kafka prints it."""
    return base64.urlsafe_b64encode(b"\7" * 8 + number.to_bytes(8, "big"))[:22].decode()


def write_log(
    folder: Path, batches: list[list[bytes]], *, base_offset: int = 0, times: Sequence[int] | None = None
) -> Path:
    """Write a metadata log with these batches, one each second if no times are given; return its folder."""
    log = folder / "__cluster_metadata-0"
    log.mkdir(parents=True, exist_ok=True)
    content, offset = b"", base_offset
    batches = [values for values in batches if values]
    for number, values in enumerate(batches):
        records = [record(delta, None, value) for delta, value in enumerate(values)]
        time = TIME + 1000 * number if times is None else times[number]
        content += batch(*records, base_offset=offset, base_timestamp=time, max_timestamp=time)
        offset += len(values)
    (log / f"{base_offset:020}.log").write_bytes(content)
    return log


def random_log(folder: Path, seed: int) -> Path:
    """Write a metadata log of random records; return its folder."""
    random = Random(seed)  # noqa: S311
    records = [metadata_record(schemas.FEATURE_LEVEL_RECORD, name="metadata.version", featureLevel=33)]
    records += [metadata_record(schemas.FEATURE_LEVEL_RECORD, name="eligible.leader.replicas.version", featureLevel=1)]
    records += _Writer(random).records()
    batches: list[list[bytes]] = [[]]
    for value in records:
        batches[-1].append(value)
        # An abort is the last record of its batch.
        if value == ABORT or len(batches[-1]) > random.randrange(6):
            batches.append([])
    return write_log(folder / f"seed-{seed}", batches)


class _Writer:
    """Makes random records that refer to each other.

    No record of a partition is of a topic that does not exist: that leaves Kafka with a delta that it cannot apply.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topics: set[int] = set()
        self.topics_before: set[int] | None = None  # the open transaction
        self.makers = [
            *[self.broker, self.broker_change, self.controller, self.feature, self.topic, self.partition] * 3,
            *[self.partition_change] * 12,
            *[self.config, self.quota, self.acl, self.scram, self.token, self.removal, self.clear_elr] * 2,
            *(self.producer_ids, self.transaction, self.transaction, self.other),
        ]

    def records(self) -> Iterator[bytes]:
        for _ in range(RECORDS):
            yield self.random.choice(self.makers)()

    def number(self, most: int = 6) -> int:
        return self.random.randrange(most)

    def nodes(self) -> list[int]:
        return self.random.sample(range(6), self.random.randint(1, 3))

    def topic_id(self) -> str:
        return uuid(self.random.choice(sorted(self.topics)))

    def maybe(self, value: Any) -> Any:
        return value if self.random.random() < 0.4 else None

    def endpoints(self) -> list[dict[str, Any]]:
        return [{"name": "PLAINTEXT", "host": "h", "port": 9092, "securityProtocol": 0}]

    def features(self) -> list[dict[str, Any]]:
        return [{"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 33}]

    def broker(self) -> bytes:
        node = self.number()
        common = {"endPoints": self.endpoints(), "features": self.features(), "incarnationId": uuid(100 + node)}
        state = {"fenced": bool(self.number(2)), "inControlledShutdown": bool(self.number(2)), "rack": self.maybe("r")}
        dirs = {"logDirs": [uuid(200 + node)], "cordonedLogDirs": []}
        return metadata_record(
            schemas.REGISTER_BROKER_RECORD, brokerId=node, brokerEpoch=self.number(2), **common, **state, **dirs
        )

    def broker_change(self) -> bytes:
        node, epoch = self.number(), self.number(2)
        kind = self.number(4)
        if kind == 0:
            return metadata_record(schemas.FENCE_BROKER_RECORD, id=node, epoch=epoch)
        if kind == 1:
            return metadata_record(schemas.UNFENCE_BROKER_RECORD, id=node, epoch=epoch)
        changes = {"fenced": self.number(3) - 1, "inControlledShutdown": self.number(2)}
        dirs = {"logDirs": self.maybe([uuid(300)]) or [], "cordonedLogDirs": self.maybe([uuid(300)])}
        message = schemas.BROKER_REGISTRATION_CHANGE_RECORD
        return metadata_record(message, brokerId=node, brokerEpoch=epoch, **changes, **dirs)

    def controller(self) -> bytes:
        fields = {"controllerId": 3000 + self.number(3), "incarnationId": uuid(400)}
        lists = {"endPoints": self.endpoints(), "features": self.features()}
        return metadata_record(schemas.REGISTER_CONTROLLER_RECORD, **fields, **lists)

    def feature(self) -> bytes:
        name = self.random.choice(("group.version", "transaction.version"))
        return metadata_record(schemas.FEATURE_LEVEL_RECORD, name=name, featureLevel=self.number(3))

    def topic(self) -> bytes:
        topic = self.number(8)
        if topic in self.topics:
            return self.partition()
        self.topics.add(topic)
        return metadata_record(schemas.TOPIC_RECORD, name=f"topic-{topic}", topicId=uuid(topic))

    def partition(self) -> bytes:
        if not self.topics:
            return self.topic()
        replicas = self.nodes()
        elr = {"eligibleLeaderReplicas": self.maybe(self.nodes()), "lastKnownElr": self.maybe([self.number()])}
        return metadata_record(
            schemas.PARTITION_RECORD,
            version=2 if self.number(4) else 0,
            partitionId=self.number(4),
            topicId=self.topic_id(),
            replicas=replicas,
            isr=replicas[:1],
            leader=replicas[0],
            leaderEpoch=self.number(),
            partitionEpoch=self.number(),
            leaderRecoveryState=self.number(2),
            directories=[uuid(200 + node) for node in replicas],
            **elr,
        )

    def partition_change(self) -> bytes:
        if not self.topics:
            return self.topic()
        replicas = self.maybe(self.nodes())
        fields = {
            "isr": self.maybe(self.nodes()),
            "leader": self.random.choice((-2, -2, -1, 0, 1, 2)),
            "replicas": replicas,
            "directories": None if replicas is None else [uuid(200 + node) for node in replicas],
            "removingReplicas": self.maybe(self.nodes()),
            "addingReplicas": self.maybe(self.nodes()),
            "leaderRecoveryState": self.number(3) - 1,
            "eligibleLeaderReplicas": self.maybe(self.nodes()),
            "lastKnownElr": self.maybe([]),
        }
        number = self.number(4)
        return metadata_record(schemas.PARTITION_CHANGE_RECORD, partitionId=number, topicId=self.topic_id(), **fields)

    def config(self) -> bytes:
        kind, name = self.random.choice(((2, f"topic-{self.number(8)}"), (4, ""), (4, "1"), (16, "m"), (32, "g")))
        fields = {"name": self.random.choice(CONFIGS), "value": self.maybe(str(self.number()))}
        return metadata_record(schemas.CONFIG_RECORD, resourceType=kind, resourceName=name, **fields)

    def quota(self) -> bytes:
        user = {"entityType": "user", "entityName": self.maybe("alice")}
        client = {"entityType": "client-id", "entityName": self.maybe("app")}
        entity = self.random.choice(([user], [client], [user, client], [client, user]))
        fields = {"key": "producer_byte_rate", "value": self.random.random() * 1e6, "remove": not self.number(3)}
        return metadata_record(schemas.CLIENT_QUOTA_RECORD, entity=entity, **fields)

    def acl(self) -> bytes:
        if not self.number(3):
            return metadata_record(schemas.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, id=uuid(500 + self.number()))
        resource = {"resourceType": 2, "resourceName": "topic", "patternType": 3}
        who = {"principal": f"User:{self.number()}", "host": "*", "operation": 3, "permissionType": 3}
        return metadata_record(schemas.ACCESS_CONTROL_ENTRY_RECORD, id=uuid(500 + self.number()), **resource, **who)

    def scram(self) -> bytes:
        who = {"name": self.random.choice(("alice", "bob")), "mechanism": 1 + self.number(2)}
        # No removals: if one is in the same delta as the first credentials of a mechanism, Kafka loses these.
        secrets = dict.fromkeys(("salt", "storedKey", "serverKey"), b"secret")
        return metadata_record(schemas.USER_SCRAM_CREDENTIAL_RECORD, **who, **secrets, iterations=4096 + self.number())

    def token(self) -> bytes:
        token_id = f"token-{self.number(4)}"
        if not self.number(3):
            return metadata_record(schemas.REMOVE_DELEGATION_TOKEN_RECORD, tokenId=token_id)
        who = {"owner": "User:alice", "requester": "User:bob", "renewers": ["User:carol"]}
        times = {"issueTimestamp": TIME, "maxTimestamp": TIME + 9, "expirationTimestamp": TIME + self.number()}
        return metadata_record(schemas.DELEGATION_TOKEN_RECORD, tokenId=token_id, **who, **times)

    def removal(self) -> bytes:
        if self.number(3):
            topic = self.number(8)
            self.topics.discard(topic)
            return metadata_record(schemas.REMOVE_TOPIC_RECORD, topicId=uuid(topic))
        if self.number(2):
            return metadata_record(schemas.UNREGISTER_CONTROLLER_RECORD, controllerId=3000 + self.number(3))
        return metadata_record(schemas.UNREGISTER_BROKER_RECORD, brokerId=self.number(), brokerEpoch=self.number(2))

    def clear_elr(self) -> bytes:
        name = "" if not self.number(4) else f"topic-{self.number(8)}"
        return metadata_record(schemas.CLEAR_ELR_RECORD, topicName=name)

    def producer_ids(self) -> bytes:
        return metadata_record(
            schemas.PRODUCER_IDS_RECORD, brokerId=1, brokerEpoch=0, nextProducerId=self.number() * 1000
        )

    def transaction(self) -> bytes:
        kind = self.number(3)  # it may be where it does not belong
        if kind == 0:
            if self.topics_before is None:
                self.topics_before = set(self.topics)
            return metadata_record(schemas.BEGIN_TRANSACTION_RECORD, name="random")
        if kind == 1 and self.topics_before is not None:
            self.topics = self.topics_before
        self.topics_before = None
        return ABORT if kind == 1 else metadata_record(schemas.END_TRANSACTION_RECORD)

    def other(self) -> bytes:
        kinds = (
            metadata_record(schemas.NO_OP_RECORD),
            metadata_record(schemas.ZK_MIGRATION_STATE_RECORD, zkMigrationState=3),
            b"\1\x63\0\0",  # a type that no release has
        )
        return self.random.choice(kinds)


if __name__ == "__main__":
    for each in SEEDS:
        random_log(Path(sys.argv[1]), each)
