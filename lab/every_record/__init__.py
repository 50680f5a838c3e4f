"""A record of every type and version of the internal topics, encoded by Kafka's own classes.

No real broker writes all of them in one life: the classes of a release do, filled in, empty, with nulls, and with a
tagged field that is unknown. ``sample_logs/every-record/made-by-<release>/<topic>-0/`` looks like a log dir.
"""

import shutil
import subprocess
from itertools import groupby
from pathlib import Path

from lab.damage.cases import LOG
from lab.damage.forge import batch, record
from lab.errors import LabError
from lab.jars import Artifact, fetch, tool
from lab.places import CLASSES, SAMPLES
from lab.progress import say

RELEASE = "4.3.1"
FOLDER = SAMPLES / "every-record"
_SOURCE = Path(__file__).with_name("EveryRecord.java")
_README = f"""\
# Every record

Made by `python -m lab.every_record`, byte for byte the same in every run; no broker wrote it. The generated classes of
Kafka {RELEASE} encoded each record type of `__consumer_offsets`, `__transaction_state`, `__share_group_state` and
`__cluster_metadata` in each version: filled in, with every default, with every null it may have, and with an unknown
tagged field where the version has tagged fields. A batch holds one type. The values have no meaning.
"""


def make_every_record() -> int:
    """Rewrite the logs.

    Returns:
        The number of records.
    """
    rows = _rows()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for topic, group in groupby(rows, key=lambda row: row[0]):
        folder = FOLDER / f"made-by-{RELEASE}" / f"{topic}-0"
        folder.mkdir(parents=True)
        (folder / LOG).write_bytes(_log([row[1:] for row in group]))
    (FOLDER / "README.md").write_text(_README, encoding="utf-8")
    say(f"wrote every-record: {len(rows)} records")
    return len(rows)


def _log(rows: list[tuple[str, bytes | None, bytes]]) -> bytes:
    """One batch for each type of record."""
    content, base = b"", 0
    for _name, group in groupby(rows, key=lambda row: row[0]):
        records = [record(delta, key, value) for delta, (_same, key, value) in enumerate(group)]
        content += batch(base, records)
        base += len(records)
    return content


def _rows() -> list[tuple[str, str, bytes | None, bytes]]:
    """Topic, type, key and value of every record; no record twice."""
    jars = fetch(f"dump-{RELEASE}", [Artifact(f"org.apache.kafka:kafka-tools:{RELEASE}", exclusions=())])
    classes = CLASSES / "every-record"
    _run([tool("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(_SOURCE)])
    text = _run([tool("java"), "-Dfile.encoding=UTF-8", "-cp", f"{classes}:{jars}/*", "EveryRecord"])
    found = []
    for line in text.splitlines():
        topic, what, key, value = line.split("\t")
        found.append((topic, what.split()[0], None if key == "-" else bytes.fromhex(key), bytes.fromhex(value)))
    return list(dict.fromkeys(found))


def _run(command: list[str]) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"{Path(command[0]).name} failed on every record:\n{outcome.stderr[-2000:]}")
    return outcome.stdout
