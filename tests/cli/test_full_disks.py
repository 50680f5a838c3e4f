"""A full disk ends a command with 2 and a sentence that names the place, and leaves nothing behind.

The limit of the size of a file stands for the full disk.
"""

import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.command import CLASSIC, SAMPLES, run
from tests.forensics.large_logs import write_equal_records

BROKER = CLASSIC.parent.parent
EQUAL_RECORDS = 600_000
ROWS = ["table", "json", "ndjson", "csv", "csv-safe", "parquet", "arrow"]
COMMANDS = [
    ["dump", BROKER],
    *(["dump", "--format", name, "--records", CLASSIC] for name in ROWS),
    *(["lso", "--format", name, BROKER] for name in ("json", "parquet")),
    ["transactions", BROKER],
    ["keys", "--format", "csv", BROKER],
    ["audit", SAMPLES / "transactions-v2"],
]


def limited(most: int, *words: object, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Run ``kforensics`` in a process that can write no more than some bytes to a file."""
    return subprocess.run(
        [sys.executable, "-m", "kforensics", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        # Python itself would leave incomplete .pyc files.
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most)),
    )


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(map(str, words[:3])))
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path, words: list[object]) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    (results := tmp_path / "results").mkdir()
    ended = limited(60, *words, "--output", results / "result", temporary=temporary)
    assert ended.returncode == 2, ended
    sentence = ended.stderr.splitlines()[-1]
    is_json = {*words} & {"json", "ndjson"}
    said = json.loads(sentence)["error"]["message"] if is_json else sentence.removeprefix("kforensics: ")
    assert said.startswith("cannot write ")
    assert str(results / "result") in sentence or str(temporary) in sentence
    assert "Traceback" not in ended.stderr
    assert [*results.iterdir(), *temporary.iterdir()] == []


def test_a_full_disk_leaves_no_page(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run("audit", "--fail-on", "never", "--output", store, BROKER)
    (results := tmp_path / "results").mkdir()
    ended = limited(60, "report", "--output", results / "page.html", store, temporary=results)
    assert ended.returncode == 2, ended
    assert f"cannot write {results / 'page.html'}" in ended.stderr
    assert list(results.iterdir()) == []


def test_a_full_temporary_folder_ends_the_search_for_duplicates(tmp_path: Path) -> None:
    """The hashes of many equal records exceed the memory limit, and do not fit on the disk."""
    write_equal_records(tmp_path / "data", EQUAL_RECORDS)
    (temporary := tmp_path / "tmp").mkdir()
    words = ["duplicates", "--memory", "16", "--output", tmp_path / "result", tmp_path / "data"]
    assert limited(1 << 30, *words, temporary=temporary).returncode in {0, 1}
    (tmp_path / "result").unlink()
    ended = limited(1 << 16, *words, temporary=temporary)
    assert ended.returncode == 2, ended
    assert f"cannot write a temporary file in {temporary} " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "result").exists()
