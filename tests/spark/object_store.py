"""An S3 server of this machine, over folders of this machine: what the tests read logs from as if from afar."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.places import ROOT

__all__ = ["ObjectStore", "free_port", "object_store"]

BUCKET = "logs"
PATIENCE = 20.0
# What others have set must not reach the tests; no test asks a machine's address for credentials.
SILENCED = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    # This server does not read checksums after a body, and takes them for the next request of the connection.
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
}


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server.

    Attributes:
        folder: what it serves: a folder in it is a bucket, a file in that an object.
        environment: the variables that lead a client there.
        process: the server.
        access_log: a line for each request.
    """

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes]
    access_log: Path

    def put(self, source: Path, name: str = "") -> str:
        """Copy a file or folder into the bucket; return its URI."""
        name = name or source.name
        target = self.folder / BUCKET / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
        return f"s3://{BUCKET}/{name}"

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a test's process and what it starts ask this server."""
        for variable in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(variable)
        for variable, value in self.environment.items():
            monkeypatch.setenv(variable, value)

    def requests(self) -> list[str]:
        """Return the operations asked for so far, such as ``s3_GetObject``; the server writes them with a delay."""
        lines, before = self._lines(), -1
        while len(lines) != before:
            before = len(lines)
            time.sleep(0.1)
            lines = self._lines()
        return [next(word for word in line.split() if word.startswith("s3_")) for line in lines]

    def _lines(self) -> list[str]:
        lines = self.access_log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if " s3_" in line]

    def stop(self) -> None:
        """End the server; a second call does nothing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Run a server over a new folder with one bucket; without a server to run, the test leaves itself out and says why.

    Args:
        folder: an empty folder of the test's own.
    """
    program = _program()
    served = folder / "served"
    (served / BUCKET).mkdir(parents=True)
    store = _started(program, folder, served)
    try:
        yield store
    finally:
        store.stop()


def free_port() -> int:
    """Return a port of the loopback interface that is not in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _program() -> Path:
    (ROOT / ".lab").mkdir(exist_ok=True)
    with (ROOT / ".lab" / "s3-server.lock").open("w") as lock:
        # The processes of a test run build it once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = subprocess.run(
            ["/bin/sh", ROOT / "scripts" / "s3_server.sh"], capture_output=True, text=True, check=False
        )
    if built.returncode:
        pytest.skip(built.stderr.strip().splitlines()[-1])
    return Path(built.stdout.strip())


def _started(program: Path, folder: Path, served: Path) -> ObjectStore:
    """Return a server that answers; another process may take the port before it does."""
    for _ in range(5):
        store = _start(program, folder, served, free_port())
        if _answers(store):
            return store
        store.stop()
    pytest.fail(f"The S3 server does not come up: {(folder / 'server.out').read_text(encoding='utf-8')[-500:]}")


def _start(program: Path, folder: Path, served: Path, port: int) -> ObjectStore:
    access, secret = f"key{secrets.token_hex(8)}", secrets.token_hex(16)
    access_log = folder / "access.log"
    access_log.touch()
    with (folder / "server.out").open("wb") as out:
        listening = ["--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "--access-log", str(access_log)]
        process = subprocess.Popen(
            [str(program), *listening, "posix", "--nometa", str(served)],
            env=os.environ | {"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    environment = SILENCED | {
        "AWS_ACCESS_KEY_ID": access,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }
    return ObjectStore(served, environment, process, access_log)


def _answers(store: ObjectStore) -> bool:
    port = int(store.environment["AWS_ENDPOINT_URL"].rpartition(":")[2])
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and store.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return store.process.poll() is None
    return False
