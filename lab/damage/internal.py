"""Internal topics whose records are unknown, cut, or of versions that some releases do not know.

The old decoders end the run at such a record, so each partition has one of a kind, after a healthy record.
"""

import struct
from collections.abc import Iterator, Sequence

from lab.damage.cases import LOG, Case
from lab.damage.forge import TIME, batch, record

_Pair = tuple[bytes | None, bytes | None]
_Kinds = list[tuple[str, list[_Pair]]]
_TOPIC_ID = bytes.fromhex("73 4c e9 a4 79 13 4a 70 8f 0a 6a b5 18 05 86 87")


def internal_cases() -> Iterator[Case]:
    """One partition of an internal topic per kind of record."""
    yield from _partitions("__consumer_offsets", (_commit_key(0), _commit(3)), _group_records())
    yield from _partitions("__transaction_state", (_transaction_key(), _transaction(0)), _transaction_records())
    yield from _partitions("__share_group_state", (_share_key(0), _share_snapshot()), _share_records())
    yield from _partitions("__cluster_metadata", (None, _topic_record()), _metadata_records())
    yield from _partitions("__remote_log_metadata", (None, _remote_delete(1)), _remote_records())


def _partitions(topic: str, healthy: _Pair, kinds: _Kinds) -> Iterator[Case]:
    for number, (says, pairs) in enumerate(kinds):
        records = [record(i, *pair) for i, pair in enumerate([healthy, *pairs, healthy])]
        yield Case(f"{topic}-{number}", says, {LOG: batch(0, records)})


def _string(content: str) -> bytes:
    return struct.pack(">h", len(content.encode())) + content.encode()


def _compact(content: str) -> bytes:
    return bytes([len(content.encode()) + 1]) + content.encode()


def _commit_key(kind: int) -> bytes:
    return struct.pack(">h", kind) + _string("group") + _string("topic") + struct.pack(">i", 3)


def _commit(version: int) -> bytes:
    """An offset commit in each of its layouts."""
    head = struct.pack(">hq", version, 42)
    if version >= 3:
        head += struct.pack(">i", 7)
    if version >= 4:
        return head + _compact("note") + struct.pack(">q", TIME) + b"\x01\x00\x10" + _TOPIC_ID
    return head + _string("note") + struct.pack(">q", TIME) + (struct.pack(">q", TIME + 1) if version == 1 else b"")


def _group_key() -> bytes:
    return struct.pack(">h", 2) + _string("group")


def _group(version: int, protocol_type: str, subscription: bytes, assignment: bytes) -> bytes:
    """Group metadata of one member, versions 0 to 3."""
    member = _string("member-1")
    if version >= 3:
        member += _string("instance-1")
    member += _string("client") + _string("/127.0.0.1")
    if version >= 1:
        member += struct.pack(">i", 60_000)
    member += struct.pack(">i", 45_000) + _bytes(subscription) + _bytes(assignment)
    head = (
        struct.pack(">h", version)
        + _string(protocol_type)
        + struct.pack(">i", 5)
        + _string("range")
        + _string("member-1")
    )
    time = struct.pack(">q", TIME) if version >= 2 else b""
    return head + time + struct.pack(">i", 1) + member


