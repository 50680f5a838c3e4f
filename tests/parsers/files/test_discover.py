import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kforensics.parsers.files.discover import (
    DeferredFolder,
    DiscoveryRow,
    FoundFile,
    Unreadable,
    discover,
    discover_folder,
    discover_lazily,
)
from lab.places import SAMPLES

BASE = "0" * 20
ID = "jWEeNoYKSW2RQRjlZxT1Xg"


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Create the log directory of broker 5 with a partition in each state."""
    log_dir = tmp_path / "broker-5"
    partition = log_dir / "my-topic-3"
    partition.mkdir(parents=True)
    (log_dir / "meta.properties").write_text("version=1\nnode.id=5\n")
    (log_dir / "replication-offset-checkpoint").write_text("0\n0\n")
    (partition / f"{BASE}.log").write_bytes(b"x" * 7)
    (partition / f"{BASE}.log.deleted").touch()
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    for state in ("delete", "future", "stray"):
        folder = log_dir / f"t-0.{'a' * 32}-{state}"
        folder.mkdir()
        (folder / f"{BASE}.index").touch()
    return log_dir


def files(rows: list[DiscoveryRow]) -> list[FoundFile]:
    assert not [row for row in rows if isinstance(row, Unreadable)]
    return [row for row in rows if isinstance(row, FoundFile)]


def test_log_directory(broker: Path) -> None:
    """Files come in name order, each with broker, topic, partition, topic id and state."""
    rows = files(list(discover([str(broker)])))
    assert [row.path for row in rows] == sorted(row.path for row in rows)
    assert {row.broker_id for row in rows} == {5}
    assert {row.log_dir for row in rows} == {str(broker)}
    (log,) = [row for row in rows if row.kind == "log" and row.state == "live"]
    assert log == FoundFile(
        path=str(broker / "my-topic-3" / f"{BASE}.log"),
        kind="log",
        size=7,
        broker_id=5,
        log_dir=str(broker),
        topic="my-topic",
        partition=3,
        base_offset=0,
        mtime_ms=log.mtime_ms,
        state="live",
        topic_id=ID,
    )
    assert log.mtime_ms == (broker / "my-topic-3" / f"{BASE}.log").stat().st_mtime_ns // 1_000_000
    assert [row.state for row in rows if row.kind == "index"] == ["deleted", "future", "stray"]
    assert [row.topic for row in rows if row.kind == "meta-properties"] == [None]


def test_a_broker_folder_is_not_a_partition(broker: Path) -> None:
    """``broker-5`` looks like the name of a partition, but its content does not, also when found from its parent."""
    rows = files(list(discover([str(broker.parent)])))
    assert {row.topic for row in rows} == {None, "my-topic", "t"}


@pytest.mark.parametrize("inside", ["", f"{BASE}.log"])
def test_a_part_of_a_log_directory(broker: Path, inside: str) -> None:
    """A partition or a file that is named directly still has its broker."""
    rows = files(list(discover([str(broker / "my-topic-3" / inside)])))
    assert {(row.broker_id, row.topic, row.topic_id) for row in rows} == {(5, "my-topic", ID)}


def test_relative_paths_stay_relative(broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are returned in the form in which they were given."""
    monkeypatch.chdir(broker / "my-topic-3")
    (row,) = files(list(discover([f"{BASE}.log"])))
    assert (row.path, row.broker_id, row.topic, row.log_dir) == (f"{BASE}.log", 5, "my-topic", str(broker))
    assert f"./{BASE}.log" in {row.path for row in files(list(discover(["."])))}


def test_globs(broker: Path) -> None:
    """A glob matches files and folders; a file that several paths name is found once."""
    pattern = str(broker / "*" / "*.index")
    assert len(files(list(discover([pattern, pattern, str(broker / "t-0.*-stray")])))) == 3
    assert list(discover([str(broker / "*.nothing")])) == [
        Unreadable(str(broker / "*.nothing"), "there is no such file")
    ]


@pytest.mark.parametrize("below", ["", "my-topic-3", f"my-topic-3/{BASE}.log", "*/*.index", "**/*.log"])
def test_uris(broker: Path, below: str) -> None:
    """A URI finds what a path finds."""
    path = str(broker / below) if below else str(broker)
    local = files(list(discover([path])))
    remote = files(list(discover([f"file://{path}"])))
    assert local
    assert [row.path.removeprefix("file://") for row in remote] == [row.path for row in local]
    assert [(row.kind, row.size, row.broker_id, row.topic_id, row.mtime_ms) for row in remote] == [
        (row.kind, row.size, row.broker_id, row.topic_id, row.mtime_ms) for row in local
    ]


