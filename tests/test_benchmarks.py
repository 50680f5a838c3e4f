import json
import sys
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import agreement, bars, memory, peers, segments, speed
from benchmarks.agreement import Conclusion
from benchmarks.measure import Metrics, Result, Run, Spread, run_once
from benchmarks.peers import AUDIT, DUMP, LSO, PARQUET, PRINT_DATA_LOG, PRODUCERS, TRANSACTIONS, Peer
from benchmarks.segments import Segment
from benchmarks.tables import aligned
from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.indexes import TransactionIndexEntry, read_transaction_index
from lab.places import SAMPLES

pytestmark = pytest.mark.slow

VERDICTS = (LSO, TRANSACTIONS, PRODUCERS, AUDIT)
AGREED = Conclusion(end=9, batches=7, undecided=3, producers=2, aborted=1, aborted_checksum=5)


def segment(name: str) -> Segment:
    return Segment(name, Path("0.log"), records=1, batches=1, uncompressed=1)


@pytest.fixture
def lines() -> list[bars.Line]:
    measured = [
        (segment("start-up"), [result(DUMP, 2.999, peak_mb=40)]),
        (
            segment("plain"),
            [
                result("kafka-dump-log", 1, peak_mb=900),
                result(DUMP, 3, peak_mb=120),
                result(PRINT_DATA_LOG, 25, peak_mb=121),
                result(PARQUET, None, peak_mb=200.1),
            ],
        ),
        (segment("v1"), [result(DUMP, 1, peak_mb=100), result(PRINT_DATA_LOG, 9)]),
    ]
    return bars.lines(measured)


def result(program: str, ratio: float | None, peak_mb: float | None = None) -> Result:
    peer, run = Peer(program, peers.BATCHES, ()), Run(1.0, 1)
    if peak_mb is None:
        return Result(peer, run, None, "ended with exit code 3.")
    faster = None if ratio is None else Spread(ratio, ratio - 0.5, ratio + 0.5)
    return Result(peer, run, Metrics(Spread(1, 1, 1), faster, int(peak_mb * 1e6)))


def test_every_requirement_on_what_was_measured_has_a_line(lines: list[bars.Line]) -> None:
    """Kafka's tool has no bar, a segment that was not read has no line, a program that failed has one."""
    assert [(line.program, line.segment, line.bar, line.aim, line.verdict) for line in lines] == [
        (DUMP, "start-up", 3, 6, "no"),
        (DUMP, "plain", 3, 10, "yes"),
        (DUMP, "v1", 1, None, "yes"),
        (PRINT_DATA_LOG, "plain", 15, 25, "yes, and the aim"),
        (PRINT_DATA_LOG, "v1", 1, None, "failed"),
        (PARQUET, "plain", 8, 15, "failed"),
        (DUMP, "plain", 200, 120, "yes, and the aim"),
        (PRINT_DATA_LOG, "plain", 200, 120, "yes"),
        (PARQUET, "plain", 200, 120, "no"),
    ]


def test_table_of_the_bars_shows_what_was_reached(lines: list[bars.Line]) -> None:
    """What misses its bar by a hair does not look as if it had reached it."""
    shown = [list(row[1:]) for row in bars.rows(lines)]
    assert shown[1] == ["start-up", "3x", "6x", "2.99x", "2.49-3.49", "no"]
    assert shown[3] == ["v1", "1x", "-", "1.00x", "0.50-1.50", "yes"]
    assert shown[5] == ["v1", "1x", "-", "-", "", "failed"]
    assert shown[9] == ["plain", "200 MB", "120 MB", "201 MB", "", "no"]


def test_options_have_bars_against_plain_printing() -> None:
    """An option that takes four times as long has a ratio of a quarter; JSON and CSV of records may take longer."""
    plain, *options = [replace(result("", 0.25, peak_mb=150), peer=peer) for peer in peers.options()]
    lines = bars.lines([(segment("txn"), [plain, *options])])
    slower = {line.program: line for line in lines if line.unit != "MB"}
    assert {line.bar for line in lines if line.unit == "MB"} == {200}
    assert len(slower) == len(peers.OPTION_ROWS) == len(lines) / 2
    filtered, text = slower[f"{PRINT_DATA_LOG} --transactional"], slower[f"{DUMP} --records --format csv"]
    assert (filtered.bar, filtered.reached, filtered.verdict) == (3, 4, "no")
    assert (text.bar, text.reached, text.verdict) == (5, 4, "yes")


def test_bars_name_segments_that_can_be_written() -> None:
    known = {segments.START_UP, *segments.KINDS}
    assert {kind for demands in bars._TIMES_FASTER.values() for kind in demands} == known


def test_every_aim_lies_beyond_its_bar() -> None:
    demands = [demand for demands in bars._TIMES_FASTER.values() for demand in demands.values()]
    assert all(aim is None or aim > bar for bar, aim in demands)


def test_verdicts_have_bars_on_segments_that_are_recovered() -> None:
    kinds = {kind for command in VERDICTS for kind in bars._TIMES_FASTER.get(command, {})}
    assert kinds == set(peers.STATE_KINDS)


