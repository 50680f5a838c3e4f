"""``keys``: results of topics in every format, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.analyses.keys import KeysRequest, evaluate_topic_keys
from kforensics.analyses.partitions import investigate
from kforensics.cli.partition_options import ExitStatus
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.core.key_tables import KEY_RESULTS
from tests.command import SAMPLES, Ended, run, sentence
from tests.forensics.keys.topics import KEYS, Sent, at_home, home, sent_to, topic, truth

GROWTH = SAMPLES / "partition-growth"
TABLE_OF = {"partitions": "key_partitions", "keys": "keys_apart", "producers": "producer_batches"}


def _keys(*words: object) -> Ended:
    return run("keys", "--quiet", *words)


def test_a_topic_that_grew_is_shown_with_its_keys_and_producers() -> None:
    ended = run("keys", "--as-of", "2026-11-22T00:00", "--topic", "keyed", GROWTH)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[:2] == [
        "keyed: 4 partitions (from the cluster metadata), 2 before; 102 records, 6 without a key; 24 keys",
        "  100.0 % of keys match murmur2 (37.4 % expected by chance): default partitioner",
    ]
    assert "  9 keys in two partitions: the topic grew" in ended.lines
    assert ended.text.count("partition-growth in keyed-2 on broker 1: keyed grew from 2 to 4 partitions") == 1
    assert any("style keyed" in line for line in ended.lines)


def test_a_key_that_is_in_two_partitions_for_two_reasons_is_listed_once() -> None:
    lines = _keys("--as-of", "2026-11-22T00:00", "--topic", "compacted", GROWTH).lines
    listed = [line.split(":")[0] for line in lines if line.startswith("    'customer-")]
    assert len(listed) == len({*listed}) == 7
    assert "  7 keys in two partitions: the topic grew" in lines
    assert lines.count("    the others are listed above") == 1


def test_a_tombstone_in_the_wrong_partition_has_exit_code_1_and_a_remedy() -> None:
    ended = _keys("--topic", "compacted", GROWTH)
    assert ended.code == 1
    assert "  error    tombstone-wrong-partition in compacted-2 on broker 1: Tombstones of 3 keys" in ended.text
    assert "do: Write a tombstone for each of these keys to the partition of the value" in ended.text
    assert _keys("--topic", "compacted", "--fail-on", "critical", GROWTH).code == 0


def test_all_topics_except_internal_ones_are_shown() -> None:
    assert sorted(_topics(_keys(GROWTH))) == sorted(truth()["sent"])


def _topics(ended: Ended) -> list[str]:
    return [line.split(":")[0] for line in ended.lines if "; " in line and " partition" in line and line[0] != " "]


def test_the_worst_topics_are_first_and_what_is_wrong_precedes_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out of the tables is stated once, at the end."""
    monkeypatch.setenv("COLUMNS", "80")
    ended = _keys(GROWTH)
    assert _topics(ended)[:2] == ["compacted", "late-writer"]
    assert [ended.lines[number].split()[:2] for number in (3, 13)] == [["error", "tombstone-wrong-partition"]] * 2
    assert ended.text.count("columns left out to fit the width") == 1
    assert ended.lines[-1] == f"  $ kforensics keys --wide --quiet {GROWTH}"


def test_rows_of_partitions_match_the_sent_records() -> None:
    rows = _keys("--topic", "keyed", "--format", "ndjson", GROWTH).rows("key_partitions")
    sent = [row for row in truth()["sent"]["keyed"] if row["key"] is not None]
    for row in rows:
        mine = [one for one in sent if one["partition"] == row["partition"]]
        assert (row["keys"], row["records"] - row["keyless_records"]) == (len({one["key"] for one in mine}), len(mine))
    assert {(row["partition_count"], row["earlier_counts"], row["count_source"]) for row in rows} == {
        (4, "2", "metadata")
    }
    assert {row["partitioner"] for row in rows} == {"default"}
    # Each key was sent to its partition under both counts, and is in two partitions if these differ.
    apart = [key for key in {one["key"] for one in sent} if home(key.encode(), 2) != home(key.encode(), 4)]
    for row in rows:
        here = [key for key in apart if row["partition"] in {home(key.encode(), 2), home(key.encode(), 4)}]
        assert row["keys_apart"] == len(here)


