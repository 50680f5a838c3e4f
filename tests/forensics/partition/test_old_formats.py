"""Producers that a broker forgets when it loads a log whose topic went back to message format 0 or 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.core.rules import Rules
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import OffsetStory, RecordStatus
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import stable_offset
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.audit.test_copy_ages import codes_under
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import forge_coordinator
from tests.forensics.forge import file_of, forge, snapshot_bytes
from tests.parsers.builders import message

OPEN = "D 1 0 0-0 @0-0 T"
LATER = "plain @3; plain @4"


def forged(folder: Path, snapshots: dict[int, bytes | None], *, magic: int = 1) -> Path:
    """Forge a log whose offsets 1 and 2 are messages of an old format."""
    place = forge(folder, f"{OPEN}; plain @1; plain @2; {LATER}", clean_shutdown=False, snapshots=snapshots)
    folder = folder.parent / f"{folder.name}-parts"
    first, later = (
        forge(folder / "a", OPEN, clean_shutdown=False),
        forge(folder / "b", {3: LATER}, clean_shutdown=False),
    )
    old = b"".join(message(offset, b"k", b"v", magic=magic) for offset in (1, 2))
    file_of(place).write_bytes(file_of(first).read_bytes() + old + file_of(later, 3).read_bytes())
    return place


def state_of(place: Path) -> PartitionState:
    """Return the state of the partition in a folder."""
    (partition,) = partitions_of(row for row in discover([str(place)]) if isinstance(row, FoundFile))
    return examine(partition, Rules(NOW))


def story_of(place: Path, offset: int) -> OffsetStory:
    """Return the explanation of an offset of the partition in a folder."""
    return OffsetExplainer(state_of(place)).story(offset)


def lso(state: PartitionState) -> tuple[int, int]:
    stable = stable_offset(state)
    return stable.lowest, stable.last_stable_offset


@pytest.mark.parametrize("magic", [0, 1])
def test_a_broker_that_loaded_the_log_forgot_the_open_transaction(magic: int, tmp_path: Path) -> None:
    """As Kafka 2.8.2 answered: the last stable offset is the log end, and the new snapshot is empty."""
    state = state_of(forged(tmp_path / "b", {3: snapshot_bytes([])}, magic=magic))
    assert lso(state) == (5, 5)
    assert not len(state.open_transactions)


def test_a_broker_that_did_not_load_the_log_still_has_it(tmp_path: Path) -> None:
    assert lso(state_of(forged(tmp_path / "b", {}))) == (0, 0)


def test_an_empty_snapshot_that_brokers_reject_leaves_a_range(tmp_path: Path) -> None:
    """It was written over a longer one: the broker that wrote it forgot the transaction, the next one replays it."""
    assert lso(state_of(forged(tmp_path / "b", {3: snapshot_bytes([]) + bytes(46)}))) == (0, 5)


def test_what_an_empty_snapshot_lacks_is_forgotten_also_in_a_log_that_never_went_back(tmp_path: Path) -> None:
    """The broker took the snapshot from its memory, whatever the format of the messages."""
    place = forge(tmp_path, f"{OPEN}; plain @1; plain @2; {LATER}", clean_shutdown=False, snapshots={3: []})
    assert lso(state_of(place)) == (5, 5)


def test_all_consumers_receive_what_a_broker_forgot(tmp_path: Path) -> None:
    """As read_committed consumers of Kafka 2.8.2 and 3.3.2 did, also once the coordinator had aborted it."""
    place = forged(tmp_path / "b", {3: snapshot_bytes([])})
    forgotten = story_of(place, 0)
    assert (forgotten.status, forgotten.read_committed) == (RecordStatus.VISIBLE, True)
    assert "the transaction of producer 1 from offset 0, which the broker forgot" in forgotten.why
    runs = list(OffsetExplainer(state_of(place)).runs(0, 5))
    assert [(run.first_offset, run.last_offset, run.story.status) for run in runs] == [
        (0, 0, RecordStatus.VISIBLE),
        (1, 4, RecordStatus.VISIBLE),
    ]


@pytest.mark.parametrize("snapshots", [{}, {3: snapshot_bytes([]) + bytes(46)}])
def test_what_no_broker_is_sure_to_have_forgotten_is_undecided(
    snapshots: dict[int, bytes | None], tmp_path: Path
) -> None:
    story = story_of(forged(tmp_path / "b", snapshots), 0)
    assert (story.status, story.read_committed) == (RecordStatus.UNDECIDED, False)


@pytest.mark.parametrize("emptied", [False, True])
def test_nothing_is_reported_that_the_broker_does_by_its_rules(emptied: bool, tmp_path: Path) -> None:
    """It appends no marker while the topic has the old format, and forgets the transaction when it starts."""
    folder = tmp_path / "b"
    ended = "a Ongoing 1 0 {t-0} t 6; a PrepareCommit 1 0 {t-0} t 20; a CompleteCommit 1 0 t 25"
    forge_coordinator(folder, f"a Empty 1 0 t 0; {ended}")
    forged(folder, {3: snapshot_bytes([])} if emptied else {})
    codes, _ = codes_under(folder)
    assert not codes & {"atomicity-marker-missing", "snapshot-open-txn-mismatch", "snapshot-missing-producer"}
