"""Damaged indexes, transaction indexes, producer snapshots, KRaft snapshots and checkpoint files."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from lab.damage.cases import LOG, Case
from lab.damage.forge import CONTROL, TIME, batch, crc32c, flip, patch, plain, record

_INDEX, _TIME_INDEX, _TXN_INDEX = (LOG.replace(".log", suffix) for suffix in (".index", ".timeindex", ".txnindex"))
_SNAPSHOT: Final = "00000000000000000015.snapshot"
_BASES = range(0, 15, 3)
_SEGMENT = b"".join(plain(base) for base in _BASES)
_POSITIONS = [sum(len(plain(earlier)) for earlier in _BASES if earlier < base) for base in _BASES]
_ENTRIES = [(base + 2, position) for base, position in zip(_BASES, _POSITIONS, strict=True)][1:]
_TIMES = [(TIME + base + 2, base + 2) for base in _BASES][1:]


def state_cases() -> Iterator[Case]:
    """Each file is next to the healthy segment it belongs to, if it belongs to one."""
    yield from _index_cases()
    yield from _time_index_cases()
    yield from _transaction_index_cases()
    yield from _snapshot_cases()
    yield from _kraft_snapshot_cases()
    yield from _checkpoint_cases()


def _index(entries: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def _index_cases() -> Iterator[Case]:
    good = _index(_ENTRIES)
    end = len(_SEGMENT)
    wrong = [(offset, position + 1) for offset, position in _ENTRIES]
    files = {
        "healthy": (good, "Nothing is damaged."),
        "empty": (b"", "The index is empty (legal)."),
        "ragged": (good + b"\x00\x00\x00", "Three bytes too many."),
        "ragged-short": (good[:5], "Five bytes: not even one entry."),
        "zero-tail": (good + bytes(64), "Zeros follow the entries, as in an active segment."),
        "all-zero": (bytes(64), "Zeros only: there is no entry."),
        "wrong-positions": (_index(wrong), "Every position lies one byte inside a batch."),
        "wrong-offsets": (
            _index([(o - 1, p) for o, p in _ENTRIES]),
            "Every offset is one less than the last of its batch.",
        ),
        "position-at-end": (_index([*_ENTRIES, (17, end)]), "The last position is the end of the log."),
        "position-beyond-log": (_index([*_ENTRIES, (17, end + 1000)]), "The last position lies beyond the log."),
        "position-negative": (_index([(2, -8), *_ENTRIES]), "The first position is negative."),
        "offset-negative": (_index([*_ENTRIES, (-4, 300)]), "The last offset lies below the base offset."),
        "descending": (_index(_ENTRIES[::-1]), "The entries run backwards."),
        "repeated": (_index([_ENTRIES[0], _ENTRIES[0]]), "One entry stands there twice."),
    }
    for name, (content, says) in files.items():
        yield Case(f"index-{name}-0", says, {LOG: _SEGMENT, _INDEX: content})
    yield Case("index-without-log-0", "The segment of the index is missing.", {_INDEX: good})
    yield Case("index-of-empty-log-0", "An all-zero index beside an empty segment.", {LOG: b"", _INDEX: bytes(64)})
    yield Case(
        "index-of-zero-log-0",
        "A preallocated index beside a preallocated segment.",
        {LOG: bytes(512), _INDEX: bytes(64)},
    )
    yield Case(
        "index-of-cut-log-0",
        "The segment is cut, the index whole.",
        {LOG: _SEGMENT[:300], _INDEX: good, _TIME_INDEX: _time_index(_TIMES)},
    )
    broken = patch(_SEGMENT, _POSITIONS[3] + 8, bytes(4))
    yield Case(
        "index-of-broken-log-0",
        "A batch of the segment has length 0.",
        {LOG: broken, _INDEX: good, _TIME_INDEX: _time_index(_TIMES)},
    )


def _time_index(entries: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def _time_index_cases() -> Iterator[Case]:
    good = _time_index(_TIMES)
    offset_index = _index(_ENTRIES)
    files = {
        "healthy": (good, "Nothing is damaged."),
        "empty": (b"", "The index is empty (legal)."),
        "ragged": (good + b"\x00\x00\x00", "Three bytes too many."),
        "zero-tail": (good + bytes(72), "Zeros follow the entries, as in an active segment."),
        "all-zero": (bytes(72), "Zeros only: there is no entry."),
        "wrong-times": (_time_index([(t + 1, o) for t, o in _TIMES]), "Every timestamp is one too late."),
        "wrong-offsets": (
            _time_index([(t, o - 1) for t, o in _TIMES]),
            "Every offset is one less than the last of its batch.",
        ),
        "descending": (_time_index(_TIMES[::-1]), "The entries run backwards."),
        "repeated": (_time_index([_TIMES[0], *_TIMES]), "The first entry stands there twice."),
        "offset-beyond-log": (_time_index([*_TIMES, (TIME + 99, 99)]), "The last offset lies beyond the log."),
        "offset-negative": (_time_index([*_TIMES, (TIME + 99, -7)]), "The last offset lies below the base offset."),
        "time-negative": (_time_index([(-5, 2), *_TIMES]), "The first timestamp is negative."),
    }
    for name, (content, says) in files.items():
        yield Case(f"timeindex-{name}-0", says, {LOG: _SEGMENT, _INDEX: offset_index, _TIME_INDEX: content})
    yield Case(
        "timeindex-without-index-0",
        "The offset index is missing; Kafka's tool makes one.",
        {LOG: _SEGMENT, _TIME_INDEX: good},
    )
    yield Case("timeindex-without-log-0", "The segment is missing.", {_INDEX: offset_index, _TIME_INDEX: good})
    yield Case(
        "timeindex-before-zeros-0",
        "The segment is healthy, with a preallocated tail.",
        {LOG: _SEGMENT + bytes(256), _INDEX: offset_index, _TIME_INDEX: good},
    )
    empty = {LOG: b"", _INDEX: bytes(64), _TIME_INDEX: bytes(72)}
    yield Case("timeindex-of-empty-log-0", "All-zero indexes beside an empty segment.", empty)


def _aborted(version: int, producer: int, first: int, last: int, stable: int) -> bytes:
    return struct.pack(">hqqqq", version, producer, first, last, stable)


def _transaction_index_cases() -> Iterator[Case]:
    good = _aborted(0, 7, 3, 6, 7) + _aborted(0, 8, 4, 9, 10)
    files = {
        "healthy": (good, "Nothing is damaged."),
        "empty": (b"", "The index is empty."),
        "version-1": (good + _aborted(256, 9, 1, 12, 13), "The first byte of the last version is 1."),
        "version-low-byte": (
            good + _aborted(1, 9, 1, 12, 13),
            "The version is 1, in its second byte (up to 4.3 taken for 0).",
        ),
        "version-negative": (good + _aborted(-1, 9, 1, 12, 13), "The last version is -1."),
        "cut": (good[:-14], "The last entry is cut."),
        "cut-first": (good[:20], "Twenty bytes: not even one entry."),
        "zero-tail": (good + bytes(68), "Two entries' worth of zeros follow, which read as entries."),
        "descending": (good[34:] + good[:34], "The entries run backwards."),
        "below-base": (_aborted(0, 7, -9, -6, -5), "The last offset lies below the base offset."),
    }
    for name, (content, says) in files.items():
        yield Case(f"txnindex-{name}-0", says, {LOG: _SEGMENT, _TXN_INDEX: content})


def _producer(producer: int, last_offset: int, first_offset: int) -> bytes:
    return struct.pack(">qhiqiqiq", producer, 3, 2 if last_offset >= 0 else -1, last_offset, 9, TIME, 5, first_offset)


def _snapshot(count: int, entries: bytes, *, version: int = 1, tail: bytes = b"") -> bytes:
    """A producer snapshot whose CRC covers everything after it, as Kafka computes it."""
    covered = struct.pack(">i", count) + entries + tail
    return struct.pack(">hI", version, crc32c(covered)) + covered


def _snapshot_cases() -> Iterator[Case]:
    entries = _producer(1000, 60, 42) + _producer(1001, -1, -1)
    good = _snapshot(2, entries)
    files = {
        "healthy": (good, "Nothing is damaged; one producer has no batch."),
        "no-producers": (_snapshot(0, b""), "There is no producer (legal)."),
        "empty": (b"", "The file is empty."),
        "one-byte": (good[:1], "The file ends inside its version."),
        "cut-crc": (good[:4], "The file ends inside its CRC."),
        "cut-count": (good[:8], "The file ends inside its count."),
        "cut-entry": (good[:-10], "The file ends inside its last entry."),
        "cut-between-entries": (good[:-46], "The last entry is missing."),
        "version-0": (_snapshot(2, entries, version=0), "The version is 0."),
        "version-2": (_snapshot(2, entries, version=2), "The version is 2."),
        "version-2-cut": (_snapshot(2, entries, version=2)[:-10], "The version is 2, and the file is cut."),
        "bad-crc": (flip(good, 12, 4), "A bit of a producer id is turned over."),
        "count-negative": (_snapshot(-1, entries), "The count is -1."),
        "count-very-negative": (_snapshot(-77, entries), "The count is -77."),
        "count-huge": (_snapshot(2**31 - 1, entries), "The count is the largest there is."),
        "count-too-large": (_snapshot(3, entries), "The count is one too large."),
        "count-too-small": (_snapshot(1, entries), "The count is one too small; the CRC covers the rest too."),
        "stale-tail": (good + _producer(999, 30, -1)[:33], "Behind the entries lies what a longer file left there."),
        "zeros": (bytes(102), "Zeros only."),
    }
    for name, (content, says) in files.items():
        yield Case(f"snapshot-{name}-0", says, {_SNAPSHOT: content})


def _kraft_snapshot_cases() -> Iterator[Case]:
    header = record(0, b"\x00\x00\x00\x03", b"\x00\x00" + struct.pack(">q", TIME) + b"\x00")
    footer = record(0, b"\x00\x00\x00\x04", bytes(3))
    whole = [batch(0, [header], attributes=CONTROL), plain(1), batch(4, [footer], attributes=CONTROL)]
    name = "00000000000000000015-0000000002.checkpoint"
    files = {
        "healthy": (name, b"".join(whole), "Nothing is damaged."),
        "without-footer": (name, b"".join(whole[:2]), "The footer is missing: the snapshot is incomplete."),
        "cut": (name, b"".join(whole)[:-20], "The footer is cut."),
        "zero-tail": (name, b"".join(whole) + bytes(40), "Zeros follow the footer."),
        "short-name": ("15-2.checkpoint", b"".join(whole), "The name is shorter than Kafka expects."),
        "odd-name": (
            "0000000000000000001x-000000000y.checkpoint",
            b"".join(whole),
            "The name has letters among its digits.",
        ),
        "bootstrap": ("bootstrap.checkpoint", b"".join(whole), "The name of the bootstrap snapshot (healthy)."),
    }
    for case, (file, content, says) in files.items():
        yield Case(f"kraft-snapshot-{case}-0", says, {file: content})


def _checkpoint_cases() -> Iterator[Case]:
    files = {
        "count-too-large": (b"0\n3\n0 0\n1 9\n", "Fewer lines than the count says."),
        "count-too-small": (b"0\n1\n0 0\n1 9\n", "More lines than the count says."),
        "version-1": (b"1\n1\n0 0\n", "The version is 1."),
        "only-version": (b"0\n", "There is no count (read as no entries)."),
        "empty": (b"", "The file is empty (read as no entries)."),
        "not-a-number": (b"0\n1\n0 zero\n", "An offset is no number."),
        "three-tokens": (b"0\n1\n0 0 0\n", "A line has a token too many."),
        "leading-blank": (b"0\n1\n 0 0\n", "A line begins with a blank."),
        "zeros": (bytes(24), "Zeros only."),
        "descending": (b"0\n2\n5 0\n4 9\n", "The epochs run backwards."),
    }
    for name, (content, says) in files.items():
        yield Case(f"leader-epoch-{name}-0", says, {LOG: _SEGMENT, "leader-epoch-checkpoint": content})
    topics = {
        "one-line": (b"version: 0\n", "The topic id is missing."),
        "bad-id": (b"version: 0\ntopic_id: not-a-uuid", "The topic id is none."),
        "zero-id": (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "The topic id is zero."),
        "version-9": (b"version: 9\ntopic_id: c0zpkHkTSnCPCmq1GAWGhw", "The version is 9 (accepted)."),
        "version-negative": (b"version: -1\ntopic_id: c0zpkHkTSnCPCmq1GAWGhw", "The version is negative."),
        "empty": (b"", "The file is empty."),
    }
    for name, (content, says) in topics.items():
        yield Case(f"partition-metadata-{name}-0", says, {LOG: _SEGMENT, "partition.metadata": content})
