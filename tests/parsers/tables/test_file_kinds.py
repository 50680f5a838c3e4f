from dataclasses import replace

import pytest

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.tables.file_kinds import recognised
from tests.parsers.builders import batch_of, record

STRANGE = FoundFile("copy", "unknown", 0)
BATCH = batch_of(record())


def test_a_log_under_a_strange_name_is_a_log() -> None:
    assert recognised(STRANGE, BytesSource(BATCH + b"torn")) == replace(STRANGE, kind="log")


@pytest.mark.parametrize("data", [b"", b"notes", BATCH[:-1], b"\0" + BATCH, BATCH[:-1] + b"x"])
def test_what_does_not_begin_with_a_sound_batch_stays_unknown(data: bytes) -> None:
    assert recognised(STRANGE, BytesSource(data)) is STRANGE


def test_a_name_that_tells_is_believed() -> None:
    found = replace(STRANGE, kind="index")
    assert recognised(found, BytesSource(BATCH)) is found
