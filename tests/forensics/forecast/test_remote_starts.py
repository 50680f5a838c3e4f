"""What a start makes of logs whose beginning is in remote storage, after a DeleteRecords there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kforensics.forensics.forecast.effects import START_UNREAD
from kforensics.forensics.forecast.forecast_rows import remedies
from kforensics.forensics.forecast.next_start import forecast_start
from tests.command import SAMPLES

CHECKPOINT = "log-start-offset-checkpoint"


def _copied(tmp_path: Path, entry: str | None) -> Path:
    """Return a log directory that was not shut down in order, with one entry or none in its log start checkpoint."""
    log_dir = Path(shutil.copytree(SAMPLES / "remote-retention" / "broker-1", tmp_path / "broker-1"))
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / CHECKPOINT).write_text("0\n0\n" if entry is None else f"0\n1\n{entry}\n")
    return log_dir


def _starts(log_dir: Path) -> dict[str, int | None]:
    effects = forecast_start([str(log_dir)]).all_effects()
    return {part.topic: effect.offset for part, effect in effects if part and effect.kind == START_UNREAD}


@pytest.mark.parametrize("entry", [None, "cut 0 0", "retained-and-cut 0 16"])
def test_a_start_within_a_segment_is_forgotten(tmp_path: Path, entry: str | None) -> None:
    """Where retention moved the start to a segment in remote storage, the broker finds it again."""
    log_dir = _copied(tmp_path, entry)
    assert _starts(log_dir) == {"cut": 8, "retained-and-cut": 16}
    steps = remedies(forecast_start([str(log_dir)]), "")
    assert [step.text for step in steps if "before offset 11 again" in step.text] == [
        "After the start, delete the records of cut-0 before offset 11 again."
    ]
    assert any('"topic":"cut","partition":0,"offset":11}' in step.command for step in steps)


def test_a_start_that_was_checkpointed_stays(tmp_path: Path) -> None:
    assert _starts(_copied(tmp_path, "cut 0 11")) == {"retained-and-cut": 16}
    assert _starts(SAMPLES / "remote-retention" / "broker-1") == {}


def test_without_the_metadata_of_remote_storage_nothing_is_said(tmp_path: Path) -> None:
    log_dir = _copied(tmp_path, None)
    shutil.rmtree(log_dir / "__remote_log_metadata-0")
    assert _starts(log_dir) == {}