def test_verdicts_may_take_more_memory_than_a_dump() -> None:
    """And most where the state of very many producers has to be kept."""
    assert bars.memory_line(DUMP, "plain", 250_000_000).verdict == "no"
    for command in VERDICTS:
        assert bars.memory_line(command, "plain", 250_000_000).verdict == "yes"
        assert bars.memory_line(command, "plain", 301_000_000).verdict == "no"
        assert bars.memory_line(command, "once", 301_000_000, many_producers=True).verdict == "yes"
        assert bars.memory_line(command, "once", 1_001_000_000, many_producers=True).verdict == "no"


@pytest.mark.parametrize(("ratio", "verdict"), [(1.69, "no"), (1.7, "yes"), (None, "failed")])
def test_two_processes_are_to_be_faster_than_one(ratio: float | None, verdict: str) -> None:
    assert bars.processes_line("plain", result(AUDIT, ratio, peak_mb=100)).verdict == verdict


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        (Run(1.0, 240_000_000), ["plain, 8 segments", "8000", "1.0", "240", "2.00", "yes (300)"]),
        (Run(1.0, 360_000_000), ["plain, 8 segments", "8000", "1.0", "360", "3.00", "no (300)"]),
        (
            Run(1.0, 240_000_000, "ended with exit code 3."),
            ["plain, 8 segments", "8000", "1.0", "240", "2.00", "failed (300)"],
        ),
    ],
)
def test_memory_is_compared_with_that_of_the_small_file(run: Run, shown: list[str]) -> None:
    taken = memory._Taken(LSO, "plain, 8 segments", 8000, run, small=120_000_000, many_producers=False)
    assert list(memory._row(taken)) == shown


def test_partition_is_all_its_segments(tmp_path: Path) -> None:
    for name, size in (("00000000000000000000.log", 5), ("00000000000000000007.log", 2), ("facts.json", 9)):
        (tmp_path / name).write_bytes(b"x" * size)
    partition = Segment("plain, 2 segments", tmp_path, records=1, batches=1, uncompressed=1)
    assert [path.name for path in partition.logs] == ["00000000000000000000.log", "00000000000000000007.log"]
    assert partition.size == 7
    one = replace(partition, path=tmp_path / "00000000000000000007.log")
    assert (one.size, one.folder) == (2, partition.folder)


def test_verdicts_read_sidecar_files() -> None:
    """Kafka's recovery and the dump read the log alone."""
    one = Segment("plain", Path("plain-50/0.log"), records=1, batches=1, uncompressed=1)
    assert all(peer.command(one)[-1] == "plain-50" for peer in peers.verdicts(*VERDICTS))
    assert all(peer.command(one)[-1] == "plain-50/0.log" for peer in peers.toolkit())


def test_program_that_met_other_records_has_failed() -> None:
    peer = Peer("counter", peers.STATE, (sys.executable, "-c", "print('{\"records\": 2}')"), counts=True)
    assert run_once(peer, segment("plain")).failure == "met 2 records of 1."
    assert not run_once(peer, replace(segment("plain"), records=2)).failure


def test_differences_from_the_broker_are_reported() -> None:
    assert not list(agreement.differences(AGREED, AGREED))
    odd = replace(AGREED, undecided=9, aborted_checksum=6)
    assert list(agreement.differences(AGREED, odd)) == [
        "says undecided is 9, recovery says 3.",
        "says aborted_checksum is 6, recovery says 5.",
    ]


def test_command_that_disagrees_has_failed_however_fast() -> None:
    fast = result(LSO, 100, peak_mb=1)
    wrong = speed._failed(fast, "says undecided is 9, recovery says 3.")
    assert (wrong.metrics, wrong.failure) == (None, "says undecided is 9, recovery says 3.")
    failed = replace(fast, metrics=None, failure="ended with exit code 3.")
    assert speed._failed(failed, "and disagrees").failure == "ended with exit code 3."


@pytest.mark.parametrize("topic", ["hanging", "interleaved"])
def test_conclusion_is_that_of_the_broker(topic: str) -> None:
    """The live broker reported end, last stable offset and producers; its transaction index lists what was aborted."""
    folder = SAMPLES / "transactions-v2" / "broker-1" / f"{topic}-0"
    truth = json.loads((SAMPLES / "transactions-v2" / "truth.json").read_text(encoding="utf-8"))["topics"][topic]["0"]
    one = replace(segment(topic), path=folder / "00000000000000000000.log")
    with open_source(str(one.path.with_suffix(".txnindex"))) as source:
        entries = [entry for entry in read_transaction_index(source) if isinstance(entry, TransactionIndexEntry)]
    lines = "".join(f"{entry.producer_id} {entry.first_offset} {entry.last_offset}\n" for entry in entries)
    conclusion = agreement.concluded(one)
    assert (conclusion.end, conclusion.undecided) == (truth["latest"], truth["latest_read_committed"])
    assert conclusion.producers == len(truth["producers"])
    assert (conclusion.aborted, conclusion.aborted_checksum) == (len(entries), zlib.crc32(lines.encode()))
    assert conclusion.aborted > 0


def test_columns_are_aligned() -> None:
    shown = list(aligned([("a", "1"), ("b", "1000")]))
    assert all(len(one) == len(other) for one, other in pairwise(shown))
    assert shown[0].endswith("     1")