def test_rows_of_keys_match_the_sent_records() -> None:
    rows = _keys("--topic", "keyed", "--list", "keys", "--format", "ndjson", GROWTH).rows("keys_apart")
    sent = truth()["sent"]["keyed"]
    places: dict[str, set[int]] = {}
    for one in sent:
        if one["key"] is not None:
            places.setdefault(one["key"], set()).add(one["partition"])
    apart = {key: found for key, found in places.items() if len(found) > 1}
    assert {row["key"] for row in rows} == set(apart)
    for row in rows:
        key = row["key"]
        offsets = [one["offset"] for one in sent if (one["key"], one["partition"]) == (key, row["partition"])]
        assert (row["records"], row["first_offset"], row["last_offset"]) == (len(offsets), min(offsets), max(offsets))
        assert row["expected_partition"] == home(key.encode(), 4)
        assert {row["partition"], row["other_partition"]} == apart[key]


def test_the_producer_of_a_key_is_shown_if_there_is_only_one() -> None:
    rows = _keys("--topic", "grown-twice", "--list", "keys", "--format", "ndjson", GROWTH).rows("keys_apart")
    writers: dict[tuple[str, int], set[str]] = {}
    for row in truth()["sent"]["grown-twice"]:
        writers.setdefault((row["key"], row["partition"]), set()).add(row["producer"])
    several = [len(writers[row["key"], row["partition"]]) > 1 for row in rows]
    assert [row["producer_id"] is None for row in rows] == several
    assert set(several) == {True, False}


@pytest.mark.parametrize("listed", TABLE_OF)
def test_every_list_is_the_table_of_the_python_function(listed: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    words = ("--topic", "late-writer", "--list", listed, "--format", "parquet", "--output", out)
    assert _keys(*words, GROWTH).code == 0
    written = pq.read_table(out)
    table = kforensics.keys(GROWTH, topic="late-writer", listed=listed)
    assert written.to_pylist() == table.to_pylist()
    assert tuple(table.schema.names) == KEY_RESULTS[TABLE_OF[listed]].names
    assert table.num_rows > 3


@pytest.mark.parametrize("wanted", ["table", "json", "csv", "ndjson"])
def test_every_format_has_a_row_for_each_partition(wanted: str) -> None:
    ended = _keys("--topic", "keyed", "--format", wanted, GROWTH)
    assert ended.code == 0
    assert ended.text.count(f"{GROWTH}/broker-1/keyed-") == 4


def test_without_metadata_the_partition_count_comes_from_the_keys() -> None:
    folders = sorted((GROWTH / "broker-1").glob("keyed-*"))
    rows = _keys("--alone", "--format", "ndjson", *folders).rows("key_partitions")
    assert {(row["earlier_counts"], row["count_source"]) for row in rows} == {("2", "partitions")}
    given = _keys("--alone", "--partition-count", 4, "--format", "ndjson", *folders).rows("key_partitions")
    assert {(row["earlier_counts"], row["count_source"]) for row in given} == {("2", "given")}


def test_one_partition_is_enough_if_the_count_is_given() -> None:
    folder = GROWTH / "broker-1" / "by-hand-1"
    (row,) = _keys("--partition-count", 3, "--format", "ndjson", folder).rows("key_partitions")
    assert (row["partitioner"], row["keys"]) == ("other", topic("by-hand").locations.partitions["keys"][1])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--partition-count", 3, "--topic", "keyed", GROWTH], "3 is too low: keyed-3 is here; give at least 4"),
        (["--partition-count", 4, GROWTH], "name one with --topic"),
        (["--topic", "nowhere", GROWTH], "no topic 'nowhere'; there are "),
        ([GROWTH / "broker-1" / "__cluster_metadata-0"], "except of Kafka's internal topics"),
        (["--list", "values", GROWTH], "--list 'values' is not one of partitions, keys, producers"),
    ],
    ids=["count-too-low", "count-of-several", "no-such-topic", "internal", "no-such-list"],
)
def test_a_usage_error_is_one_sentence(words: list[object], says: str) -> None:
    assert says in sentence(_keys(*words))


