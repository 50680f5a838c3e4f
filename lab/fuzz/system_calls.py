"""Runs a command and kills it at one of its system calls, by ptrace: exactly there, without a tool to install."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from lab.errors import LabError

# linux/ptrace.h and linux/wait.h
SYSCALL, SETOPTIONS = 24, 0x4200
SYSGOOD, FORK, VFORK, CLONE, EXEC, EXITKILL = 0x1, 0x2, 0x4, 0x8, 0x10, 0x100000
OPTIONS = SYSGOOD | FORK | VFORK | CLONE | EXEC | EXITKILL
WAIT_FOR_THREADS = 0x40000000
SYSCALL_STOP = signal.SIGTRAP | 0x80
# The process asks to be traced, and then becomes the command.
TRACED = "import ctypes, os, sys; ctypes.CDLL(None).ptrace(0, 0, None, None); os.execvp(sys.argv[1], sys.argv[1:])"


def run_and_kill(command: Sequence[str], kill_at: int | None, environment: Mapping[str, str]) -> tuple[int, int]:
    """Run a command, and kill it before its n-th system call; those of all threads and processes count.

    Args:
        command: what to run; its output is discarded.
        kill_at: n, None to let it end.
        environment: its environment.

    Returns:
        Its exit code, which is negative if a signal ended it, and how many system calls it made.

    Raises:
        LabError: the system has no ptrace, or does not permit it.
    """
    if sys.platform != "linux":
        raise LabError("Killing at system calls needs ptrace, which only Linux has; run this on Linux.")
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    library.ptrace.restype = ctypes.c_long
    with subprocess.Popen(
        [sys.executable, "-c", TRACED, *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        _, status = os.waitpid(process.pid, WAIT_FOR_THREADS)
        if not os.WIFSTOPPED(status) or library.ptrace(SETOPTIONS, process.pid, None, OPTIONS):
            process.kill()
            process.returncode = -signal.SIGKILL
            raise LabError("This system does not permit ptrace; permit it (in a container: --cap-add=SYS_PTRACE).")
        library.ptrace(SYSCALL, process.pid, None, None)
        process.returncode, calls = _trace(library, process.pid, kill_at)
    return process.returncode, calls


def _trace(library: ctypes.CDLL, pid: int, kill_at: int | None) -> tuple[int, int]:
    """Follow a process and its children to its end; return its exit code and the number of system calls."""
    inside: set[int] = set()
    calls = 0
    while True:
        thread, status = os.waitpid(-pid, WAIT_FOR_THREADS)
        if not os.WIFSTOPPED(status):
            if thread == pid:
                return os.waitstatus_to_exitcode(status), calls
            continue
        stopped_by, event = os.WSTOPSIG(status), status >> 16
        deliver = 0
        if stopped_by == SYSCALL_STOP:
            calls += thread not in inside
            inside ^= {thread}
            if kill_at is not None and calls >= kill_at:
                os.killpg(pid, signal.SIGKILL)
                continue
        elif not event and stopped_by != signal.SIGSTOP:  # a thread begins with SIGSTOP
            deliver = stopped_by
        library.ptrace(SYSCALL, thread, None, deliver)
