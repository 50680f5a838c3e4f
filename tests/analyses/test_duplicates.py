"""Which partitions the search for duplicates covers: no internal topics unless asked, and one replica of each."""

from __future__ import annotations

import kforensics
from tests.command import SAMPLES, run

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
