"""Where the lab keeps its things."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "lab"
SAMPLES = ROOT / "sample_logs"
CACHE = ROOT / ".lab"
JARS = CACHE / "jars"
CLASSES = CACHE / "classes"
RUNS = CACHE / "run"
