"""The report of an audit: the worst first, who holds the last stable offset and since when, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.partition.partition_files import order_of
from kforensics.forensics.partition.partition_rows import remedy
from kforensics.parsers.format.printable import printable
from kforensics.parsers.log.log_rows import Place
from kforensics.render.formatting import amount, duration, moment, size_text
from kforensics.render.stories import partition_name

__all__ = ["Report", "Unread", "cards"]

# So many findings are told in full; all of them are in the store, and in every other format.
SHOWN = 20
# Of a partition and a code, so many.
SHOWN_ALIKE = 3
HOLDERS = 10
# So many partitions that could not be read are named.
NAMED = 1000


@dataclass(frozen=True, slots=True)
class _Told:
    """A finding that may be told in full."""

    place: Place
    folder: str
    finding: Finding
    nth: int

    @property
    def rank(self) -> tuple[Any, ...]:
        """The worst first, else as partitions are ordered, however they came."""
        return -self.finding.severity, order_of(self.place, self.folder), self.nth


@dataclass(frozen=True, slots=True)
class _Held:
    """A partition whose last stable offset is held back."""

    place: Place
    folder: str
    offset: int
    end: int
    holder: Any
    silent_ms: int
    hidden_records: int

    @property
    def rank(self) -> tuple[Any, ...]:
        """The longest silent first."""
        return -self.silent_ms, int(self.holder["last_timestamp"]), order_of(self.place, self.folder)


@dataclass(frozen=True, slots=True)
class Unread:
    """A partition that could not be read.

    Attributes:
        place: which.
        folder: where its files lie.
        why: why not.
    """

    place: Place
    folder: str
    why: str


@dataclass(slots=True)
class Report:
    """Takes judgements in any order and keeps what a report needs of them: some of the worst, and counts of all.

    Attributes:
        as_of_ms: time of evaluation.
        partitions: how many there were.
        size: bytes of them.
        unread_count: how many could not be read.
        unread: some of those.
        places: how many paths and folders could not be looked into.
    """

    as_of_ms: int
    partitions: int = 0
    size: int = 0
    unread_count: int = 0
    unread: list[Unread] = field(default_factory=list)
    places: int = 0
    _worst: Counter[Severity | None] = field(default_factory=Counter)
    _codes: Counter[tuple[Severity, str]] = field(default_factory=Counter)
    _findings: list[_Told] = field(default_factory=list)
    _held: list[_Held] = field(default_factory=list)
    _log_dirs: set[str | None] = field(default_factory=set)

    def add(self, judgement: Judgement) -> None:
        """Take what is said of a partition, or of several together."""
        self._codes.update((found.severity, found.code.name) for found in judgement.findings)
        self._keep(told=_worth_telling(judgement))
        if not judgement.is_counted:
            return
        self.partitions += 1
        self.size += judgement.size
        self._log_dirs.add(judgement.place.log_dir)
        if judgement.why is not None:
            self.unread_count += 1
            self._keep(unread=[Unread(judgement.place, judgement.folder, judgement.why)])
            return
        self._worst[judgement.worst] += 1
        self._keep(held=_holding_back(judgement))

    def merge(self, other: Report) -> None:
        """Take all that another report has taken."""
        self.partitions += other.partitions
        self.size += other.size
        self.unread_count += other.unread_count
        self.places += other.places
        self._log_dirs |= other._log_dirs
        self._worst.update(other._worst)
        self._codes.update(other._codes)
        self._keep(other.unread, other._findings, other._held)

    def _keep(self, unread: Iterable[Unread] = (), told: Iterable[_Told] = (), held: Iterable[_Held] = ()) -> None:
        self.unread = nsmallest(NAMED, [*self.unread, *unread], key=lambda one: order_of(one.place, one.folder))
        self._findings = nsmallest(SHOWN, [*self._findings, *told], key=attrgetter("rank"))
        self._held = nsmallest(HOLDERS, [*self._held, *held], key=attrgetter("rank"))

    @property
    def worst(self) -> Severity | None:
        """The worst severity found."""
        return max((severity for severity, _ in self._codes), default=None)

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield from self._head()
        yield from self._findings_told()
        yield from self._holders()
        yield from self._counts()

    def _head(self) -> Iterator[str]:
        found = f"{amount(self.partitions, 'partition')}, {size_text(self.size)} of log"
        if self.partitions == self.unread_count:
            yield f"NOTHING COULD BE READ: {found}"
        else:
            yield f"{self._verdict()}: {found}, judged as of {moment(self.as_of_ms)} UTC"
            yield f"partitions by their worst finding: {', '.join(self._by_worst())}"
        for one in self.unread:
            yield f"  not read: {partition_name(one.place, one.folder)}: {printable(one.why)}"
        if self.unread_count > len(self.unread):
            yield f"  … and {self.unread_count - len(self.unread):,} more"

    def _verdict(self) -> str:
        verdict = "CLEAN" if self.worst is None else str(self.worst).upper()
        return f"{verdict}, AND NOT ALL COULD BE READ" if self.unread_count or self.places else verdict

    def _by_worst(self) -> list[str]:
        parts = [
            f"{self._worst[severity]:,} {severity!s}"
            for severity in sorted(Severity, reverse=True)
            if self._worst[severity]
        ]
        parts += [f"{self._worst[None]:,} clean"] if self._worst[None] else []
        return parts + ([f"{self.unread_count:,} unread"] if self.unread_count else [])

    def _findings_told(self) -> Iterator[str]:
        if not self._findings:
            return
        yield ""
        yield "What was found, the worst first"
        for one in self._findings:
            yield from _told(self._where(one.place, one.folder), one.place, one.finding)
        told = len(self._findings)
        more = sum(count for (severity, _), count in self._codes.items() if severity >= Severity.WARNING) - told
        if more > 0:
            yield f"  … and {amount(more, 'more')[:-1] if more != 1 else '1 more'} of these severities"

    def _holders(self) -> Iterator[str]:
        if not self._held:
            return
        yield ""
        yield "Who holds the last stable offset, the longest silent first"
        for held in self._held:
            yield from _holding(self._where(held.place, held.folder), held)

    def _where(self, place: Place, folder: str) -> str:
        """Return how to name a partition; where there are several log directories, their names may be alike."""
        name = partition_name(place, folder)
        apart = len(self._log_dirs) > 1 and place.topic is not None and folder
        return f"{name}, {printable(folder)}" if apart else name

    def _counts(self) -> Iterator[str]:
        if not self._codes:
            return
        yield ""
        yield "All findings by code"
        for (severity, code), count in sorted(self._codes.items(), key=lambda item: (-item[0][0], item[0][1])):
            yield f"  {severity!s:<8}  {code:<36}  {count:>9,}"


def _worth_telling(judgement: Judgement) -> Iterator[_Told]:
    """Yield the findings from warnings on, of each code only some."""
    alike: Counter[str] = Counter()
    for nth, found in enumerate(judgement.findings):
        alike[found.code.name] += 1
        if found.severity >= Severity.WARNING and alike[found.code.name] <= SHOWN_ALIKE:
            yield _Told(judgement.place, judgement.folder, found, nth)


def _holding_back(judgement: Judgement) -> Iterator[_Held]:
    """Yield the transaction that holds back the last stable offset, if one does."""
    stable, end = judgement.stable, judgement.log_end_offset
    if stable is not None and stable.holder is not None and end is not None:
        offset = stable.last_stable_offset
        silent = stable.silent_ms or 0
        yield _Held(judgement.place, judgement.folder, offset, end, stable.holder, silent, stable.hidden_records)


def _told(where: str, place: Place, found: Finding) -> Iterator[str]:
    yield f"  {str(found.severity).upper():<8}  {found.code.name} in {where}"
    yield f"            {printable(found.message)}"
    if what := remedy(place, found):
        yield f"            do: {printable(what)}"


def _holding(where: str, held: _Held) -> Iterator[str]:
    holder = held.holder
    written = int(holder["last_timestamp"])
    who = f"producer {holder['producer_id']}, epoch {holder['producer_epoch']}"
    yield f"  {where}: {held.offset} of {held.end}, held by {who}"
    yield (
        f"    open from offset {holder['first_offset']}, silent for {duration(held.silent_ms)}"
        f" (since {moment(written)} UTC), hides {amount(held.hidden_records, 'record')}"
    )


def cards(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield a card for each partition, the worst first."""
    for judgement in sorted(judgements, key=_badness):
        yield from _card(judgement)


