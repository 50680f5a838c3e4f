"""Golden output: what Kafka's own dump tools print for every file of ``sample_logs/``.

One JVM per tool runs the tool's ``main`` again and again (``DumpServer.java``) in a throw-away copy of a scenario at
a fixed place, because the tools open indexes for writing and print absolute paths. The texts go to
``sample_logs/golden/<scenario>.json.xz``, each stored once.
"""

from lab.golden.runner import check_alone, list_scenarios, make_golden
from lab.golden.store import GoldenRun, read_golden, write_golden

__all__ = ["GoldenRun", "check_alone", "list_scenarios", "make_golden", "read_golden", "write_golden"]
