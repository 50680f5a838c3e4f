"""Keeps what tasks of an audit return in its staging folder, so that the same audit goes on there if it ends early.

What a task returns are pickles. Each is kept with a message authentication code, by a key that only this user can read:
nothing is unpickled that another user has put into the folder.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from kforensics.render.evidence_store import locate_store
from kforensics.render.staged_store import publish, writing
from kforensics.render.store_claim import FINISHED, create_task_folder

__all__ = ["FinishedTasks", "KeptStage", "resume_key"]

KEY_SIZE = 32
LENGTH_SIZE, CODE_SIZE = 8, 32
# A record batch is far smaller: see the limits of ``serialization``.
MAX_LENGTH = 1 << 30


@dataclass(frozen=True, slots=True)
class FinishedTasks:
    """The finished tasks of an audit.

    Attributes:
        staging: the staging folder, a path or a URI.
        job: what identifies the audit: a hash of its plan and parameters, a dash and its parallelism.
        key: key of the message authentication codes.
    """

    staging: str
    job: str
    key: bytes

    @property
    def parallelism(self) -> int:
        """The number of tasks that can run at once, from which the number of tasks of each stage follows."""
        return int(self.job.rpartition("-")[2])

    def count(self) -> int:
        """Return the number of finished tasks; 0 if they cannot be listed."""
        system, root = locate_store(self.staging)
        try:
            infos = system.get_file_info(fs.FileSelector(f"{root}/{FINISHED}/{self.job}", allow_not_found=True))
        except OSError:
            return 0
        return sum(not info.base_name.startswith(".") for info in infos)

    def stage(self, name: str) -> KeptStage:
        """Return the finished tasks of a stage."""
        return KeptStage(self, name)


@dataclass(frozen=True, slots=True)
class KeptStage:
    """The finished tasks of a stage; it is serialized to the workers.

    Attributes:
        tasks: the finished tasks of the audit.
        name: name of the stage.
    """

    tasks: FinishedTasks
    name: str

    def of_task(
        self,
        task: int,
        arriving: Iterable[pa.RecordBatch],
        compute: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what a task returns: what it returned in an audit that ended early, else the result of a function.

        Args:
            task: number of the task in its stage.
            arriving: the input of the task.
            compute: the function.
            schema: schema of what it returns.

        Raises:
            UsageError: what it returns cannot be kept; the message names the staging folder.
        """
        system, root = locate_store(self.tasks.staging)
        folder = f"{root}/{FINISHED}/{self.tasks.job}"
        path = f"{folder}/{self.name}-{task:06}"
        if self._is_intact(system, path, task):
            deque(arriving, maxlen=0)  # Spark does not use a worker again that leaves some of its input
            with system.open_input_stream(path) as stream:
                yield from (pa.ipc.read_record_batch(pa.py_buffer(data), schema) for data in self._data(stream, task))
            return
        attempt = f"{folder}/.{self.name}-{task:06}-{uuid4().hex}"
        with ExitStack() as opened:
            with writing(self.tasks.staging):
                create_task_folder(system, root, FINISHED, self.tasks.job)
                stream = opened.enter_context(system.open_output_stream(attempt))
            number = -1
            for number, batch in enumerate(compute(arriving)):
                self._write(stream, task, number, batch.serialize())
                yield batch
            self._write(stream, task, number + 1, b"")
        with writing(self.tasks.staging):
            publish(system, attempt, path)

    def _write(self, stream: IO[bytes], task: int, number: int, data: Any) -> None:
        with writing(self.tasks.staging):
            stream.write(len(data).to_bytes(LENGTH_SIZE) + self._code(task, number, data))
            stream.write(data)

    def _is_intact(self, system: fs.FileSystem, path: str, task: int) -> bool:
        if system.get_file_info(path).type != fs.FileType.File:
            return False
        try:
            with system.open_input_stream(path) as stream:
                deque(self._data(stream, task), maxlen=0)
        except (OSError, ValueError):
            return False
        return True

    def _data(self, stream: IO[bytes], task: int) -> Iterator[bytes]:
        """Yield the serialized record batches in a file.

        Raises:
            ValueError: the file is cut off, or was not written with this key for this task.
        """
        number, data = 0, b"-"
        while data:
            length = int.from_bytes(stream.read(LENGTH_SIZE))
            code = stream.read(CODE_SIZE)
            data = stream.read(length) if length <= MAX_LENGTH else b""
            if len(data) != length or not hmac.compare_digest(code, self._code(task, number, data)):
                raise ValueError(f"what the task {task} of {self.name} returned is damaged")
            if data:
                yield data
            number += 1

    def _code(self, task: int, number: int, data: Any) -> bytes:
        code = hmac.new(self.tasks.key, f"{self.tasks.job}/{self.name}/{task}/{number}/".encode(), "sha256")
        code.update(data)
        return code.digest()


def resume_key() -> bytes | None:
    """Return the key of this user, which the first call creates; None if there is no place for it.

    It is in ``kforensics`` in ``XDG_STATE_HOME``, by default ``~/.local/state``.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        folder = (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "kforensics"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "resume-key"
        with suppress(FileExistsError):
            _create_key(path)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            is_private = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            key = file.read(KEY_SIZE) if is_private and stat.S_ISREG(status.st_mode) else b""
    except (OSError, RuntimeError):  # no home folder
        return None
    return key if len(key) == KEY_SIZE else None


def _create_key(path: Path) -> None:
    """Create a key under its name when it is complete.

    Raises:
        FileExistsError: there is one.
        OSError: it cannot be written.
    """
    if path.exists():
        return
    attempt = path.with_name(f".{path.name}-{uuid4().hex}")
    with os.fdopen(os.open(attempt, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(secrets.token_bytes(KEY_SIZE))
    try:
        path.hardlink_to(attempt)
    finally:
        attempt.unlink()