def _badness(judgement: Judgement) -> int:
    if judgement.why is not None:
        return -len(Severity) - 1
    return 0 if judgement.worst is None else -judgement.worst - 1


def _card(judgement: Judgement) -> Iterator[str]:
    name = partition_name(judgement.place, judgement.folder)
    if judgement.why is not None:
        yield f"UNREAD    {name}: {printable(judgement.why)}"
        return
    (row,) = judgement.rows["partitions"]
    card = dict(zip(judgement.rows["partitions"].table.names, row, strict=True))
    yield f"{card['verdict'].upper():<8}  {name}"
    yield (
        f"          {size_text(card['bytes'])} in {amount(card['segments'], 'segment')},"
        f" {amount(card['records'], 'record')} in {card['batches']:,} batch{'' if card['batches'] == 1 else 'es'},"
        f" offsets {card['first_offset'] if card['first_offset'] is not None else '-'} to {card['log_end_offset']},"
        f" last stable {card['last_stable_offset']}"
    )
    if card["producers"]:
        yield f"          {_transactions(card)}"
    codes = Counter(found.code.name for found in judgement.findings)
    if codes:
        yield f"          {', '.join(f'{code} {count}' if count > 1 else code for code, count in codes.items())}"


def _transactions(card: dict[str, Any]) -> str:
    words = [amount(card["producers"], "producer")]
    words += [f"{card[state]:,} {state}" for state in ("committed", "aborted") if card[state]]
    words += [f"{card['open_transactions']:,} open"] if card["open_transactions"] else []
    if card["control_batches"]:
        words.append(
            f"markers are {card['control_records_share']:.1%} of records and {card['control_bytes_share']:.1%} of bytes"
        )
    return ", ".join(words)
