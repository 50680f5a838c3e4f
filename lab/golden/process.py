"""A dump tool that stays alive between runs."""

import re
import struct
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from lab.errors import LabError
from lab.golden.tools import DumpTool

_FRAME = re.compile(r"^\t+(?:at .*|\.\.\. \d+ more)\n", re.MULTILINE)
# Some messages name a Java object by a number that belongs to the run.
_IDENTITY = re.compile(r"(FileChannelImpl@|\[B@)[0-9a-f]+")
_SECONDS_PER_RUN = 120
# What a broken class path looks like; no tool says so of a file.
_LINKAGE = re.compile(r"java\.lang\.(?:NoClassDefFoundError|NoSuchMethodError|NoSuchFieldError|UnsatisfiedLinkError)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run left: exit code and both streams, without the frames of stack traces and numbers of objects."""

    exit: int
    stdout: str
    stderr: str


def without_frames(stderr: str) -> str:
    r"""Drop the lines ``\tat …`` and ``\t... N more``, which belong to the JVM, and keep every other byte."""
    return _FRAME.sub("", stderr)


class ToolProcess:
    """One tool in one JVM, with a working directory that is given once and for all."""

    def __init__(self, tool: DumpTool, directory: Path) -> None:
        self.tool = tool
        command = [*tool.command(), "DumpServer", tool.main]
        self._process = subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, arguments: tuple[str, ...]) -> Outcome:
        """Run the tool's main with these arguments.

        Raises:
            LabError: the JVM ended, or took too long and was ended, or misses a class.
        """
        guard = threading.Timer(_SECONDS_PER_RUN, self._process.kill)
        guard.start()
        try:
            outcome = self._ask(arguments)
        except (OSError, struct.error) as broken:
            reason = f"The JVM of dump tool {self.tool.version} ended, or ran longer than {_SECONDS_PER_RUN} s"
            raise LabError(f"{reason}, with: {' '.join(arguments)}") from broken
        finally:
            guard.cancel()
        if _LINKAGE.search(outcome.stderr):
            raise LabError(f"Dump tool {self.tool.version} misses a class: {outcome.stderr}")
        return outcome

    def _ask(self, arguments: tuple[str, ...]) -> Outcome:
        request, answer = _pipe(self._process.stdin), _pipe(self._process.stdout)
        texts = [argument.encode() for argument in arguments]
        request.write(struct.pack(">i", len(texts)) + b"".join(struct.pack(">i", len(text)) + text for text in texts))
        request.flush()
        return _outcome(_read_int(answer), _read_text(answer), _read_text(answer))


def run_alone(tool: DumpTool, directory: Path, arguments: tuple[str, ...]) -> Outcome:
    """The same run in a process of its own: the check on ``ToolProcess``."""
    command = [*tool.command(), tool.main, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=False)
    return _outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def _outcome(status: int, stdout: str, stderr: str) -> Outcome:
    return Outcome(status, _IDENTITY.sub(r"\g<1>0", stdout), without_frames(_IDENTITY.sub(r"\g<1>0", stderr)))


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise LabError("The JVM of a dump tool was started without a pipe.")
    return stream


def _read_int(answer: IO[bytes]) -> int:
    (number,) = struct.unpack(">i", answer.read(4))
    return int(number)


def _read_text(answer: IO[bytes]) -> str:
    return answer.read(_read_int(answer)).decode()
