"""Whether the toolkit agrees with a broker that recovers the same segment."""

import json
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import kafka, peers
from benchmarks.segments import FOLDER, Segment
from lab.errors import LabError


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The state that follows from a segment.

    Attributes:
        end: the log end offset.
        batches: number of batches.
        undecided: the first offset of an open transaction, or the log end offset.
        producers: number of producer ids.
        aborted: number of aborted transactions.
        aborted_checksum: CRC-32 of a line for each of them, by their markers: producer id, first offset, marker.
    """

    end: int
    batches: int
    undecided: int
    producers: int
    aborted: int
    aborted_checksum: int


def disagreement(segment: Segment) -> str:
    """How the toolkit's result differs from the broker's; empty if they agree.

    Raises:
        LabError: a program failed.
    """
    return " ".join(differences(recovered(segment), concluded(segment)))


def differences(recovered: Conclusion, concluded: Conclusion) -> Iterator[str]:
    """Yield a sentence for each value that differs."""
    ours = asdict(concluded)
    for name, theirs in asdict(recovered).items():
        if theirs != ours[name]:
            yield f"says {name} is {ours[name]}, recovery says {theirs}."


def recovered(segment: Segment) -> Conclusion:
    """The result of ``LogSegment.recover``.

    Raises:
        LabError: it failed.
    """
    answer = json.loads(_output([*kafka.recovery(FOLDER, counted=True), str(segment.path)]))
    return Conclusion(
        end=answer["records"],
        batches=answer["batches"],
        undecided=answer["undecided"],
        producers=answer["producers"],
        aborted=answer["aborted"],
        aborted_checksum=answer["abortedChecksum"],
    )


def concluded(segment: Segment) -> Conclusion:
    """The toolkit's result.

    Raises:
        LabError: it failed.
    """
    [summary] = _rows(segment, "scan")
    aborted = _rows(segment, "transactions", "--state", "aborted", "--sort", "marker")
    lines = "".join(f"{row['producer_id']} {row['first_offset']} {row['marker_offset']}\n" for row in aborted)
    return Conclusion(
        end=summary["log_end_offset"],
        batches=summary["batches"],
        undecided=summary["last_stable_offset"],
        producers=summary["producers"],
        aborted=len(aborted),
        aborted_checksum=zlib.crc32(lines.encode("ascii")),
    )


def _rows(segment: Segment, *arguments: str) -> list[dict[str, Any]]:
    common = ("--quiet", "--fail-on", "never", "--format", "ndjson")
    output = _output([peers.command(), *arguments, *common, str(segment.folder)])
    return [json.loads(line) for line in output.splitlines()]


def _output(command: Sequence[str]) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"{' '.join(command[-4:])} failed:\n{outcome.stderr[-2000:]}")
    return outcome.stdout
