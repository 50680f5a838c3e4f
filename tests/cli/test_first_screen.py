"""Ten situations of an operator: the answer is complete on the first screen of a terminal with 80 columns, 24 lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pytest

from tests.command import ROOT, run
from tests.forensics.forge import forge

LINES, COLUMNS = 24, 80
HEALTHY, STUCK = 1_000, 40
FORGED = ("--as-of", 1_700_009_000_000)
AS_OF = ("--as-of", "2026-11-23T12:00")
SAMPLES = Path("sample_logs")
V2 = SAMPLES / "transactions-v2" / "broker-1"


@dataclass(frozen=True)
class Situation:
    """A command, and what its answer consists of: id, offset, time and the command to run next.

    Attributes:
        words: the command.
        answer: texts of the answer, as they are without line ends.
        code: its exit code.
    """

    words: tuple[object, ...]
    answer: tuple[str, ...]
    code: int = 1


SITUATIONS = {
    "one stuck partition among 400": Situation(
        ("lso", *FORGED, "--partition", "0-398", "healthy", "stuck"),
        (
            *("stuck-0 on broker 1: LSO stuck at 0", "producer 7", "last write 2023-11-14 22:13:20 UTC"),
            *("399 partitions: no transaction blocks the LSO", "--topic stuck --partition 0 --start-offset 0"),
        ),
    ),
    "a producer hanging in 40 partitions": Situation(
        ("audit", *FORGED, "held"),
        (
            *("CRITICAL, 1 incident", "producer 9", "since 2023-11-14 22:15:00 UTC", "40 partitions"),
            *("from offset 6", "$ kafka-transactions.sh", "--topic held --partition 0 --start-offset 6"),
        ),
    ),
    "a torn segment": Situation(
        ("audit", *AS_OF, SAMPLES / "damaged" / "batches" / "truncated-mid-batch-0"),
        (
            *(
                "torn-log-end",
                "records of 2023-11-14 22:13:20 UTC",
                "truncated-mid-batch-0: The last batch is torn at position 354",
                "to offset 9",
            ),
            *("the broker truncates it at startup", "$ kforensics verify"),
        ),
        code=0,
    ),
    "an unclean election": Situation(
        ("audit", *AS_OF, SAMPLES / "unclean-election"),
        (
            *("unclean-election", "lossy-0: Records at offsets 3 to 10 are lost", "2026-11-22 17:24:12 UTC"),
            *(
                "broker 3 became leader",
                "$ kforensics cluster --history lossy-0",
                "$ kforensics dump",
            ),
        ),
    ),
    "duplicates of a retry": Situation(
        ("duplicates", *AS_OF, SAMPLES / "duplicates" / "broker-1" / "expired-0"),
        (
            *(
                "producer 7100",
                "3 records from offset 12",
                "duplicate 3 records from offset 3",
                "2026-11-21 17:38:43 UTC",
            ),
            *("$ kforensics dump --format table --records --offset 3:15", "deduplicate where they keep their results"),
        ),
    ),
    "a fenced zombie that wrote again": Situation(
        ("audit", *AS_OF, SAMPLES / "state-lost-after-stop"),
        (
            *(
                "'zombie' (producer 3, epoch 1)",
                "2026-11-21 17:40:08 UTC",
                "zombie-0 from offset 5",
                "2 records hidden",
            ),
            *("find-hanging --topic zombie --partition 0", "abort --topic zombie --partition 0 --start-offset 5"),
        ),
    ),
    "a consumer lag of one": Situation(
        ("lso", *AS_OF, V2 / "committed-0"),
        (
            *("LSO 20, at the log end", "offset 19 is a marker, which no consumer receives"),
            "a group at 19 has a lag of 1 and missed nothing",
        ),
        code=0,
    ),
    "a consumer lag of one, explained": Situation(
        ("explain", *AS_OF, "--offset", 19, V2 / "committed-0"),
        (
            "offset 19: control",
            "not delivered to applications",
            "COMMIT, 2026-11-21 12:05:20 UTC",
            "LSO 20, log end 20",
        ),
        code=0,
    ),
    "where a log is damaged": Situation(
        ("dump", "--damage", SAMPLES / "damaged" / "batches" / "flipped-payload-bit-0"),
        (
            "1 range of damage in 1 of 1 file",
            *("flipped-payload-bit-0: offsets 6 to 8, newest 2023-11-14 22:13:20 UTC: crc", "bytes 0xec to 0x162"),
        ),
    ),
    "an offset before the log start": Situation(
        ("explain", *AS_OF, "--offset", 3, SAMPLES / "deletion" / "broker-1" / "delete-records-0"),
        (
            *("offset 3: deleted", "moved the log start offset to 17"),
            "consumers can read from offset 17 on, whose record is from 2026-01-01 00:00:08 UTC",
        ),
        code=0,
    ),
    "a CRC error": Situation(
        ("audit", *AS_OF, SAMPLES / "damaged" / "batches" / "flipped-payload-bit-0"),
        (
            *(
                "corrupt-bytes",
                "records of 2023-11-14 22:13:20 UTC",
                "flipped-payload-bit-0: Corrupt batch with offsets 6 to 8 at position 236",
                "3 records",
            ),
            *(
                "$ kforensics explain --topic flipped-payload-bit --partition 0 --offset 6",
                "compare the other replicas",
            ),
        ),
    ),
    "a group whose offset is gone": Situation(
        ("audit", *AS_OF, "--code", "eos-offset-beyond-log", SAMPLES / "unclean-election"),
        (
            "Group 'readers' affected",
            "unclean-election",
            "2026-11-22 17:24:12 UTC",
            "offsets 3 to 10",
            "check $ kforensics",
        ),
    ),
    "a group that read from the start again": Situation(
        ("groups", *AS_OF, "--group", "expired", ROOT / "tests" / "data" / "group-resets" / "4.4.0"),
        (
            *("group expired: classic, Empty", "reset: 2026-11-23 09:47:53.763 UTC orders-0 from 10 to 3"),
            *("likely offset expired", "idle for just over 1 min", "removed the offset of orders-0"),
        ),
        0,
    ),
    "which of many groups to look at": Situation(
        ("groups", *AS_OF, ROOT / "tests" / "data" / "group-resets" / "4.4.0"),
        (
            *(
                "16 groups",
                "resets: 10 groups, most in 'transaction' with 1 reset, last commit 2026-11-23 09:48:11 UTC",
            ),
            "lag: 12 groups, most in 'lags' with 13 offsets, last commit 2026-11-23 09:48:19 UTC",
            *("$ kforensics groups --group transaction", "… and 6 more groups $ kforensics groups --all"),
        ),
        0,
    ),
    "a healthy cluster of 1,000 partitions": Situation(
        ("audit", *FORGED, "--processes", "1", "healthy"),
        ("CLEAN: 1,000 partitions", "1,000 partitions: nothing found"),
        0,
    ),
}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with log directories: 1,000 healthy partitions, a stuck one, and 40 that one producer blocks."""
    folder = tmp_path_factory.mktemp("c")
    (folder / "sample_logs").symlink_to(ROOT / "sample_logs")
    at = "ts 1700000000000"
    for number in range(HEALTHY):
        forge(folder / "healthy", f"D 1 0 0-4 @0-4 T {at}; M 1 0 C 3 @5", topic="orders", partition=number)
    forge(folder / "stuck", f"D 7 2 0-4 @0-4 T {at}; D 8 0 0-3 @5-8 N", topic="stuck", log_append_time=True)
    open_since = f"D 1 0 0-4 @0-4 T {at}; M 1 0 C 3 @5; D 9 1 0-4 @6-10 T ts 1700000100000"
    for number in range(STUCK):
        forge(folder / "held", open_since, topic="held", partition=number, log_append_time=True)
    return folder


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_answer_is_on_the_first_screen(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clusters)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    situation = SITUATIONS[name]
    command, *words = situation.words
    ended = run(command, "--quiet", *words)
    assert ended.code == situation.code
    screen = " ".join(_first_screen(ended.lines).split())
    assert [text for text in situation.answer if text not in screen] == []


def _first_screen(lines: Sequence[str]) -> str:
    """Return the lines that fit a screen whole: a terminal breaks longer lines than it is wide."""
    heights = accumulate(max(1, -(-len(line) // COLUMNS)) for line in lines)
    return " ".join(line for line, height in zip(lines, heights, strict=True) if height <= LINES)
