from dataclasses import replace

import pytest

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.tables.file_rows import detect_log
from tests.parsers.builders import batch_of, record

UNKNOWN_FILE = FoundFile("copy", "unknown", 0)
BATCH = batch_of(record())


@pytest.mark.parametrize(
    "data",
    [
        BATCH,
        BATCH + b"torn",
        b"\0" + BATCH,
        b"\xff" * 1000 + BATCH + b"x",
        BATCH[:-1] + b"x" + BATCH,
        BATCH[5:] + BATCH,
    ],
)
def test_a_file_of_another_name_with_a_batch_anywhere_is_a_log(data: bytes) -> None:
    assert detect_log(UNKNOWN_FILE, BytesSource(data)) == replace(UNKNOWN_FILE, kind="log")


@pytest.mark.parametrize("data", [b"", b"notes", BATCH[:-1], BATCH[:-1] + b"x", bytes(5000), b"a line of text\n" * 500])
def test_a_file_without_a_valid_batch_stays_unknown(data: bytes) -> None:
    assert detect_log(UNKNOWN_FILE, BytesSource(data)) is UNKNOWN_FILE


def test_a_known_kind_is_kept() -> None:
    file = replace(UNKNOWN_FILE, kind="index")
    assert detect_log(file, BytesSource(BATCH)) is file
