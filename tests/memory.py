"""The most memory that a program uses in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.command import ROOT

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the peak of a process")
COMMAND = "import runpy; runpy.run_module('kforensics', run_name='__main__')"
# Not `ru_maxrss`: Linux keeps that number when a program starts, so it is at least the memory of the tests.
PEAK = """
finally:
    import sys
    from benchmarks.scale.usage import peak_bytes
    print(peak_bytes(), file=sys.stderr)
"""


def run_measured(program: str, *words: object) -> tuple[str, int]:
    """Run statements of Python, each on one line, in a process of their own.

    Returns:
        What they wrote to standard output, and the most memory of the process in bytes, 0 except on Linux.
    """
    lines = "".join(f"    {line}\n" for line in program.splitlines())
    command = [sys.executable, "-c", f"try:\n{lines}{PEAK.lstrip()}", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode in (0, 1), ran.stderr  # 1: there are findings
    return ran.stdout, int(ran.stderr.split()[-1])
