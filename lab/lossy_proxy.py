"""A network that loses answers: a proxy before a broker which lets a produce request through and drops its answer."""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Semaphore, Thread

from lab.broker import Cluster, Node, free_port

LISTENER = "LOSSY"
_PRODUCE = 0
_REQUEST_HEADER = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")


def add_listener(cluster: Cluster) -> list[str]:
    """Give a lone broker a second listener that it advertises under another port: the one of the proxy.

    Returns:
        Options of ``kafka-storage format``: none.
    """
    config = cluster.nodes[0].config
    config["listeners"] += f",{LISTENER}://127.0.0.1:{free_port()}"
    config["advertised.listeners"] += f",{LISTENER}://127.0.0.1:{free_port()}"
    config["listener.security.protocol.map"] += f",{LISTENER}:PLAINTEXT"
    return []


class LossyProxy:
    """Forwards frames in both directions, and drops responses on request.

    Attributes:
        address: where clients connect.
    """

    def __init__(self, node: Node) -> None:
        self.address = _address(node.config["advertised.listeners"])
        self._target = _address(node.config["listeners"])
        self._losses = Semaphore(0)
        self._server = socket.create_server(_pair(self.address))

    def lose(self, count: int) -> None:
        """Drop the answers to the next so many produce requests, and the connection with each."""
        self._losses.release(count)

    def serve(self) -> None:
        """Accept clients until the proxy is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(_pair(self._target))
                lost: set[int] = set()
                Thread(target=self._requests, args=(client, broker, lost), daemon=True).start()
                Thread(target=_answers, args=(broker, client, lost), daemon=True).start()

    def close(self) -> None:
        """Accept no more clients."""
        # Closing alone would leave the thread that waits for a client waiting.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _requests(self, client: socket.socket, broker: socket.socket, lost: set[int]) -> None:
        with closing(client), closing(broker), suppress(OSError):
            for frame in _frames(client):
                key, _, correlation_id = _REQUEST_HEADER.unpack_from(frame)
                if key == _PRODUCE and self._losses.acquire(blocking=False):
                    lost.add(correlation_id)
                broker.sendall(_SIZE.pack(len(frame)) + frame)


def _answers(broker: socket.socket, client: socket.socket, lost: set[int]) -> None:
    with closing(client), closing(broker), suppress(OSError):
        for frame in _frames(broker):
            (correlation_id,) = _SIZE.unpack_from(frame)
            if correlation_id in lost:
                client.shutdown(socket.SHUT_RDWR)
                return
            client.sendall(_SIZE.pack(len(frame)) + frame)


def _frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as stream:
        while len(size := stream.read(_SIZE.size)) == _SIZE.size:
            yield stream.read(_SIZE.unpack(size)[0])


@contextmanager
def losing_answers(node: Node) -> Iterator[LossyProxy]:
    """A proxy before a broker that got a listener for it, for as long as the block lasts."""
    proxy = LossyProxy(node)
    thread = Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()


def _address(listeners: str) -> str:
    return next(each for each in listeners.split(",") if each.startswith(LISTENER)).removeprefix(f"{LISTENER}://")


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
