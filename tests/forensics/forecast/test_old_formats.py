"""The last stable offset after a start where the log ends in an older message format with a transaction open.

Kafka 2.8.2 and 3.3.2 forgot it when they loaded the log, because the topic still had that format.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.forecast.log_loading import load_log
from tests.command import run
from tests.forensics.coordinators.test_refused_markers import COMMITTED, DATA, SECOND, write
from tests.forensics.forge import forge


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(("release", "may_forget"), [("2.8", True), ("3.9", True), ("4.0", False)])
def test_an_open_transaction_may_be_forgotten_by_releases_that_write_old_formats(
    release: str, may_forget: bool, clean: bool, tmp_path: Path
) -> None:
    write(tmp_path / "b", COMMITTED, clean=clean)
    loaded = load_log(str(tmp_path / "b" / "t-0"), 0, 0, clean=False, release=release)
    assert (loaded.last_stable, loaded.log_end, loaded.may_forget) == (0, 3, may_forget)


def test_nothing_is_forgotten_where_nothing_is_open(tmp_path: Path) -> None:
    write(tmp_path / "b", COMMITTED, data=f"{DATA}; M 1 0 C 0 @1", first_old=2)
    loaded = load_log(str(tmp_path / "b" / "t-0"), 0, 0, clean=False, release="3.9")
    assert (loaded.last_stable, loaded.may_forget) == (4, False)


def test_nothing_is_forgotten_where_the_log_ends_in_format_2(tmp_path: Path) -> None:
    place = forge(tmp_path, f"{DATA}; {SECOND}", clean_shutdown=False)
    loaded = load_log(str(place), 0, 0, clean=False, release="3.9")
    assert (loaded.last_stable, loaded.may_forget) == (2, False)


def test_both_offsets_are_stated(tmp_path: Path) -> None:
    write(tmp_path / "b", COMMITTED)
    (tmp_path / "b" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=a2ZvcmVuc2ljcy1mb3JnZQ\n")
    text = run("forecast", "--all", "-q", "--release", "3.9", tmp_path / "b").out.decode()
    assert "t-0 afterwards: served, log 0 to 3, LSO 0, or 3 if the topic still has message format 0 or 1" in text
