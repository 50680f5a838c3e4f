"""What tools up to 3.7 do with the value of a classic group: load it as the broker would, and print the assignments."""

from __future__ import annotations

from typing import Any, Final

from kforensics.kafka_dump.decoders.schema_2_7 import SCHEMA_EXCEPTION
from kforensics.kafka_dump.java import JavaError, scala_map_order
from kforensics.parsers.messages import group
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.reader import UNDERFLOW, MessageError, Reader
from kforensics.parsers.messages.schema import Message, layout

_CONSUMER: Final = "consumer"
_NOUNS: Final = {
    group.CONSUMER_PROTOCOL_SUBSCRIPTION.name: "subscription",
    group.CONSUMER_PROTOCOL_ASSIGNMENT.name: "assignment",
}
Fields = dict[str, Any]


def loaded_members(fields: Fields) -> list[Fields]:
    """The members in the order of the Scala map that holds them in the broker.

    Raises:
        JavaError: A member stands twice and another follows, which breaks an assertion of the broker's.
    """
    found: dict[str, Fields] = {}
    for count, member in enumerate(fields["members"]):
        if count != len(found):
            raise JavaError("java.lang.AssertionError", "assertion failed")
        found[member["memberId"]] = member
    order = scala_map_order(member["memberId"] for member in fields["members"])
    return [found[member_id] for member_id in order]


def check_subscriptions(fields: Fields, members: list[Fields], release: str) -> None:
    """Read the members' subscriptions as the broker does when it loads a group of consumers, for the errors only.

    Raises:
        JavaError: A subscription is damaged in a way that the broker does not expect.
    """
    if fields["protocolType"] != _CONSUMER or fields["protocol"] is None:
        return
    for member in members:
        try:
            _protocol(group.CONSUMER_PROTOCOL_SUBSCRIPTION, member["subscription"], release, version=0)
        except JavaError as error:
            if error.class_name != SCHEMA_EXCEPTION:
                raise
            # The broker logs this one and gives up on the subscriptions of the others.
            return


def member_text(protocol_type: str, member: Fields, release: str) -> str:
    """What the tool prints of the assignment of a member."""
    name, blob = member["memberId"], member["assignment"]
    if protocol_type != _CONSUMER:
        return f"{name}={_hex(blob)}"
    fields = _protocol(group.CONSUMER_PROTOCOL_ASSIGNMENT, blob, release)
    partitions = [
        f"{entry['topic']}-{partition}" for entry in fields["assignedPartitions"] for partition in entry["partitions"]
    ]
    user_data = _hex(fields["userData"] or b"")
    text = f"{name}=[{', '.join(partitions)}]"
    return f"{text}:{user_data}" if user_data else text


def _hex(blob: bytes) -> str:
    """Scala's `"%X".format(BigInt(1, bytes))`: zero bytes in front are lost."""
    return f"{int.from_bytes(blob, 'big'):X}" if blob else ""


def _protocol(message: Message, blob: bytes, release: str, version: int | None = None) -> Fields:
    """`ConsumerProtocol.deserialize…`: a version in front of the message, or a fixed one in its place."""
    noun = _NOUNS[message.name]
    try:
        written = Reader(blob).int16()
    except MessageError as error:
        raise _underflow("header", error) from error
    if version is None:
        if written < 0:
            raise JavaError(SCHEMA_EXCEPTION, f"Unsupported {noun} version: {written}")
        version = min(written, layout(message, release).highest_version)
    try:
        return decode(message, version, blob, release, start=2).value
    except MessageError as error:
        if error.java_class == UNDERFLOW:
            raise _underflow(noun, error) from error
        raise JavaError.of(error) from error


def _underflow(where: str, error: MessageError) -> JavaError:
    text = f"Buffer underflow while parsing consumer protocol's {where}"
    return JavaError(SCHEMA_EXCEPTION, text, JavaError.of(error))