@pytest.mark.parametrize("named", [("",), ("current", ""), ("", "current")])
def test_a_log_directory_that_a_link_names_too_is_read_once(
    named: tuple[str, ...], tmp_path: Path, broker: Path
) -> None:
    """As by ``current -> data-v2``: twice the same partitions would look like two copies of a broker."""
    link = tmp_path / "current"
    link.symlink_to(broker)
    first = broker if named == ("",) else tmp_path / named[0]
    found = files(list(discover([str(tmp_path / name) for name in named])))
    assert len(found) == 8
    assert {Path(row.path).is_relative_to(first) for row in found} == {True}
    lazily = discover_lazily([str(tmp_path / name) for name in named])
    names = [Path(row.path).name for row in lazily if isinstance(row, DeferredFolder)]
    assert len(names) == len({*names}) == 4


def test_unreadable_paths(tmp_path: Path, broker: Path) -> None:
    """Sockets, broken links, links to parents and unknown file systems are reported, and the rest is found."""
    (broker / "broken").symlink_to("nowhere")
    (broker / "up").symlink_to(tmp_path)
    os.mkfifo(broker / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(broker / "door"))
        rows = list(discover([str(tmp_path), "nope://x/y", "file:///nowhere"]))
    notes = {Path(row.path).name: row.why for row in rows if isinstance(row, Unreadable)}
    assert notes.pop("y").startswith("Unrecognized filesystem type")
    assert notes == {
        "broken": "no such file or directory",
        "up": "it is a link to one of its parent folders",
        "pipe": "it is a pipe, not a file",
        "door": "it is a socket, not a file",
        "nowhere": "there is no such file",
    }
    assert len([row for row in rows if isinstance(row, FoundFile)]) == 8


def test_a_folder_that_may_not_be_listed() -> None:
    """A folder without permission is reported; root drops its privileges first, because it may read anything."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "my-topic-3").mkdir(mode=0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            (row,) = discover([name])
        finally:
            os.seteuid(user)
    assert isinstance(row, Unreadable)
    assert "permission denied" in row.why


def test_damaged_neighbors(broker: Path) -> None:
    """Garbage in the metadata files leaves broker and topic id unknown."""
    (broker / "meta.properties").write_bytes(b"node.id=x\xff")
    (broker / "my-topic-3" / "partition.metadata").write_bytes(b"\xff")
    rows = files(list(discover([str(broker)])))
    assert {(row.broker_id, row.topic_id) for row in rows} == {(None, None)}


def test_samples(sample_logs: Path) -> None:
    """Every file of the samples is found, and every kind in an intact log directory is known."""
    rows = files(list(discover([str(sample_logs)])))
    assert {row.path for row in rows} == {str(path) for path in sample_logs.rglob("*") if path.is_file()}
    sound = [row for row in rows if row.log_dir is not None and "/damaged/" not in row.path]
    assert sound
    assert [row.path for row in sound if row.kind == "unknown"] == []
    assert {row.kind for row in rows} >= {"log", "index", "timeindex", "txnindex", "snapshot", "quorum-state"}
    assert {row.state for row in rows} >= {"live", "deleted", "cleaned", "swap", "future"}


def _discovered_lazily(paths: list[str]) -> list[DiscoveryRow]:
    rows: list[DiscoveryRow] = []
    for row in discover_lazily(paths):
        rows += discover_folder(row) if isinstance(row, DeferredFolder) else [row]
    return rows


@pytest.mark.parametrize("scenario", sorted(path.name for path in SAMPLES.iterdir() if path.is_dir()))
def test_lazy_discovery_finds_what_discover_finds(scenario: str) -> None:
    paths = [str(SAMPLES / scenario)]
    assert sorted(map(str, _discovered_lazily(paths))) == sorted(map(str, discover(paths)))


def test_only_partition_folders_of_log_directories_are_deferred(broker: Path) -> None:
    folders = [row for row in discover_lazily([str(broker.parent)]) if isinstance(row, DeferredFolder)]
    assert [Path(row.path).name.partition(".")[0] for row in folders] == ["my-topic-3", "t-0", "t-0", "t-0"]
    assert {row.owner.broker_id for row in folders} == {5}
    inside = [row for row in discover_lazily([str(broker / "my-topic-3")]) if isinstance(row, DeferredFolder)]
    assert inside == []


def test_lazy_discovery_yields_nothing_twice(broker: Path) -> None:
    """A folder may be both deferred and named directly, in either order."""
    paths = [str(broker / "my-topic-3"), str(broker / "my-topic-3" / f"{BASE}.log"), str(broker)]
    expected = sorted(map(str, discover([str(broker)])))
    for order in (paths, paths[::-1], [*paths, *paths]):
        assert sorted(map(str, _discovered_lazily(order))) == expected


def test_a_link_to_a_parent_is_detected_from_a_deferred_folder(broker: Path) -> None:
    (broker / "my-topic-3" / "up").symlink_to(broker)
    rows = _discovered_lazily([str(broker.parent)])
    assert [row for row in rows if isinstance(row, Unreadable)] == [
        Unreadable(str(broker / "my-topic-3" / "up"), "it is a link to one of its parent folders")
    ]
    assert sorted(map(str, rows)) == sorted(map(str, discover([str(broker.parent)])))
