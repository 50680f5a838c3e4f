"""A log that shrinks while it is read is unread: what was read before does not fit what is read after."""

import os
import shutil
from pathlib import Path

import pytest

from kforensics.analyses.partitions import Investigation, investigate
from kforensics.errors import InputError
from kforensics.forensics.audit.partition_result import with_records
from kforensics.forensics.partition.log_chunk import ReadTask, log_chunks
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.parsers.kernels.policy import no_kernels
from tests.command import SAMPLES

SHRANK = "it shrank while it was being read; run the command again, or on a copy"


@pytest.fixture
def investigation(tmp_path: Path) -> Investigation:
    folder = shutil.copytree(SAMPLES / "transactions-v2" / "broker-1", tmp_path / "broker-1")
    return investigate([str(folder / "interleaved-0")], 0, print, print, alone=True)


def truncate(investigation: Investigation) -> str:
    """Cut the log at the end of its first batch, where nothing shows that there was more; return its path."""
    path = investigation.files[[file.kind for file in investigation.files].index("log")].path
    os.truncate(path, 12 + int.from_bytes(Path(path).read_bytes()[8:12]))
    return path


def test_a_log_that_shrinks_before_it_is_opened_is_unread(investigation: Investigation) -> None:
    path = truncate(investigation)
    errors: list[InputError] = []
    assert list(investigation.states(errors.append)) == []
    assert [(error.path, error.why) for error in errors] == [(path, SHRANK)]


def test_a_log_that_shrinks_before_its_records_are_read_is_unread(investigation: Investigation) -> None:
    errors: list[InputError] = []
    (state,) = investigation.states(errors.append)
    truncate(investigation)
    with pytest.raises(InputError, match=SHRANK):
        with_records(state, 0)


def test_a_log_that_shrinks_between_two_reads_is_unread(investigation: Investigation) -> None:
    path = Path(investigation.partitions[0].segments[0].path)
    log = path.read_bytes()
    path.write_bytes(log * (14_000_000 // len(log)))
    (partition,) = investigate([str(path.parent)], 0, print, print, alone=True).partitions
    chunks = log_chunks(ReadTask(partition, investigation.rules, kernels=no_kernels), SegmentSplit(0))
    next(chunks)
    os.truncate(path, len(log))
    with pytest.raises(InputError, match=SHRANK):
        list(chunks)
