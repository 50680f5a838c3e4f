"""Ids whose producers fence one another: many Empty records in a minute; see ``tracks.Track``."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.transactions.state_runs import NOWHERE, IdRows
from kforensics.forensics.coordinators.transactions.tracks import INITS, MINUTE_MS
from kforensics.forensics.core.record_types import Records

__all__ = ["InitTimes"]

LAST_TIME = np.iinfo("i8").max - MINUTE_MS


class InitTimes:
    """Remembers the times of the last INITS Empty records of each id since something was committed, or it was told."""

    def __init__(self) -> None:
        self._times = np.zeros((0, INITS), "i8")
        self._counts = np.zeros(0, "i8")

    def make_room(self, count: int) -> None:
        """Have room for so many ids."""
        more = max(count, 2 * len(self._counts)) - len(self._counts)
        if count > len(self._counts):
            self._counts = np.append(self._counts, np.zeros(more, "i8"))
            self._times = np.concatenate([self._times, np.zeros((more, INITS), "i8")])

    def take(self, found: IdRows) -> Records:
        """Take records by their ids; return the rows with which an id was initialised once too often."""
        rows = found.fields
        clears = np.cumsum(found.is_new & (rows["status"] == State.COMPLETE_COMMIT))
        inits = np.flatnonzero(found.is_new & (rows["status"] == State.EMPTY))
        firsts, lasts = np.flatnonzero(~found.has_before), np.flatnonzero(found.is_last)
        ids = rows["id"][firsts]
        # What is remembered comes before an id's first record, and goes with a commit that is this record itself.
        begun = clears[firsts] - (found.is_new & (rows["status"] == State.COMPLETE_COMMIT))[firsts]
        numbers, places = np.nonzero(np.arange(INITS) < self._counts[ids][:, None])
        times = np.concatenate([self._times[ids[numbers], places], rows["time"][inits]])
        of = np.concatenate([ids[numbers], rows["id"][inits]])
        since = np.concatenate([begun[numbers], clears[inits]])
        at = np.concatenate([np.full(len(numbers), NOWHERE), inits])
        order = np.argsort(of, kind="stable")
        times, of, since, at = (column[order] for column in (times, of, since, at))
        told = _told(times, _groups(of, since))
        self._remember(ids, clears[lasts], (times, of, since), told)
        return at[told]

    def _remember(
        self, ids: Records, clears: Records, columns: tuple[Records, Records, Records], told: Records
    ) -> None:
        """Keep the last times of each id."""
        times, of, since = columns
        self._counts[ids] = 0
        # An id that was told of begins anew behind that record.
        begins = np.zeros(len(of), "i8")
        begins[told] = 1
        passed = np.cumsum(begins)
        ends = np.searchsorted(of, of, "right")
        stays = (passed[ends - 1] == passed) & (begins == 0) & (since == clears[np.searchsorted(ids, of)])
        left = np.cumsum(stays[::-1])[::-1]
        behind = np.append(left, 0)[ends]
        stays &= left - behind <= INITS
        which = np.flatnonzero(stays)
        place = np.arange(len(which)) - np.searchsorted(of[which], of[which], "left")
        self._times[of[which], place] = times[which]
        np.add.at(self._counts, of[which], 1)


def _groups(of: Records, since: Records) -> Records:
    """Return for each row the first one of the same id and stretch between commits."""
    begins = (np.diff(of, prepend=NOWHERE) != 0) | (np.diff(since, prepend=NOWHERE) != 0)
    return np.maximum.accumulate(np.where(begins, np.arange(len(of)), 0))


def _told(times: Records, groups: Records) -> Records:
    """Return the rows with which there are more than INITS in a minute, since the group began or was told of last."""
    which = np.flatnonzero(np.arange(len(times)) - groups >= INITS)
    before = times[which - INITS]
    close = (before > LAST_TIME) | (times[which] <= np.minimum(before, LAST_TIME) + MINUTE_MS)
    told: list[int] = []
    for row in which[close].tolist():
        begun = max(int(groups[row]), told[-1] + 1) if told else int(groups[row])
        if row - begun >= INITS:
            told.append(row)
    return np.array(told, "i8")
