"""Asks a broker for offsets over its own protocol: a Java client per start would double the time of a start."""

import socket
import struct
from collections.abc import Iterable

_LIST_OFFSETS, _VERSION = 2, 2  # version 2 has the isolation level, and every release from 0.11 to 4.x has it
_SECONDS = 10
EARLIEST, LATEST = -2, -1


def list_offsets(
    port: int, partitions: Iterable[tuple[str, int]], when: int, *, committed: bool
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the error code and the offset of partitions.

    Args:
        port: where the broker listens on loopback.
        partitions: topics and numbers.
        when: ``EARLIEST`` or ``LATEST``.
        committed: whether the last stable offset is asked for, instead of the high watermark.
    """
    wanted = list(partitions)
    body = struct.pack(">ibi", -1, int(committed), len(wanted))
    for topic, number in wanted:
        body += _text(topic) + struct.pack(">iiq", 1, number, when)
    header = struct.pack(">hhi", _LIST_OFFSETS, _VERSION, 1) + _text("lab")
    answer = _exchange(port, header + body)
    return dict(_parsed(answer))


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _exchange(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), _SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _received(connection, 4))
        return _received(connection, size)


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


def _parsed(answer: bytes) -> Iterable[tuple[tuple[str, int], tuple[int, int]]]:
    position = 8  # correlation id, throttle time
    (count,) = struct.unpack_from(">i", answer, position)
    position += 4
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, position)
        topic = answer[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (partitions,) = struct.unpack_from(">i", answer, position)
        position += 4
        for _ in range(partitions):
            number, error, _, offset = struct.unpack_from(">ihqq", answer, position)
            position += 22
            yield (topic, number), (error, offset)