def _bytes(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _subscription(version: int) -> bytes:
    content = struct.pack(">hi", version, 1) + _string("topic") + struct.pack(">i", -1)
    if version >= 1:
        content += struct.pack(">i", 1) + _string("topic") + struct.pack(">iii", 2, 0, 1)
    if version >= 2:
        content += struct.pack(">i", 9)
    return content + (_string("rack-1") if version >= 3 else b"")


def _assignment(version: int, user_data: bytes | None = None) -> bytes:
    tail = struct.pack(">i", -1) if user_data is None else _bytes(user_data)
    return struct.pack(">hi", version, 1) + _string("topic") + struct.pack(">iii", 2, 0, 1) + tail


def _group_records() -> _Kinds:
    commits: _Kinds = [
        (f"An offset commit of version {version}.", [(_commit_key(1), _commit(version))]) for version in range(5)
    ]
    groups: _Kinds = [
        (
            f"Group metadata of version {version}.",
            [(_group_key(), _group(version, "consumer", _subscription(version), _assignment(version)))],
        )
        for version in range(4)
    ]
    odd_groups = {
        "Group metadata of a protocol that is not `consumer`.": _group(3, "connect", b"\x00\x01\x02", b"\x0a\x0b"),
        "Group metadata whose assignment carries user data.": _group(
            3, "consumer", _subscription(0), _assignment(0, b"\x00\x0fdata")
        ),
        "Group metadata whose subscription is cut.": _group(3, "consumer", _subscription(1)[:9], _assignment(1)),
        "Group metadata whose assignment is empty, as before a rebalance.": _group(
            3, "consumer", _subscription(1), b""
        ),
        "Group metadata with embedded versions of 99.": _group(
            3, "consumer", b"\x00\x63" + _subscription(3)[2:], b"\x00\x63" + _assignment(3)[2:]
        ),
        "Group metadata of version 9, which does not exist.": b"\x00\x09" + _group(3, "consumer", b"", b"")[2:],
        "Group metadata that is cut.": _group(3, "consumer", _subscription(1), _assignment(1))[:-30],
    }
    odd: _Kinds = [(says, [(_group_key(), value)]) for says, value in odd_groups.items()]
    tombstones: list[_Pair] = [
        (struct.pack(">h", kind) + _string("group") + _string("member"), None) for kind in range(3, 25)
    ]
    return [
        *commits,
        ("A tombstone of an offset commit and one of a group.", [(_commit_key(1), None), (_group_key(), None)]),
        ("An offset commit of version 9, which does not exist.", [(_commit_key(1), b"\x00\x09" + _commit(3)[2:])]),
        ("An offset commit whose value is empty.", [(_commit_key(1), b"")]),
        ("An offset commit whose value is cut.", [(_commit_key(1), _commit(3)[:-4])]),
        ("An offset commit whose value is too long.", [(_commit_key(1), _commit(3) + b"more")]),
        (
            "An offset commit whose metadata has a wild length.",
            [(_commit_key(1), _commit(3)[:14] + b"\x7f\xff" + _commit(3)[16:])],
        ),
        (
            "An offset commit whose metadata is null.",
            [(_commit_key(1), _commit(3)[:14] + b"\xff\xff" + _commit(3)[20:])],
        ),
        ("A key of type 99, which does not exist.", [(struct.pack(">h", 99) + _string("group"), b"\x00\x00")]),
        ("A key of type -1.", [(struct.pack(">h", -1) + _string("group"), b"\x00\x00")]),
        ("A key that is empty.", [(b"", _commit(3))]),
        ("A key of one byte.", [(b"\x00", _commit(3))]),
        ("A key that is cut.", [(_commit_key(1)[:-6], _commit(3))]),
        ("A key that is too long.", [(_commit_key(1) + b"more", _commit(3))]),
        ("A record without a key.", [(None, _commit(3))]),
        *groups,
        *odd,
        (
            "A group of the consumer protocol: its metadata.",
            [(struct.pack(">h", 3) + _string("group"), struct.pack(">hi", 0, 4) + b"\x00")],
        ),
        (
            "A group of the consumer protocol: its metadata with an unknown tag.",
            [(struct.pack(">h", 3) + _string("group"), struct.pack(">hi", 0, 4) + b"\x01\x21\x02ab")],
        ),
        ("A tombstone of every type up to 24.", tombstones),
    ]


def _transaction_key() -> bytes:
    return struct.pack(">h", 0) + _string("transactional-id")


def _transaction(status: int, partitions: Sequence[int] | None = None) -> bytes:
    head = struct.pack(">hqhib", 0, 4711, 2, 60_000, status)
    topics = struct.pack(">i", -1)
    if partitions is not None:
        topics = (
            struct.pack(">i", 1) + _string("topic") + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        )
    return head + topics + struct.pack(">qq", TIME, TIME - 9)


def _flexible_transaction(tags: bytes) -> bytes:
    head = struct.pack(">hqhib", 1, 4711, 2, 60_000, 1)
    return head + b"\x02" + _compact("topic") + b"\x02\x00\x00\x00\x05\x00" + struct.pack(">qq", TIME, TIME - 9) + tags


def _transaction_records() -> _Kinds:
    key = _transaction_key()
    tags = (
        b"\x04\x00\x08"
        + struct.pack(">q", 4710)
        + b"\x01\x08"
        + struct.pack(">q", 4712)
        + b"\x02\x02\x00\x02\x03\x02\x00\x00"
    )
    states: _Kinds = [
        (f"A transaction in state {state}.", [(key, _transaction(state, [0, 3, 1]))]) for state in range(8)
    ]
    return [
        *states,
        ("A transaction with 40 partitions.", [(key, _transaction(1, range(40)))]),
        ("A transaction in state 99, which does not exist.", [(key, _transaction(99, [0]))]),
        ("A transaction of version 1.", [(key, _flexible_transaction(b"\x00"))]),
        ("A transaction of version 1 with every tagged field.", [(key, _flexible_transaction(tags))]),
        ("A transaction of version 1 with an unknown tag.", [(key, _flexible_transaction(b"\x01\x11\x01x"))]),
        ("A transaction of version 7, which does not exist.", [(key, b"\x00\x07" + _transaction(1, [0])[2:])]),
        ("A transaction that is cut.", [(key, _transaction(1, [0])[:-3])]),
        ("A transaction whose partitions are wildly many.", [(key, _transaction(1, [0])[:17] + b"\x7f\xff\xff\xff")]),
        ("A transaction with an empty value.", [(key, b"")]),
        ("A tombstone.", [(key, None)]),
        ("A key of type 5, which does not exist.", [(b"\x00\x05" + key[2:], _transaction(0))]),
        ("A key that is cut.", [(key[:-4], _transaction(0))]),
        ("A record without a key.", [(None, _transaction(0))]),
    ]


def _share_key(kind: int) -> bytes:
    return struct.pack(">h", kind) + _string("group") + _TOPIC_ID + struct.pack(">i", 0)


def _share_snapshot(batches: int = 2) -> bytes:
    state = b"".join(struct.pack(">qqbhb", i * 10, i * 10 + 9, 2, 1, 0) for i in range(batches))
    head = struct.pack(">hiiiqqq", 0, 3, 1, 2, 100, TIME, TIME + 5)
    return head + bytes([batches + 1]) + state + b"\x00"


def _share_records() -> _Kinds:
    update = struct.pack(">hiiq", 0, 3, 2, 110) + b"\x01" + b"\x01\x00\x04\x00\x00\x00\x05"
    return [
        ("A share update with its tagged field.", [(_share_key(1), update)]),
        (
            "A share snapshot of version 3, which does not exist.",
            [(_share_key(0), b"\x00\x03" + _share_snapshot()[2:])],
        ),
        ("A share snapshot that is cut.", [(_share_key(0), _share_snapshot()[:-9])]),
        ("A share snapshot whose batches are null.", [(_share_key(0), _share_snapshot()[:38] + b"\x00\x00")]),
        ("A tombstone.", [(_share_key(0), None)]),
        ("A key of type 7, which does not exist.", [(_share_key(7), _share_snapshot())]),
        ("A record without a key.", [(None, _share_snapshot())]),
    ]


def _topic_record() -> bytes:
    return b"\x01\x02\x00" + _compact("topic") + _TOPIC_ID + b"\x00"


def _metadata_records() -> _Kinds:
    good = _topic_record()
    values = {
        "A record without a value.": None,
        "A record with an empty value.": b"",
        "Frame version 0, that of 2.8.": b"\x00" + good[1:],
        "Frame version 2, which does not exist.": b"\x02" + good[1:],
        "A frame version that is too large.": b"\xff\xff\x7f" + good[1:],
        "A frame version that never ends.": b"\xff" * 7,
        "A record that ends behind its frame version.": good[:1],
        "A record that ends behind its type.": good[:2],
        "A record of type 999, which does not exist.": b"\x01\xe7\x07\x00" + good[3:],
        "A type that is too large.": b"\x01\xff\xff\x7f\x00" + good[3:],
        "A record version of 9, which does not exist.": b"\x01\x02\x09" + good[3:],
        "A record version that is too large.": b"\x01\x02\xff\xff\x7f" + good[3:],
        "A record that is cut.": good[:-5],
        "A record that is too long.": good + b"more",
        "A record with an unknown tag.": good[:-1] + b"\x01\x2a\x03xyz",
        "A record whose name is null.": b"\x01\x02\x00\x00" + _TOPIC_ID + b"\x00",
        "A record whose name is hard to print.": b"\x01\x02\x00"
        + _compact('q"\\\b\t\n\f\r\x01\x1f\x7f/é€😀')
        + _TOPIC_ID
        + b"\x00",
    }
    kinds: _Kinds = [(says, [(None, value)]) for says, value in values.items()]
    return [*kinds, ("A record with a key.", [(b"key", good)])]


def _remote_delete(state: int) -> bytes:
    place = _compact("topic") + _TOPIC_ID + struct.pack(">i", 0) + b"\x00"
    return b"\x01\x02\x00" + place + struct.pack(">iqb", 7, TIME, state) + b"\x00"


def _remote_segment(
    state: int, *, end: int = 99, epochs: int = 2, custom: bytes = b"\x00", tags: bytes = b"\x00"
) -> bytes:
    place = _compact("topic") + _TOPIC_ID + struct.pack(">i", 0) + b"\x00"
    numbers = struct.pack(">qqiqq", 10, end, 7, TIME, TIME + 5)
    history = bytes([epochs + 1]) + b"".join(struct.pack(">iqb", 5 - i, 60 - 50 * i, 0) for i in range(epochs))
    identity = place + _TOPIC_ID[::-1] + b"\x00"
    return (
        b"\x01\x00\x00"
        + identity
        + numbers
        + history
        + struct.pack(">i", 1000)
        + custom
        + struct.pack(">b", state)
        + tags
    )


def _remote_update(state: int, custom: bytes = b"\x00") -> bytes:
    place = _compact("topic") + _TOPIC_ID + struct.pack(">i", 0) + b"\x00"
    return (
        b"\x01\x01\x00"
        + place
        + _TOPIC_ID[::-1]
        + b"\x00"
        + struct.pack(">iq", 7, TIME)
        + custom
        + struct.pack(">b", state)
        + b"\x00"
    )


def _remote_records() -> _Kinds:
    values = {
        "A segment, copy started.": _remote_segment(0),
        "A segment with custom metadata of three bytes.": _remote_segment(1, custom=b"\x04abc"),
        "A segment whose transaction index is empty.": _remote_segment(1, tags=b"\x01\x00\x01\x01"),
        "A segment in state 9, which does not exist.": _remote_segment(9),
        "A segment without leader epochs.": _remote_segment(1, epochs=0),
        "A segment that ends before it begins.": _remote_segment(1, end=9),
        "A segment that is cut.": _remote_segment(1)[:-7],
        "A segment that is too long.": _remote_segment(1) + b"more",
        "An update.": _remote_update(2),
        "An update with custom metadata.": _remote_update(1, b"\x04abc"),
        "An update in state 9, which does not exist.": _remote_update(9),
        "A partition to be deleted.": _remote_delete(0),
        "A deleted partition in state 3, which does not exist.": _remote_delete(3),
        "A record of type 12, which does not exist.": b"\x01\x0c\x00" + _remote_delete(0)[3:],
        "A record without a value.": None,
    }
    return [(says, [(None, value)]) for says, value in values.items()]
