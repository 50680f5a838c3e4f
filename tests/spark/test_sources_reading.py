"""What tasks of the data source read, without Spark: any split gives the same rows, a selection those of a filter."""

import random
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.errors import InputError
from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.tables.schemas import arrow_schema
from tests.command import SAMPLES
from tests.forensics.forge import file_of, forge, patch
from tests.parsers.builders import GZIP, ZSTD
from tests.spark.source_tables import planned, read, read_of
from tests.thorough import of_each_kind, share, some

SCENARIOS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")
MIXED = ("legacy-2.7", "damaged", "transactions-v2")
LOG_TABLES = ("batches", "records", "damage")
field = pc.field
kernels = pytest.mark.parametrize("kernels", ["always", "never"])


def _batches(first: int, end: int, producers: int = 3) -> str:
    """Return batches of two records by producers in turns."""
    return "; ".join(
        f"D {offset // 2 % producers} 0 {offset // 2 // producers * 2}-{offset // 2 // producers * 2 + 1}"
        f" @{offset}-{offset + 1} N"
        for offset in range(first, end, 2)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a partition of three segments, with an index entry for each batch."""
    return forge(tmp_path, {start: _batches(start, start + 60) for start in (0, 60, 120)})


def _by_place(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in ("path", "start", "end", "reason", "detail")])


@pytest.mark.exhaustive
@pytest.mark.parametrize("scenario", of_each_kind(SCENARIOS))
def test_splits_do_not_show(scenario: str) -> None:
    found = kforensics.dump(SAMPLES / scenario)
    for table in LOG_TABLES:
        whole = read(table, SAMPLES / scenario)
        wanted, works = planned(table, SAMPLES / scenario, split_size=1)
        assert len(works) > 1 or len(found.files) == 1
        assert read_of(wanted, works).equals(whole)
        expected = found.table(table)
        assert _by_place(whole).equals(_by_place(expected)) if table == "damage" else whole.equals(expected)


@kernels
def test_a_log_cut_at_each_batch_has_the_same_rows(folder: Path, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
    wanted, works = planned("records", folder, split_size=1)
    assert len(works) == 90
    assert read_of(wanted, works).equals(kforensics.dump(folder).records)
    assert read_of(wanted, works)["offset"].to_pylist() == list(range(180))


@kernels
@pytest.mark.parametrize("seed", range(share(40, 4)))
def test_a_damaged_log_cut_anywhere_has_the_same_rows_and_damage(
    folder: Path, seed: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage that extends into the next split has the same reason as in a log read whole."""
    monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
    dice = random.Random(seed)  # noqa: S311  # which bytes are spoilt, no secret
    log = file_of(folder)
    data = bytearray(log.read_bytes())
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data))
        size = dice.choice((1, 4, 30, 100, 400))
        data[at : at + size] = dice.choice((bytes(size), dice.randbytes(size)))[: len(data) - at]
    log.write_bytes(data)
    found = kforensics.dump(folder)
    for table in LOG_TABLES:
        wanted, works = planned(table, folder, split_size=1)
        assert len(works) > 30
        assert read_of(wanted, works).equals(found.table(table)), table


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("scenario", "kernels"),
    [*product(of_each_kind(SCENARIOS), ["always"]), *product(some(MIXED, 2), ["never"])],
)
def test_what_is_selected_is_what_a_filter_leaves(scenario: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers that lie, timestamps out of order and logs of formats 0 and 1 included."""
    monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
    path, found = SAMPLES / scenario, kforensics.dump(SAMPLES / scenario)
    (middle,) = pc.quantile(found.records["timestamp"], 0.5).to_pylist()
    time = int(middle)
    for options, of_batches, of_records in [
        ({"start_offset": 5, "end_offset": 9}, _from(5) & _below(9), (field("offset") >= 5) & (field("offset") < 9)),
        ({"start_offset": 40}, _from(40), field("offset") >= 40),
        ({"end_offset": 12}, _below(12), field("offset") < 12),
        (
            {"start_time": time, "end_time": time + 50_000},
            field("max_timestamp") >= time,
            (field("timestamp") >= time) & (field("timestamp") < time + 50_000),
        ),
    ]:
        assert read("batches", path, split_size=1, **options).equals(found.batches.filter(of_batches)), options
        assert read("records", path, split_size=1, **options).equals(found.records.filter(of_records)), options


def _from(offset: int) -> pc.Expression:
    return field("last_offset") >= offset


def _below(offset: int) -> pc.Expression:
    return pc.coalesce(field("base_offset"), pa.scalar(0, pa.int64())) < offset


@pytest.mark.parametrize("scenario", MIXED)
def test_a_producers_records_are_those_of_its_batches(scenario: str) -> None:
    path, found = SAMPLES / scenario, kforensics.dump(SAMPLES / scenario)
    producer = max(number for number in found.batches["producer_id"].to_pylist() if number is not None)
    batches = found.batches.filter(field("producer_id") == producer)
    assert read("batches", path, producer_id=producer).equals(batches)
    places = set(zip(batches["path"].to_pylist(), batches["position"].to_pylist(), strict=True))
    records = found.records
    its = zip(records["path"].to_pylist(), records["batch_position"].to_pylist(), strict=True)
    expected = records.filter(pa.array([place in places for place in its]))
    assert expected.num_rows > 0
    assert read("records", path, producer_id=producer).equals(expected)
    assert read("records", path, producer_id=123456).num_rows == 0


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_records_that_lie_outside_their_header_are_selected(tmp_path: Path, codec: int) -> None:
    """The header of the second batch says that it ends at 60; records go on."""
    folder = forge(tmp_path, {0: "plain @0-9; plain @10-19; plain @20-29"}, codec=codec)
    patch(file_of(folder), 10, last_offset_delta=-1)
    assert read("records", folder, start_offset=13, end_offset=16)["offset"].to_pylist() == [13, 14, 15]


def test_columns_come_in_the_order_asked_for(folder: Path) -> None:
    found = read("records", folder, columns="value, topic ,offset", topic="t")
    assert found.schema == pa.schema([arrow_schema("records").field(name) for name in ("value", "topic", "offset")])
    assert found.equals(kforensics.dump(folder).records.select(["value", "topic", "offset"]))


def test_topics_and_partitions_are_those_of_the_files_or_lines(tmp_path: Path) -> None:
    for topic, partition in (("orders", 0), ("orders", 1), ("bills", 0)):
        forge(tmp_path, {0: "plain @0-9"}, topic=topic, partition=partition)
    found = kforensics.dump(tmp_path)
    for table in ("batches", "records", "files", "checkpoints", "leader_epochs", "index_entries"):
        rows = found.table(table)
        orders = read(table, tmp_path, topic="orders")
        assert orders.equals(rows.filter(field("topic") == "orders")), table
        one = read(table, tmp_path, topic="orders,bills", partition="1, 7")
        assert one.equals(rows.filter((field("topic") == "orders") & (field("partition") == 1))), table
        if table != "index_entries":
            assert orders.num_rows > one.num_rows > 0


def test_a_file_that_shrinks_after_planning_is_damage(folder: Path) -> None:
    log = file_of(folder, 60)
    wanted, works = planned("damage", folder, split_size=1)
    batches, batch_works = planned("batches", folder, split_size=1)
    log.write_bytes(log.read_bytes()[:-10])
    (damage,) = read_of(wanted, works).to_pylist()
    assert (damage["path"], damage["reason"]) == (str(log), "truncated")
    assert read_of(batches, batch_works).num_rows == 89
    log.write_bytes(b"")
    assert read_of(batches, batch_works).num_rows == 60


@kernels
def test_an_error_in_mid_file_is_damage_and_what_came_before_it_is_there(
    folder: Path, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails after the first batches of the second segment."""
    monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
    log, limit = file_of(folder, 60), 500
    whole, read_into, read_bytes = read("records", folder), LocalSource.read_into, LocalSource.read

    def check(source: LocalSource, end: int) -> None:
        if source.path == str(log) and end > limit:
            raise InputError(source.path, "reading at byte 0x1f4 failed: Input/output error")

    def failing_into(self: LocalSource, position: int, target: memoryview) -> int:
        check(self, position + len(target))
        return read_into(self, position, target)

    def failing(self: LocalSource, position: int, length: int) -> bytes:
        check(self, position + length)
        return read_bytes(self, position, length)

    wanted, works = planned("records", folder, split_size=1)
    of_damage, damage_works = planned("damage", folder, split_size=1)
    monkeypatch.setattr(LocalSource, "read_into", failing_into)
    monkeypatch.setattr(LocalSource, "read", failing)
    found = read_of(wanted, works)
    assert 120 < found.num_rows < 180
    assert set(found["offset"].to_pylist()) == set(whole["offset"].to_pylist()) - set(range(70, 120))
    rows = read_of(of_damage, damage_works).to_pylist()
    assert {(row["path"], row["reason"]) for row in rows} == {(str(log), "unreadable")}
    assert [row["start"] for row in rows[1:]] == [row["end"] for row in rows[:-1]]
    assert rows[0]["start"] < limit
    assert rows[-1]["end"] == log.stat().st_size
    assert {row["detail"] for row in rows} == {"reading at byte 0x1f4 failed: Input/output error"}


def test_files_under_strange_names_are_read_as_what_they_are(folder: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in ("copy", "copy.log", "00000000000000000000.log.1"):
        (copies / name).write_bytes(file_of(folder).read_bytes())
    (copies / "notes.txt").write_text("no log")
    of_folder = {Path(path).name for path in read("batches", copies)["path"].to_pylist()}
    assert of_folder == {"copy", "copy.log", "00000000000000000000.log.1"}
    assert read("records", copies).equals(kforensics.dump(copies).records)
    assert read("records", copies / "copy.log", split_size=1)["offset"].to_pylist() == list(range(60))
    assert read("damage", copies).num_rows == 0
