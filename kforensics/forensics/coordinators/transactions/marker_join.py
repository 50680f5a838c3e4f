"""The join of what coordinators decided with the markers in the partitions.

The key is the producer id and the epoch of the Prepare record: markers are sent with the state that was stored last
(``TransactionMarkerChannelManager.addTxnMarkersToSend``). In version 2 of the protocol it names one transaction, before
that it may name several, which ``alignment`` tells apart. Everything here is keyed by producer id, so that the ids can
be shared out among workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.partition_markers import MARK, Markers
from kforensics.forensics.coordinators.transactions.histories import Coordinators
from kforensics.forensics.coordinators.transactions.history import ALWAYS, NEVER
from kforensics.forensics.coordinators.transactions.marker_alignment import Ends, aligned
from kforensics.forensics.coordinators.transactions.marker_roles import Role, roles_of
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    Groups,
    Verdict,
    endings_of,
    groups_of,
    is_by_operator,
    is_only_one,
    parts_of,
)
from kforensics.forensics.coordinators.transactions.transitions import TV2
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.core.rules import Rules

__all__ = ["Joined", "joined"]

EVERY = slice(None)


@dataclass(frozen=True, slots=True)
class Joined:
    """The transactions of the coordinators and the markers, joined.

    Attributes:
        partitions: every partition that is listed or supplied, by its number.
        markers: those supplied, by the number of the partition.
        marks: MARK records of all of them.
        parts: PART records, those of a transaction together.
        roles: for each marker its ``Role``.
    """

    partitions: Sequence[TopicPartition]
    markers: Mapping[int, Markers]
    marks: Records
    parts: Records
    roles: Records


def joined(coordinators: Coordinators, supplied: Iterable[Markers], rules: Rules) -> Joined:
    """Return the transactions of coordinators and the markers of partitions, joined.

    Args:
        coordinators: what is known of transactions.
        supplied: one for each partition.
        rules: limits and the time of evaluation.
    """
    by_name = {markers.name: markers for markers in supplied}
    numbers = {name: number for number, name in enumerate(dict.fromkeys(chain(by_name, *coordinators.sets)))}
    markers = {numbers[name]: found for name, found in by_name.items()}
    known_from = np.full(len(numbers), NEVER, "i8")
    known_from[list(markers)] = [_surely(found.known_from, rules.clock_skew_ms) for found in markers.values()]
    whole_to = np.full(len(numbers), NEVER, "i8")
    whole_to[list(markers)] = [found.whole_to for found in markers.values()]
    marks = _all_marks(markers)
    parts = parts_of(coordinators, marks, numbers)
    groups = groups_of(coordinators.instances, parts, marks)
    join = _Join(coordinators, marks, parts, groups, (known_from, whole_to), rules.clock_skew_ms)
    join.by_key()
    join.by_order()
    join.settle(markers)
    roles = roles_of(coordinators, marks, join.roles, rules)
    return Joined(tuple(numbers), markers, marks, parts, roles)


def _surely(known_from: int, skew_ms: int) -> int:
    """Return from when the markers are on hand by the clock of any coordinator, which may be ahead of the leader's."""
    return known_from if known_from in (ALWAYS, NEVER) else known_from + skew_ms


def _all_marks(markers: Mapping[int, Markers]) -> Records:
    """Return the markers of all partitions, each with the number of its own. There may be many: all are held once."""
    marks = np.empty(sum(len(found.marks) for found in markers.values()), MARK)
    start = 0
    for number, found in markers.items():
        some = marks[start : start + len(found.marks)]
        some[:] = found.marks
        some["partition"] = number
        start += len(some)
    return marks