def test_topics_of_one_name_and_two_ids_are_two(tmp_path: Path) -> None:
    """The topic was deleted and created again, and one broker still has the old one."""
    for broker, topic_id in ((1, "AAAAAAAAAAAAAAAAAAAAAQ"), (2, "AAAAAAAAAAAAAAAAAAAAAg")):
        sent_to(tmp_path / str(broker), at_home(KEYS, 2), 2, node_id=broker)
        for metadata in (tmp_path / str(broker)).glob("t-*/partition.metadata"):
            metadata.write_text(f"version: 0\ntopic_id: {topic_id}")
    assert sum(line.startswith("t: 2 partitions") for line in _keys(tmp_path).lines) == 2
    for metadata in (tmp_path / "2").glob("t-*/partition.metadata"):
        metadata.unlink()
    assert sum(line.startswith("t: 2 partitions") for line in _keys(tmp_path).lines) == 1


def test_a_partition_that_cannot_be_read_does_not_stop_the_command(tmp_path: Path) -> None:
    folder = sent_to(tmp_path, at_home(KEYS, 3), 3)
    log = folder / "t-1" / "00000000000000000000.log"
    log.unlink()
    log.symlink_to(tmp_path / "nowhere")
    ended = _keys(folder)
    assert ended.code == 3
    assert ended.lines[0].startswith("t: 3 partitions")
    with pytest.raises(InputError):
        kforensics.keys(folder)


def test_a_partition_that_is_removed_before_it_is_read_is_reported_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, messages = sent_to(tmp_path, at_home(KEYS, 3), 3), list[str]()
    found = investigate([str(folder)], None, messages.append, messages.append)
    (folder / "t-1" / "00000000000000000000.log").unlink()
    status = ExitStatus()
    (result,) = evaluate_topic_keys(found, KeysRequest(), status.add_unreadable)
    assert isinstance(result, TopicKeyResult)
    assert [summary.number for summary in result.topic.summaries] == [0, 2]
    (reported,) = capsys.readouterr().err.splitlines()
    assert reported.endswith("there is no such file; the other partitions are analyzed anyway")
    assert status.unreadable == 1


def test_hostile_keys_cannot_control_a_terminal(tmp_path: Path) -> None:
    hostile = b"\x1b]0;gone\x07<script>"
    ended = _keys(sent_to(tmp_path, [*at_home(KEYS, 3), *(Sent(hostile, number) for number in range(2))], 3))
    assert ended.code == 1
    assert all(line.isprintable() for line in ended.lines)
    assert "\\x1b]0;gone\\x07<script>" in ended.text


def test_long_lists_are_cut(tmp_path: Path) -> None:
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 5, at=100), *(Sent(None, 0, 1, number) for number in range(1, 15))]
    ended = _keys(sent_to(tmp_path, sent, 5))
    assert sum(line.startswith("    'customer-") for line in ended.lines) == 10
    (keys,) = (number for number, line in enumerate(ended.lines) if line.endswith(" more:"))
    assert ended.lines[keys + 1].startswith("  $ kforensics keys --list keys --format ndjson ")
    (producers,) = (number for number, line in enumerate(ended.lines) if line.endswith(" more producers:"))
    assert ended.lines[producers + 1].startswith("  $ kforensics keys --list producers --format ndjson ")


def test_the_python_function_refuses_an_unknown_list() -> None:
    with pytest.raises(UsageError, match="not one of partitions, keys, producers"):
        kforensics.keys(GROWTH, listed="values")
