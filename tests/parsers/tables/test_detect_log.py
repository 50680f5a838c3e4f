from dataclasses import replace

import pytest

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.tables.file_rows import detect_log
from tests.parsers.builders import batch_of, record

UNKNOWN_FILE = FoundFile("copy", "unknown", 0)
BATCH = batch_of(record())


def test_a_log_with_an_unknown_name_is_detected() -> None:
    assert detect_log(UNKNOWN_FILE, BytesSource(BATCH + b"torn")) == replace(UNKNOWN_FILE, kind="log")


@pytest.mark.parametrize("data", [b"", b"notes", BATCH[:-1], b"\0" + BATCH, BATCH[:-1] + b"x"])
def test_a_file_without_a_valid_first_batch_stays_unknown(data: bytes) -> None:
    assert detect_log(UNKNOWN_FILE, BytesSource(data)) is UNKNOWN_FILE


def test_a_known_kind_is_kept() -> None:
    file = replace(UNKNOWN_FILE, kind="index")
    assert detect_log(file, BytesSource(BATCH)) is file
