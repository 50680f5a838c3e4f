"""What became of the records of a topic in its mirror, each verdict beside something that looks like it and is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.analyses.mirror import MirrorRequest, compare_mirrors
from kforensics.forensics.mirrors.mirror_ranges import RangeKind
from kforensics.forensics.mirrors.mirror_rows import MirrorComparison
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.mirrors.mirrored_logs import TIME, at_once, every, forge_mirror, forge_source, forge_syncs

TEN = "plain @0-9"


def _compare(folder: Path) -> MirrorComparison:
    def fail(what: object) -> None:
        raise AssertionError(what)

    (comparison,) = compare_mirrors(MirrorRequest(str(folder / "source"), str(folder / "target")), fail, fail)
    return comparison


def _found(folder: Path) -> dict[str, list[tuple[int | None, int | None, int]]]:
    """Return offsets in the source and number of records of all ranges, by kind."""
    found: dict[str, list[tuple[int | None, int | None, int]]] = {}
    for one in _compare(folder).ranges():
        found.setdefault(one.kind, []).append((one.first_offset, one.last_offset, one.records))
    return found


def test_a_whole_copy(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, every(10))
    assert _found(tmp_path) == {"copied": [(0, 9, 10)]}
    assert _compare(tmp_path).verdict == "10 of 10 records copied"


def test_a_gap_between_copied_records_is_missing(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, {0: 0, 1: 1, 2: 5, 3: 6, 4: 8, 5: 9})
    assert _found(tmp_path)["missing"] == [(2, 4, 3), (7, 7, 1)]
    assert _compare(tmp_path).verdict.startswith("4 records missing between copied ones; ")


def test_records_after_the_last_copied_one_are_lag(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, every(7))
    assert _found(tmp_path) == {"copied": [(0, 6, 7)], "lag": [(7, 9, 3)]}


def test_an_empty_mirror_lags(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge(tmp_path / "target", {0: ""}, topic="eu.t")
    assert _found(tmp_path) == {"lag": [(0, 9, 10)]}


def test_a_mirror_whose_start_was_deleted_lost_nothing(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, {offset: offset for offset in range(4, 10)})
    assert _found(tmp_path) == {"before-mirror": [(0, 3, 4)], "copied": [(4, 9, 6)]}


def test_a_source_whose_start_was_deleted_does_not_make_the_mirror_foreign(tmp_path: Path) -> None:
    forge_source(tmp_path, {4: "plain @4-9"})
    forge_mirror(tmp_path, every(10))
    assert _found(tmp_path) == {"gone-in-source": [(None, None, 4)], "copied": [(4, 9, 6)]}


def test_compaction_of_the_mirror_is_no_loss(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, {0: 0, 1: 1, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9}, compacted=True, first_dirty=10)
    assert _found(tmp_path) == {"compacted-in-mirror": [(2, 4, 3)], "copied": [(0, 9, 7)]}


def test_compaction_of_the_source_does_not_make_the_mirror_foreign(tmp_path: Path) -> None:
    forge_source(tmp_path, "plain @0-1; plain @5-9", compacted=True, first_dirty=10)
    forge_mirror(tmp_path, every(10))
    assert set(_found(tmp_path)) == {"gone-in-source", "copied"}


def test_records_that_the_source_never_had_are_only_in_the_mirror(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, {0: 0, 1: 1, 2: "other", **{offset + 1: offset for offset in range(2, 10)}})
    assert _found(tmp_path) == {"copied": [(0, 1, 2), (2, 9, 8)], "only-in-mirror": [(None, None, 1)]}


def test_a_rewind_copies_twice(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, {**every(8), **{offset + 3: offset for offset in range(5, 10)}})
    assert _found(tmp_path) == {"copied": [(0, 7, 8), (8, 9, 2)], "copied-twice": [(5, 7, 3)]}


def test_equal_records_of_the_source_are_not_copied_twice(tmp_path: Path) -> None:
    contents = {0: [(b"k0", b"v0"), (b"k0", b"v0"), (b"k2", b"v2")]}
    forge_source(tmp_path, "plain @0-2", records=contents)
    forge_mirror(tmp_path, {0: 0, 1: 0, 2: 2})
    assert _found(tmp_path) == {"copied": [(0, 2, 3)]}


def test_what_the_mirror_aborted_itself_is_no_copy(tmp_path: Path) -> None:
    """With exactly-once support MirrorMaker writes transactions, and writes an aborted one again."""
    forge_source(tmp_path, "plain @0-2")
    contents = {base: [(f"k{number}".encode(), f"v{number}".encode()) for number in range(3)] for base in (0, 4)}
    batches = at_once("D 7 0 0-2 @0-2 T; M 7 0 A 1 @3; D 7 0 3-5 @4-6 T; M 7 0 C 1 @7")
    forge(tmp_path / "target", batches, topic="eu.t", records=contents)
    comparison = _compare(tmp_path)
    assert dict(comparison.counts) == {RangeKind.COPIED: (1, 3)}
    assert comparison.logs is not None
    assert comparison.logs.aborted_by_mirror == 3


def test_aborted_records_are_plain_in_a_mirror_that_reads_uncommitted(tmp_path: Path) -> None:
    forge_source(tmp_path, "plain @0-1; D 7 3 0-2 @2-4 T; M 7 3 A 1 @5; plain @6-7")
    forge_mirror(tmp_path, dict(enumerate((0, 1, 2, 3, 4, 6, 7))))
    (aborted,) = [one for one in _compare(tmp_path).ranges() if one.kind is RangeKind.ABORTED_COPIED]
    assert aborted[1:8] == (2, 4, 3, 2, 4, 7, 3)


def test_a_mirror_that_reads_committed_misses_nothing(tmp_path: Path) -> None:
    forge_source(tmp_path, "plain @0-1; D 7 3 0-2 @2-4 T; M 7 3 A 1 @5; plain @6-7")
    forge_mirror(tmp_path, dict(enumerate((0, 1, 6, 7))))
    assert _found(tmp_path) == {"copied": [(0, 1, 2), (6, 7, 2)]}


def test_a_committed_transaction_of_which_the_mirror_has_a_part(tmp_path: Path) -> None:
    forge_source(tmp_path, "plain @0; D 7 3 0-3 @1-4 T; M 7 3 C 1 @5")
    forge_mirror(tmp_path, every(3))
    found = _found(tmp_path)
    assert found["partial-transaction"] == [(1, 2, 2)]
    assert found["lag"] == [(3, 4, 2)]


def test_a_transaction_at_the_deleted_start_of_the_mirror_is_not_partial(tmp_path: Path) -> None:
    forge_source(tmp_path, "D 7 3 0-3 @0-3 T; M 7 3 C 1 @4; plain @5")
    forge_mirror(tmp_path, {2: 2, 3: 3, 4: 5})
    assert "partial-transaction" not in _found(tmp_path)


def test_an_open_transaction_that_was_copied(tmp_path: Path) -> None:
    forge_source(tmp_path, "plain @0; D 7 3 0-1 @1-2 T")
    forge_mirror(tmp_path, every(3))
    assert _found(tmp_path)["open-copied"] == [(1, 2, 2)]


def test_a_topic_with_other_records_has_nothing_in_common(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    forge_mirror(tmp_path, {0: "a", 1: "b"})
    assert _found(tmp_path) == {"nothing-in-common": [(0, 9, 10)]}


def test_log_append_time_of_the_mirror_is_not_compared(tmp_path: Path) -> None:
    forge_source(tmp_path, TEN)
    folder = forge_mirror(tmp_path, every(3), log_append_time=True)
    patch(file_of(folder / "eu.t-0"), 1, max_timestamp=TIME + 5)
    assert _found(tmp_path)["copied"] == [(0, 2, 3)]


@pytest.mark.parametrize(
    ("syncs", "texts"),
    [
        ({0: 0, 7: 6, 9: 8}, []),
        ({0: 0, 7: 7}, ["offset 7 of the mirror is offset 8 of the source"]),
        ({9: 12}, ["the mirror ends at offset 9"]),
    ],
    ids=["true", "shifted", "beyond"],
)
def test_syncs(syncs: dict[int, int], texts: list[str], tmp_path: Path) -> None:
    forge_source(tmp_path, "plain @0-4; D 7 3 0-0 @5 T; M 7 3 C 1 @6; plain @7-9")
    forge_mirror(tmp_path, dict(enumerate((0, 1, 2, 3, 4, 5, 7, 8, 9))))
    forge_syncs(tmp_path, syncs)
    details = [one.detail for one in _compare(tmp_path).ranges() if one.kind is RangeKind.SYNC_CONTRADICTION]
    assert [text in detail for text, detail in zip(texts, details, strict=True)] == [True] * len(texts)


def test_a_sync_from_before_the_start_of_both_logs_is_not_contradicted(tmp_path: Path) -> None:
    forge_source(tmp_path, {4: "plain @4-9"})
    forge_mirror(tmp_path, every(10))
    forge_syncs(tmp_path, {0: 0, 2: 2})
    assert "sync-contradiction" not in _found(tmp_path)


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_a_damaged_batch_had_is_neither_missing_nor_foreign(side: str, tmp_path: Path) -> None:
    forge_source(tmp_path, "; ".join(f"plain @{offset}" for offset in range(10)))
    forge_mirror(tmp_path, every(10))
    (log,) = (tmp_path / side).glob("*t-0")
    patch(file_of(log), 5, crc=1)
    kind, offset = ("gone-in-source", None) if side == "source" else ("unreadable-in-mirror", 5)
    assert _found(tmp_path) == {
        kind: [(offset, offset, 1)],
        "copied": [(0, 9, 9)] if offset else [(0, 4, 5), (6, 9, 4)],
    }
    comparison = _compare(tmp_path)
    assert comparison.logs is not None
    assert comparison.logs.damaged == ((1, 0) if side == "source" else (0, 1))


def test_pages_and_temporary_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forge_source(tmp_path, "plain @0-299; D 7 3 0-99 @300-399 T; M 7 3 A 1 @400; plain @401-450")
    copies = [*range(100), *range(120, 350), *range(330, 400), *range(401, 440)]
    forge_mirror(tmp_path, dict(enumerate(copies)))
    expected = [*_compare(tmp_path).ranges()]
    monkeypatch.setattr("kforensics.forensics.mirrors.record_matching.MEMORY_SHARES", 1 << 17)
    assert [*_compare(tmp_path).ranges()] == expected
    assert {one.kind for one in expected} >= {RangeKind.MISSING, RangeKind.COPIED_TWICE, RangeKind.LAG}
