import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files.log_names import FileName, FolderName, base_offset_of, parse_file_name, parse_folder_name

BASE = "00000000000000000042"
HEX = "0123456789abcdef0123456789abcdef"
UUID = "a_WEeNoYKSW2RQRjlZxT1X"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{BASE}.log", ("log", 42, "live")),
        (f"{BASE}.log.deleted", ("log", 42, "deleted")),
        (f"{BASE}.log.cleaned", ("log", 42, "cleaned")),
        (f"{BASE}.log.swap", ("log", 42, "swap")),
        (f"{BASE}.index", ("index", 42, "live")),
        (f"{BASE}.timeindex.swap", ("timeindex", 42, "swap")),
        (f"{BASE}.txnindex.cleaned", ("txnindex", 42, "cleaned")),
        (f"{BASE}.snapshot.deleted", ("snapshot", 42, "deleted")),
        ("0100.log", ("log", 100, "live")),
        ("9223372036854775807.log", ("log", 2**63 - 1, "live")),
        ("9223372036854775808.log", ("log", None, "live")),
        ("bootstrap.checkpoint", ("checkpoint", None, "live")),
        ("leader-epoch-checkpoint", ("leader-epoch-checkpoint", None, "live")),
        ("leader-epoch-checkpoint.tmp", ("leader-epoch-checkpoint", None, "tmp")),
        ("replication-offset-checkpoint", ("offset-checkpoint", None, "live")),
        ("partition.metadata.tmp", ("partition-metadata", None, "tmp")),
        (".kafka_cleanshutdown", ("clean-shutdown", None, "live")),
        ("_rlmm_committed_offsets", ("remote-offsets", None, "live")),
    ],
)
def test_file_names(name: str, expected: tuple[str, int | None, str]) -> None:
    """A name contains kind, base offset and state."""
    parsed = parse_file_name(name)
    assert parsed is not None
    assert (parsed.kind, parsed.base_offset, parsed.state) == expected


@pytest.mark.parametrize(
    "name", ["", "log", "x.log", ".log", f"{BASE}.txt", f"{BASE}.log.old", "-5.log", f"{BASE}.log."]
)
def test_other_files(name: str) -> None:
    """Names that Kafka does not write are not parsed."""
    assert parse_file_name(name) is None


@pytest.mark.parametrize(
    ("suffix", "state"), [("", "live"), (".deleted", "deleted"), ("-123456.checkpoint.part", "part")]
)
def test_kraft_snapshots(suffix: str, state: str) -> None:
    """The name of a snapshot contains end offset and epoch."""
    middle = "" if state == "part" else ".checkpoint"
    name = f"{BASE}-0000000007{middle}{suffix}"
    assert parse_file_name(name) == FileName(name, "checkpoint", 42, state, leader_epoch=7)


@pytest.mark.parametrize(("suffix", "state"), [("", "live"), (".tmp", "tmp"), (".deleted", "deleted")])
def test_remote_index_cache(suffix: str, state: str) -> None:
    """The offset ends at the first underscore; the segment id may contain more."""
    name = f"777_{UUID}.timeindex{suffix}"
    assert parse_file_name(name) == FileName(name, "timeindex", 777, state, remote_segment_id=UUID)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic-0", ("topic", 0, "live")),
        ("my-topic.v1-12", ("my-topic.v1", 12, "live")),
        ("__cluster_metadata-0", ("__cluster_metadata", 0, "live")),
        (f"my-topic-3.{HEX}-delete", ("my-topic", 3, "deleted")),
        (f"a.b-3.{HEX}-future", ("a.b", 3, "future")),
        (f"t-2147483647.{HEX}-stray", ("t", 2**31 - 1, "stray")),
    ],
)
def test_folder_names(name: str, expected: tuple[str, int, str]) -> None:
    """A name is split at its last dash, after removing the suffix of a renamed folder."""
    parsed = parse_folder_name(name)
    assert parsed is not None
    assert (parsed.topic, parsed.partition, parsed.state) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "topic",
        "-0",
        "topic-",
        "topic-x",
        "topic-2147483648",
        "topic--1x",
        "t-0-delete",
        "t.x-delete",
        "t-5.-delete",
    ],
)
def test_other_folders(name: str) -> None:
    """A name that Kafka refuses is not a partition."""
    assert parse_folder_name(name) is None


def test_a_cut_topic() -> None:
    """Only a renamed folder of 255 characters may have lost the end of its topic."""
    name = f"{'t' * 212}-0.{HEX}-delete"
    assert parse_folder_name(name) == FolderName(name, "t" * 212, 0, "deleted")
    assert parse_folder_name("t" + name) == FolderName("t" + name, "t" * 213, 0, "deleted", topic_may_be_cut=True)
    future = "t" + name.replace("delete", "future")
    assert parse_folder_name(future) == FolderName(future, "t" * 213, 0, "future")


def test_base_offset_of() -> None:
    """The name may be given as a path or URI."""
    assert base_offset_of(f"s3://bucket/t-0/{BASE}.index") == 42
    assert base_offset_of("t-0/leader-epoch-checkpoint") is None


@given(st.text(max_size=40))
def test_any_name_is_accepted(name: str) -> None:
    """Any text is parsed or None."""
    parse_file_name(name)
    parse_folder_name(name)
