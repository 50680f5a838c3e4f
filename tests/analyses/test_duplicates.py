"""Which partitions the search for duplicates covers: no internal topics unless asked, and one replica of each."""

from __future__ import annotations

from pathlib import Path

import pytest

import kforensics
from tests.command import SAMPLES, run
from tests.memory import only_linux, run_measured
from tests.parsers.builders import GZIP, batch_of, compressed, record

AS_OF = "2026-11-21T18:00"
INTERNAL = {"__consumer_offsets", "__transaction_state"}


def test_internal_topics_are_searched_only_if_asked() -> None:
    paths = [str(SAMPLES / "groups")]
    without = set(kforensics.duplicates(paths)["topic"].to_pylist())
    assert not without & INTERNAL
    assert set(kforensics.duplicates(paths, internal=True)["topic"].to_pylist()) >= without | {"__consumer_offsets"}


def test_the_option_shows_internal_topics() -> None:
    lines = run("duplicates", "--as-of", AS_OF, SAMPLES / "groups").lines
    assert not any(line.startswith("__") for line in lines)
    lines = run("duplicates", "--internal", "--as-of", AS_OF, SAMPLES / "groups").lines
    assert any(line.startswith("__consumer_offsets") for line in lines)


def test_replicas_of_a_partition_count_once() -> None:
    of_all = kforensics.duplicates(str(SAMPLES / "replication"), committed=True)
    rows = [row for row in of_all.to_pylist() if row["topic"] == "replicated"]
    assert len({row["broker_id"] for row in rows if row["first_partition"] is None}) == 1
    assert len(rows) == len({(row["partition"], row["second_offset"], row["first_partition"]) for row in rows})


def test_copies_of_different_clusters_count_each() -> None:
    """Two samples of the same name are not replicas."""
    paths = [str(SAMPLES / scenario) for scenario in ("transactions-v1", "transactions-v2")]
    separate = sum(kforensics.duplicates(path).num_rows for path in paths)
    assert kforensics.duplicates(paths).num_rows == separate


def test_without_timestamps_the_text_shows_the_distance() -> None:
    lines = run("duplicates", "--as-of", AS_OF, SAMPLES / "legacy-magic-0" / "broker-0" / "compact-none-0").lines
    runs = [line for line in lines if line.startswith("  content ")]
    assert runs
    assert all("an unknown time" in line and line.endswith("later") and "1969" not in line for line in runs)


@only_linux
@pytest.mark.parametrize(
    ("count", "most_megabytes", "program"),
    [
        (1_000_000, 220, "app(['duplicates', '--memory', '16', sys.argv[1]], standalone_mode=False)"),
        (1_000_000, 300, "print(len(kforensics.duplicates(sys.argv[1], memory=16 << 20)))"),
        pytest.param(2_000_000, 400, "kforensics.audit(sys.argv[1], records=True)", marks=pytest.mark.slow),
    ],
    ids=["command", "library", "audit"],
)
def test_memory_hardly_grows_with_the_number_of_duplicates(
    tmp_path: Path, count: int, most_megabytes: int, program: str
) -> None:
    """A million equal records are a gzip batch of 12 kB. Each of them took more than 150 bytes."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    payload = compressed(GZIP, record(0, None, b"v") * count)
    log = batch_of(payload, attributes=GZIP, count=count, last_offset_delta=count - 1)
    (folder / f"{0:020}.log").write_bytes(log)
    imports = "import sys, kforensics; from kforensics.cli import app; "
    text, peak = run_measured(imports + program, folder)
    assert f"{count - 1:,}" in text or str(count - 1) in text or "audit" in program
    assert peak >> 20 < most_megabytes
