"""Keys of which cleaning has left two replicas with different records.

Cleaning takes out a record only where a newer one of its key stays, or where it is a tombstone and nothing older of its
key is left. So the newest record of a key is the same at every replica, whatever else they have dropped, unless a
tombstone has gone at one of them. Rule: ``Cleaner.shouldRetainRecord``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.replicas.differences import Difference
from kforensics.forensics.replicas.newest_records import Part, newest_records
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.kernels.policy import Choice

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KeyDifference", "Lost", "key_differences"]

# Records whose keys are held at once; more are looked at in several passes.
AT_ONCE = 1 << 22
NONE = -1


class Lost(StrEnum):
    """What a replica has lost of a key."""

    # The newest value, with an older record of the key left.
    VALUE = "value"
    # The tombstone, with an older value left that is there again.
    TOMBSTONE = "tombstone"
    # All of it, or the other replica has kept what it should not.
    KEY = "key"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key that two replicas end differently.

    Attributes:
        lacking: the replica with the older record, or none.
        having: the one with the newer record.
        lost: what the former lacks.
        key: the key.
        offset: of the newer record.
        older_offset: of the newest record of the other one, None if it has none.
    """

    lacking: Replica
    having: Replica
    lost: Lost
    key: bytes
    offset: int
    older_offset: int | None


def key_differences(
    first: Replica, second: Replica, found: Difference, end: int, kernels: Choice
) -> Iterator[KeyDifference]:
    """Yield the keys that two replicas end differently, as far as what differs between them can make it so.

    Args:
        first: the one replica.
        second: the other one.
        found: the range that cleaning has made different.
        end: offset up to which both have one history.
        kernels: gives the compiled kernels.

    Raises:
        InputError: a segment cannot be read.
    """
    undecided = (one.case.open_transactions["first_offset"].min(initial=end) for one in (first, second))
    begin, stop = found.first_offset, min(found.last_offset + 1, *map(int, undecided))
    shares = max(one.case.log.records for one in (first, second)) // AT_ONCE + 1
    for share in range(shares):
        newest = [newest_records(Part(one, begin, stop, share, shares), kernels) for one in (first, second)]
        unlike = list(_side_by_side(*newest))
        behind = {key: (mine, others) for key, mine, others in unlike if mine < others}
        ahead = {key: (others, mine) for key, mine, others in unlike if mine > others}
        for lacking, having, mine in ((first, second, behind), (second, first, ahead)):
            suspects = _suspects(lacking, having, _with_older(lacking, having, mine, begin, kernels))
            yield from _without_newer(list(suspects), stop, kernels)


def _with_older(
    lacking: Replica, having: Replica, marks: dict[bytes, tuple[int, int]], begin: int, kernels: Choice
) -> dict[bytes, tuple[int, int]]:
    """Return marks of both sides by key, the older one also looked for before the range."""
    start = max(lacking.first_offset, having.first_offset)
    missing = [key for key, (older, _) in marks.items() if older == NONE]
    if not missing or begin <= start:
        return marks
    before = _by_key(Part(lacking, start, begin, keys=_array(missing)), kernels)
    return {key: (max(older, before.get(key, NONE)), newer) for key, (older, newer) in marks.items()}


def _by_key(part: Part, kernels: Choice) -> dict[bytes, int]:
    found = newest_records(part, kernels)
    return dict(zip(found["key"].to_pylist(), found["mark"].to_pylist(), strict=True))


def _array(keys: list[bytes]) -> Any:
    import pyarrow as pa  # only who compares keys pays for it

    return pa.array(keys, pa.binary())


def _side_by_side(first: pa.Table, second: pa.Table) -> Iterator[tuple[bytes, int, int]]:
    """Yield keys with the marks of both sides, -1 where there is none, that are not the same."""
    import pyarrow.compute as pc  # as above

    joined = first.join(second, "key", join_type="full outer", right_suffix="_of_other")
    marks = [joined[name].fill_null(NONE) for name in ("mark", "mark_of_other")]
    unlike = pc.not_equal(*marks)
    columns = [column.filter(unlike).to_pylist() for column in (joined["key"], *marks)]
    yield from zip(*columns, strict=True)


def _suspects(lacking: Replica, having: Replica, marks: dict[bytes, tuple[int, int]]) -> Iterator[KeyDifference]:
    for key, (older, newer) in marks.items():
        lost = _lost(lacking, having, older, newer)
        if lost is not None:
            yield KeyDifference(lacking, having, lost, key, newer >> 1, None if older == NONE else older >> 1)


def _lost(lacking: Replica, having: Replica, older: int, newer: int) -> Lost | None:
    """Return what one side lacks of a key, None if cleaning may have done so."""
    is_tombstone, is_deleted = newer & 1, older == NONE or older & 1
    if is_tombstone:
        return None if is_deleted else Lost.TOMBSTONE
    if older != NONE:
        return Lost.VALUE
    # A tombstone that the other one has not fetched yet may have come and gone.
    return Lost.KEY if having.end >= lacking.strict_from else None


def _without_newer(suspects: list[KeyDifference], begin: int, kernels: Choice) -> Iterator[KeyDifference]:
    """Yield those of which neither replica has a newer record behind the range.

    What the one that has more has there, the other one has too, or it is missing or damaged, which is told elsewhere.
    """
    left = sorted(suspects, key=lambda one: one.offset)
    for replica in (suspects[0].lacking, suspects[0].having) if suspects else ():
        newer = _by_key(Part(replica, begin, replica.end, keys=_array([one.key for one in left])), kernels)
        left = [one for one in left if one.key not in newer]
    yield from left[:MOST]