class _Join:
    """Gives parts their verdicts and markers, and markers their roles, as far as the key says."""

    def __init__(  # noqa: PLR0913, PLR0917  # what is joined, and by what
        self,
        coordinators: Coordinators,
        marks: Records,
        parts: Records,
        groups: Groups,
        known: tuple[Records, Records],
        skew_ms: int,
    ) -> None:
        self._coordinators, self._marks, self._parts, self._groups = coordinators, marks, parts, groups
        (self._known_from, self._whole_to), self._skew_ms = known, skew_ms
        self._wanted = endings_of(self._of("status"))
        self._by_key = self._are_told_by_key()
        self.roles = np.full(len(marks), NONE, "i1")

    def _of(self, name: str, parts: Records | slice = EVERY) -> Records:
        """Return a column of the transactions of parts, all of them unless some are named."""
        found: Records = self._coordinators.instances[name][self._parts["instance"][parts]]
        return found

    def _are_told_by_key(self) -> Records:
        """Return which groups have one transaction that nothing can be mistaken for."""
        groups, parts = self._groups, self._parts
        only = is_only_one(self._coordinators)[parts["instance"]]
        held = np.bincount(groups.of_parts, minlength=groups.count)
        several = np.bincount(groups.of_marks, minlength=groups.count) > 1
        # An operator's abort cannot be told from another by its epoch, before version 2.
        certain = only & ((self._of("transaction_version") >= TV2) | ~several[groups.of_parts])
        found: Records = held == 1
        found[groups.of_parts[~certain]] = False
        return found

    def by_key(self) -> None:
        """Join the groups in which the key says it all."""
        part = np.full(self._groups.count, NONE, "i8")
        part[self._groups.of_parts] = np.arange(len(self._parts))
        part[~self._by_key] = NONE
        parts = part[self._groups.of_marks]
        marks = np.flatnonzero(parts != NONE)
        parts = parts[marks]
        strange = is_by_operator(self._marks[marks]) & (self._of("transaction_version", parts) >= TV2)
        self.roles[marks[strange]] = Role.BY_OPERATOR
        marks, parts = marks[~strange], parts[~strange]
        self.roles[marks] = Role.AGAIN
        # The last one assigned stays: the first of those that agree, but before all the first that does not.
        agrees = self._marks["ending"][marks] == self._wanted[parts]
        for some in (agrees, ~agrees):
            of = parts[some][::-1]
            self._parts["mark"][of] = marks[some][::-1]
            self.roles[self._parts["mark"][of]] = Role.SENT

    def by_order(self) -> None:
        """Join the groups in which the key names several transactions, or may."""
        for parts, marks in self._shared():
            self._align(parts, marks)

    def _shared(self) -> Iterator[tuple[Records, Records]]:
        """Yield the parts of each group and its markers."""
        groups = self._groups
        of_parts = np.flatnonzero(~self._by_key[groups.of_parts])
        of_parts = of_parts[np.lexsort((self._of("decided", of_parts), groups.of_parts[of_parts]))]
        numbers, starts = np.unique(groups.of_parts[of_parts], return_index=True)
        of_marks = np.argsort(groups.of_marks, kind="stable")
        in_order = groups.of_marks[of_marks]
        begins, ends = (np.searchsorted(in_order, numbers, side=side) for side in ("left", "right"))
        for parts, begin, end in zip(np.split(of_parts, starts[1:]), begins, ends, strict=bool(len(numbers))):
            yield parts, of_marks[begin:end]

    def _align(self, parts: Records, marks: Records) -> None:
        """Join a group; parts and markers from before their side of the story is told take part where they fit."""
        mine = self._coordinators.instances[self._parts["instance"][parts]]
        told_from = self._told_from(mine)
        self.roles[marks] = Role.NOT_TOLD
        covered = mine["decided"] >= self._known_from[self._parts["partition"][parts]]
        is_sure = ~mine["is_superseded"] & covered & (mine["decided"] >= told_from) & ~self._is_too_late(parts)
        found, spare = self._marks[marks], self._spare(marks)
        ends = Ends(mine["decided"], mine["completed"], self._wanted[parts], is_sure)
        late = told_from != ALWAYS
        result = aligned(ends, found["marker_timestamp"], found["ending"], spare, self._skew_ms, begins_late=late)
        has = result.marks >= 0
        whole = not late and bool(covered.all())
        self._parts["mark"][parts[has]] = marks[result.marks[has]]
        self._parts["is_exact"][parts] = result.is_exact and whole
        unclear = ~has & ~result.is_missing
        self._parts["verdict"][parts[unclear]] = Verdict.UNCLEAR
        self.roles[marks] = np.where(spare, Role.AGAIN, Role.OUTSIDE if whole else Role.NOT_TOLD)
        self.roles[marks[spare & is_by_operator(found)]] = Role.BY_OPERATOR
        self.roles[marks[result.marks[has]]] = Role.SENT

    def _is_too_late(self, parts: Records | slice = EVERY) -> Records:
        """Return of which parts the marker may have come after their partition was copied."""
        completed = self._of("completed", parts)
        late: Records = (completed != NO_TIME) & (completed >= self._whole_to[self._parts["partition"][parts]])
        return late

    def _told_from(self, mine: Records) -> int:
        """Return from when all transactions of an id are on hand."""
        if self._coordinators.ids["is_told"][mine["id"]].all():
            return ALWAYS
        return int(self._coordinators.known_from[mine["coordinator"]].max())

    def _spare(self, marks: Records) -> Records:
        """Return which markers of a group may be sent again, or an operator's."""
        found = self._marks[marks]
        again = np.zeros(len(found), bool)
        again[1:] = (found["first_offset"][1:] == NONE) & (found["ending"][1:] == found["ending"][:-1])
        before = np.concatenate([[NONE], found["coordinator_epoch"][:-1]])
        epoch = found["coordinator_epoch"]
        spare: Records = again | (is_by_operator(found) & ((epoch == 0) | (epoch == before)))
        return spare

    def settle(self, markers: Mapping[int, Markers]) -> None:
        """Give a verdict to every part.

        Args:
            markers: those supplied, by the number of the partition.
        """
        parts, superseded = self._parts, self._of("is_superseded")
        has = parts["mark"] != NONE
        # Behind the last marker, where -1 finds it, there is none.
        endings, firsts = (np.append(self._marks[name], NONE)[parts["mark"]] for name in ("ending", "first_offset"))
        seen = self._of("decided") >= self._known_from[parts["partition"]]
        complete = np.isin(self._of("status"), (State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
        seen |= self._lost_their_marker(~seen & ~has & complete, markers)
        verdicts = (
            (~np.isin(parts["partition"], list(markers)), Verdict.UNSUPPLIED),
            (has & ((endings != self._wanted) | superseded), Verdict.SPLIT),
            (has & (firsts == NONE), Verdict.EMPTY),
            (has, Verdict.GOOD),
            (superseded, Verdict.UNSENT),
            (~complete, Verdict.PENDING),
            (~seen | self._is_too_late(), Verdict.UNCOVERED),
            (parts["verdict"] == Verdict.UNCLEAR, Verdict.UNCLEAR),
        )
        parts["verdict"] = np.select([test for test, _ in verdicts], [int(one) for _, one in verdicts], Verdict.MISSING)

    def _lost_their_marker(self, unseen: Records, markers: Mapping[int, Markers]) -> Records:
        """Return which parts have data that no marker of theirs ended, of those of which nothing else tells.

        In version 2 the epoch says whose data it is, and no cleaner of that time takes a marker before its data.
        """
        epochs, producers = self._of("data_epoch"), self._of("producer_id")
        known = unseen & (self._of("transaction_version") >= TV2) & (epochs != NONE)
        lost = np.zeros(len(known), bool)
        which = np.flatnonzero(known & np.isin(self._parts["partition"], list(markers)))
        which = which[np.argsort(self._parts["partition"][which], kind="stable")]
        numbers, starts = np.unique(self._parts["partition"][which], return_index=True)
        for number, some in zip(numbers.tolist(), np.split(which, starts[1:]), strict=bool(len(numbers))):
            lost[some] = markers[number].begins_with(producers[some], epochs[some])
        return lost
