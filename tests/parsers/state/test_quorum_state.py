from pathlib import Path

import pytest
from hypothesis import given

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.state.json_state import QuorumState, read_quorum_state
from tests.parsers.ranges import WideSource, mutated, prefixes, reasons, rows_of

OLD = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
NEW = b'{"leaderId":-1,"leaderEpoch":5,"votedId":3,"votedDirectoryId":"mDbRojYCZvmi6-CwwJBAqA","data_version":1}'


def test_version_0() -> None:
    """A static quorum lists its voters; all fields are kept as stored."""
    (row,) = rows_of(read_quorum_state, OLD)
    assert (row.data_version, row.leader_id, row.leader_epoch, row.voted_id) == (0, 1, 2, -1)
    assert dict(row.fields)["currentVoters"] == '[{"voterId":1}]'


def test_version_1() -> None:
    """A dynamic quorum identifies voters by their directory."""
    (row,) = rows_of(read_quorum_state, NEW)
    assert (row.leader_id, row.voted_id, row.voted_directory_id) == (-1, 3, "mDbRojYCZvmi6-CwwJBAqA")


def test_every_truncation() -> None:
    """No truncated file is accepted."""
    for data in list(prefixes(OLD))[1:-1]:
        assert reasons(rows_of(read_quorum_state, data)) == ["malformed"]


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (b"{}", "malformed", "Deserialized node {} does not have data_version field"),
        (b"[]", "malformed", "the JSON is not an object"),
        (
            b'{"data_version":2}',
            "version",
            "data_version (2) is not within the min (0) and max (1) supported version",
        ),
        (
            b'{"leaderId":1,"data_version":1}',
            "malformed",
            "QuorumStateData: unable to locate field 'leaderEpoch', which is mandatory in version 1",
        ),
        (NEW.replace(b'"leaderEpoch":5', b'"leaderEpoch":"x"'), "malformed", "leaderEpoch is not an integer"),
        (b"[" * 500_000, "malformed", None),
        (b"9" * 100_000, "malformed", None),
        (b'{"data_version":NaN}', "malformed", None),
        (b"\xff", "malformed", None),
        (bytes(99), "zeros", None),
        (NEW + b"\n{}", "trailing", None),
    ],
    ids=str,
)
def test_faults(data: bytes, reason: str, detail: str | None) -> None:
    """Each fault has its reason and, where Kafka has one, its message; nested brackets do not crash the reader."""
    damage = rows_of(read_quorum_state, data)[-1]
    assert damage.reason == reason
    assert detail is None or damage.detail == detail


def test_a_huge_file_is_not_read() -> None:
    """A file of a gigabyte is damage."""
    assert reasons(read_quorum_state(WideSource(OLD, 1 << 30))) == ["too-large"]


@given(mutated(OLD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes."""
    assert rows_of(read_quorum_state, data) or not data


def test_samples(sample_logs: Path) -> None:
    """The epoch of every real node is read."""
    paths = [path for path in sorted(sample_logs.rglob("quorum-state")) if "damaged" not in path.parts]
    assert paths
    for path in paths:
        with LocalSource(path) as source:
            (row,) = read_quorum_state(source)
        assert isinstance(row, QuorumState)
        assert row.leader_epoch >= 0
