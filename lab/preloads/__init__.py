"""Libraries that change what a process sees of its host: how long a flush takes, what time it is."""

import subprocess
from pathlib import Path

from lab.jars import tool
from lab.places import CACHE

PRELOAD = "LD_PRELOAD"
_SOURCES = Path(__file__).parent


def preload(name: str, **settings: object) -> dict[str, str]:
    """Compile a library; return the environment of a process that runs with it.

    Args:
        name: its source, without the suffix.
        settings: other variables of the environment, which the library reads.
    """
    CACHE.mkdir(exist_ok=True)
    library = CACHE / f"{name}.so"
    command = [tool("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCES / f"{name}.c"), "-ldl"]
    subprocess.run(command, check=True)
    return {PRELOAD: str(library), **{variable: str(value) for variable, value in settings.items()}}
