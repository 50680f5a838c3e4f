"""Whether the toolkit concludes from a segment what a broker concludes that recovers it."""

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
    """What a segment comes to.

    Attributes:
        end: the offset behind it.
        batches: in it.
        undecided: the first offset of an open transaction, the end if there is none.
        producers: with an id.
        aborted: transactions.
        aborted_checksum: CRC-32 of a line for each of them, by their markers: producer id, first offset, marker.
    """

    end: int
    batches: int
    undecided: int
    producers: int
    aborted: int
    aborted_checksum: int


def disagreement(segment: Segment) -> str:
    """What the toolkit says otherwise than the broker, nothing if all is the same.

    Raises:
        LabError: a program did not work.
    """
    return " ".join(differences(recovered(segment), concluded(segment)))


def differences(recovered: Conclusion, concluded: Conclusion) -> Iterator[str]:
    """Yield a sentence for each figure that differs."""
    ours = asdict(concluded)
    for name, theirs in asdict(recovered).items():
        if theirs != ours[name]:
            yield f"says {name} is {ours[name]}, recovery says {theirs}."


def recovered(segment: Segment) -> Conclusion:
    """What ``LogSegment.recover`` comes to.

    Raises:
        LabError: it failed.
    """
    said = json.loads(_output([*kafka.recovery(FOLDER, counted=True), str(segment.path)]))
    return Conclusion(
        end=said["records"],
        batches=said["batches"],
        undecided=said["undecided"],
        producers=said["producers"],
        aborted=said["aborted"],
        aborted_checksum=said["abortedChecksum"],
    )


def concluded(segment: Segment) -> Conclusion:
    """What the toolkit comes to.

    Raises:
        LabError: it failed.
    """
    [card] = _rows(segment, "scan")
    aborted = _rows(segment, "transactions", "--state", "aborted", "--sort", "marker")
    lines = "".join(f"{one['producer_id']} {one['first_offset']} {one['marker_offset']}\n" for one in aborted)
    return Conclusion(
        end=card["log_end_offset"],
        batches=card["batches"],
        undecided=card["last_stable_offset"],
        producers=card["producers"],
        aborted=len(aborted),
        aborted_checksum=zlib.crc32(lines.encode("ascii")),
    )


def _rows(segment: Segment, *words: str) -> list[dict[str, Any]]:
    common = ("--quiet", "--fail-on", "never", "--format", "ndjson")
    output = _output([peers.command(), *words, *common, str(segment.folder)])
    return [json.loads(line) for line in output.splitlines()]


def _output(command: Sequence[str]) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"{' '.join(command[-4:])} failed:\n{outcome.stderr[-2000:]}")
    return outcome.stdout
