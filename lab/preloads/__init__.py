"""Libraries that change what a process sees of its host: the time, how long a flush takes, that a disk is full."""

import subprocess
from functools import cache
from pathlib import Path

from lab.jars import tool
from lab.places import CACHE

PRELOAD = "LD_PRELOAD"
_SOURCES = Path(__file__).parent


def preload(*names: str, **settings: object) -> dict[str, str]:
    """Compile libraries; return the environment of a process that runs with them.

    Args:
        names: their sources, without the suffix.
        settings: other variables of the environment, which the libraries read.
    """
    CACHE.mkdir(exist_ok=True)
    libraries = ":".join(str(_compiled(name)) for name in names)
    return {PRELOAD: libraries, **{variable: str(value) for variable, value in settings.items()}}


@cache
def _compiled(name: str) -> Path:
    library = CACHE / f"{name}.so"
    command = [tool("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCES / f"{name}.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library
