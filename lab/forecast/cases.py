"""The changes, one per copy: what is broken, lost, foreign or out of place before the start."""

import base64
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.damage.forge import TIME, batch, plain, record
from lab.forecast.bases import Base

Doctor = Callable[[Path], None]
CHECKPOINTS = {
    "recovery": "recovery-point-offset-checkpoint",
    "log-start": "log-start-offset-checkpoint",
    "replication": "replication-offset-checkpoint",
    "cleaner": "cleaner-offset-checkpoint",
    "epochs": "plain-0/leader-epoch-checkpoint",
}
_GARBAGE = bytes(range(7, 200, 3))
_MARKER = ".kafka_cleanshutdown"
_METADATA = "__cluster_metadata-0"
_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
# Cases of what a broker with ZooKeeper does not have: a metadata log, ids of log directories and, in 2.8, of topics.
_OF_QUORUMS = re.compile(r"^(metadata|quorum)-|topic-id|meta-.*directory$")
_UUID = "0123456789abcdef0123456789abcdef"
# Records of metadata: frame version, type, version, then the fields.
_NO_OP, _BEGIN, _END, _ABORT = (bytes([1, kind, 0, 0]) for kind in (20, 23, 24, 25))


@dataclass(frozen=True, slots=True)
class Case:
    """One change of one base.

    Attributes:
        name: what is changed.
        doctor: changes the log directory that it is given.
    """

    name: str
    doctor: Doctor


def cases_of(base: Base) -> list[Case]:
    """The cases of a base, the undoctored one first."""
    states = {"stopped": _stopped, "killed": _killed, "jbod": _jbod, "apart": _apart, "dynamic": _dynamic}
    made = [Case("undoctored", _nothing), *states[base.state]()]
    return [case for case in made if not (base.has_zookeeper and _OF_QUORUMS.search(case.name))]


def _nothing(_: Path) -> None:
    pass


def _stopped() -> Iterator[Case]:
    yield from _quorum_cases()
    yield from _meta_properties_cases()
    yield from _folder_cases()
    yield from _partition_metadata_cases()
    yield from _checkpoint_cases()
    yield from _snapshot_cases()
    yield from _index_cases()
    yield from _log_cases(clean=True)
    yield from _log_cases(clean=False)
    yield from _segment_cases()


def _dynamic() -> Iterator[Case]:
    """What is different if the metadata log has the voters of the quorum."""
    names = {"quorum-state-cut", "quorum-state-missing", "metadata-snapshots-missing", "metadata-snapshot-empty"}
    names |= {"metadata-folder-missing", "meta-missing", "meta-other-node", "meta-other-cluster"}
    names |= {"meta-moved-directory", "meta-no-directory"}
    yield from (case for case in (*_quorum_cases(), *_meta_properties_cases()) if case.name in names)


def _quorum_cases() -> Iterator[Case]:
    newest, state = f"{_METADATA}/*.checkpoint", f"{_METADATA}/quorum-state"
    log = f"{_METADATA}/*.log"
    for name, doctor in {
        "metadata-snapshot-bit": _flip(newest, 0.5),
        "metadata-snapshot-bit-in-header": _flip(newest, 20),
        "metadata-snapshot-bit-in-footer": _flip(newest, -4),
        "metadata-snapshot-empty": _put(newest, b""),
        "metadata-snapshot-cut": _cut(newest, 0.5),
        "metadata-snapshot-newest-missing": _remove(newest),
        "metadata-snapshots-missing": _remove_all(newest),
        "metadata-snapshot-older-bit": _flip(newest, 0.5, number=0),
        "quorum-state-cut": _cut(state, 0.5),
        "quorum-state-missing": _remove(state),
        "quorum-state-empty": _put(state, b""),
        "quorum-state-garbage": _put(state, _GARBAGE),
        "quorum-state-other-voter": _replace(state, b'"voterId":1', b'"voterId":9'),
        "quorum-state-higher-epoch": _replace(state, b'"leaderEpoch":', b'"leaderEpoch":7'),
        "metadata-log-bit-early": _flip(log, 100),
        "metadata-log-bit-late": _flip(log, -10),
        "metadata-log-cut-late": _cut(log, -7),
        "metadata-log-cut-early": _cut(log, 200),
        "metadata-log-empty": _put(log, b""),
        "metadata-log-zero-tail": _append(log, bytes(100)),
        "metadata-log-missing": _remove(log),
        "metadata-indexes-missing": _remove_all(f"{_METADATA}/*index"),
        "metadata-epochs-garbage": _put(f"{_METADATA}/leader-epoch-checkpoint", _GARBAGE),
        "metadata-epochs-missing": _remove(f"{_METADATA}/leader-epoch-checkpoint"),
        "metadata-producer-snapshots-missing": _remove_all(f"{_METADATA}/*.snapshot"),
        "metadata-topic-id-missing": _remove(f"{_METADATA}/partition.metadata"),
        "metadata-folder-missing": _remove(_METADATA),
        "metadata-snapshot-part": _put_new(f"{_METADATA}/{99:020}-{2:010}.checkpoint.part", _GARBAGE),
        "metadata-snapshot-beyond-log": _copy(newest, f"{_METADATA}/{5000:020}-{2:010}.checkpoint"),
        "metadata-foreign-file": _put_new(f"{_METADATA}/notes.txt", b"hello"),
    }.items():
        yield Case(name, doctor)
    for name, ends in {"open": (), "aborted": (_ABORT,), "ended": (_END,)}.items():
        yield Case(f"metadata-transaction-{name}", _remove_topic_in_transaction("plain-0", ends, before=2))
    yield Case("metadata-transaction-one-later", _remove_topic_in_transaction("plain-0", (_END,), before=1))
    yield Case("metadata-transaction-at-snapshot", _remove_topic_in_transaction("plain-0", (_END,), before=0))


def _meta_properties_cases() -> Iterator[Case]:
    meta = "meta.properties"
    yield Case("meta-missing", _remove(meta))
    yield Case("meta-other-node", _replace(meta, re.compile(rb"(node|broker)\.id=\d+"), rb"\1.id=7"))
    yield Case("meta-other-cluster", _replace(meta, re.compile(rb"cluster\.id=.*"), b"cluster.id=" + _ID.encode()))
    yield Case(
        "meta-other-directory",
        _replace(meta, re.compile(rb"directory\.id=.*"), b"directory.id=" + _ID.encode()),
    )
    moved = _replace(meta, re.compile(rb"directory\.id=.*"), b"directory.id=zGp8lTqfQ8uLk1Xw3xTq0A")
    yield Case("meta-moved-directory", moved)
    yield Case("meta-no-directory", _replace(meta, re.compile(rb"directory\.id=.*\n"), b""))
    yield Case("meta-bad-directory", _replace(meta, re.compile(rb"directory\.id=.*"), b"directory.id=x"))
    yield Case("meta-no-cluster", _replace(meta, re.compile(rb"cluster\.id=.*\n?"), b""))
    yield Case("meta-no-node", _replace(meta, re.compile(rb"(node|broker)\.id=.*\n"), b""))
    yield Case("meta-empty", _put(meta, b""))
    yield Case("meta-garbage", _put(meta, _GARBAGE))
    yield Case("meta-version-9", _replace(meta, re.compile(rb"version=\d"), b"version=9"))
    yield Case("meta-bad-node", _replace(meta, re.compile(rb"(node|broker)\.id=\d+"), rb"\1.id=one"))


def _folder_cases() -> Iterator[Case]:
    yield Case("folder-backup", _folder("backup"))
    yield Case("folder-lost-and-found", _folder("lost+found"))
    yield Case("folder-backup-with-number", _folder("backup-0"))
    yield Case("folder-hidden", _folder(".cache"))
    yield Case("folder-leading-zero-alone", _rename("plain-0", "plain-00"))
    yield Case("folder-leading-zero", _copy("plain-0", "plain-00"))
    yield Case("folder-unknown-topic", _copy("plain-0", "unknown-0"))
    yield Case("folder-unknown-partition", _copy("plain-0", "plain-7"))
    yield Case("folder-negative", _copy("plain-0", "plain--1"))
    yield Case("file-in-log-directory", _put_new("notes.txt", b"hello"))
    yield Case("file-log-in-log-directory", _put_new("backup.log", b"hello"))
    yield Case("future-alone", _rename("plain-0", f"plain-0.{_UUID}-future"))
    yield Case("future-beside", _copy("plain-0", f"plain-0.{_UUID}-future"))
    yield Case("future-of-unknown", _copy("plain-0", f"unknown-0.{_UUID}-future"))
    yield Case("deleted-folder", _rename("plain-0", f"plain-0.{_UUID}-delete"))
    yield Case("deleted-folder-beside", _copy("plain-0", f"plain-0.{_UUID}-delete"))
    yield Case("deleted-folder-of-shorter-log", _copy("open-0", f"plain-0.{_UUID}-delete"))
    zeros = _append(f"plain-0.{_UUID}-delete/*.log", bytes(100))
    yield Case("deleted-folder-with-zero-tail", _chain(_copy("single-0", f"plain-0.{_UUID}-delete"), zeros))
    yield Case("stray-folder", _rename("plain-0", f"plain-0.{_UUID}-stray"))
    yield Case("stray-folder-beside", _copy("plain-0", f"plain-0.{_UUID}-stray"))
    yield Case("stray-folder-of-shorter-log", _copy("open-0", f"plain-0.{_UUID}-stray"))
    yield Case("deleted-folder-malformed", _rename("plain-0", "plain-0.x-delete"))
    yield Case("partition-missing", _remove("plain-0"))
    yield Case("partition-empty", _emptied("plain-0"))
    yield Case("partition-only-metadata", _emptied("plain-0", keep="partition.metadata"))
    yield Case("internal-partition-missing", _remove("__transaction_state-0"))
    yield Case("offsets-partition-missing", _remove("__consumer_offsets-0"))
    yield Case("everything-but-meta-missing", _emptied("", keep="meta.properties"))
    yield Case("partition-backup-log", _put_new("plain-0/backup.log", b"hello"))
    yield Case("partition-notes", _put_new("plain-0/notes.txt", b"hello"))
    yield Case("partition-log-bak", _copy("single-0/00000000000000000000.log", "single-0/00000000000000000000.log.bak"))
    yield Case("partition-subfolder", _folder("plain-0/old"))
    yield Case("partition-subfolder-log", _folder("plain-0/old.log"))
    yield Case("partition-backup-index", _put_new("plain-0/backup.index", b"hello"))
    yield Case("partition-backup-snapshot", _put_new("plain-0/backup.snapshot", b"hello"))
    yield Case("partition-is-a-file", _chain(_remove("plain-2"), _put_new("plain-2", b"hello")))


def _partition_metadata_cases() -> Iterator[Case]:
    name = "plain-0/partition.metadata"
    yield Case("topic-id-missing", _remove(name))
    yield Case("topic-id-other", _replace(name, re.compile(rb"topic_id: .*"), b"topic_id: " + _ID.encode()))
    yield Case("topic-id-empty", _put(name, b""))
    yield Case("topic-id-garbage", _put(name, _GARBAGE))
    yield Case("topic-id-version-1", _replace(name, b"version: 0", b"version: 1"))
    yield Case("topic-id-only-version", _put(name, b"version: 0\n"))
    yield Case("topic-id-zero", _replace(name, re.compile(rb"topic_id: .*"), b"topic_id: " + b"A" * 22))
    yield Case("topic-ids-swapped", _swap(name, "single-0/partition.metadata"))
    yield Case("internal-topic-id-other", _swap("__consumer_offsets-0/partition.metadata", "idle-0/partition.metadata"))
    yield Case("topic-id-of-sibling-missing", _remove("plain-1/partition.metadata"))
    yield Case("topic-id-of-empty-missing", _remove("idle-0/partition.metadata"))


def _checkpoint_cases() -> Iterator[Case]:
    for kind, name in CHECKPOINTS.items():
        yield Case(f"{kind}-garbage", _put_new(name, _GARBAGE))
        yield Case(f"{kind}-malformed-line", _malformed(name))
        yield Case(f"{kind}-empty", _put_new(name, b""))
        yield Case(f"{kind}-missing", _remove(name))
        yield Case(f"{kind}-count-wrong", _put_new(name, b"0\n9\n"))
        yield Case(f"{kind}-version-1", _put_new(name, b"1\n0\n"))
    for kind, offset in (("ahead", 1000), ("behind", 5), ("negative", -7)):
        yield Case(f"recovery-{kind}", _offset(CHECKPOINTS["recovery"], "single 0", offset))
        yield Case(f"replication-{kind}", _offset(CHECKPOINTS["replication"], "single 0", offset))
        yield Case(f"log-start-{kind}", _offset(CHECKPOINTS["log-start"], "trimmed 0", offset))
    yield Case("recovery-of-unknown", _offset(CHECKPOINTS["recovery"], "unknown 0", 3))
    yield Case("log-start-at-end", _offset(CHECKPOINTS["log-start"], "trimmed 0", 27))
    yield Case("log-start-within-segment", _offset(CHECKPOINTS["log-start"], "plain 0", 12))
    after_open = _offset(CHECKPOINTS["log-start"], "open 0", 11)
    yield Case("log-start-after-open-transaction", after_open)
    without_snapshots = _chain(after_open, _remove_all("open-0/*.snapshot"))
    yield Case("log-start-after-open-transaction-unclean", _unclean(without_snapshots))
    unflushed = _chain(_offset(CHECKPOINTS["log-start"], "plain 0", 12), _offset(CHECKPOINTS["recovery"], "plain 0", 0))
    yield Case("log-start-within-segment-unclean", _unclean(unflushed))
    yield Case("log-start-of-single", _offset(CHECKPOINTS["log-start"], "single 0", 12))
    yield Case("epochs-ahead", _put_new(CHECKPOINTS["epochs"], b"0\n2\n0 0\n9 500\n"))
    yield Case("epochs-high", _put_new(CHECKPOINTS["epochs"], b"0\n1\n99 0\n"))
    yield Case("epochs-descending", _put_new(CHECKPOINTS["epochs"], b"0\n2\n3 0\n1 9\n"))
    yield Case("checkpoint-temporary-file", _put_new(CHECKPOINTS["recovery"] + ".tmp", _GARBAGE))


def _snapshot_cases() -> Iterator[Case]:
    for topic in ("plain-0", "open-0", "txn-0"):
        yield Case(f"snapshot-bit-{topic}", _flip(f"{topic}/*.snapshot", 0.6))
        yield Case(f"snapshot-newest-missing-{topic}", _remove(f"{topic}/*.snapshot"))
        yield Case(f"snapshots-missing-{topic}", _remove_all(f"{topic}/*.snapshot"))
        yield Case(f"snapshot-empty-{topic}", _put(f"{topic}/*.snapshot", b""))
    yield Case("snapshot-older-bit", _flip("plain-0/*.snapshot", 0.6, number=0))
    yield Case("snapshot-ahead", _copy("plain-0/*.snapshot", f"plain-0/{4000:020}.snapshot"))
    yield Case("snapshots-missing-everywhere", _remove_all("*-*/*.snapshot", but=_METADATA))
    yield Case("snapshots-missing-unclean", _unclean(_remove_all("open-0/*.snapshot")))
    yield Case("snapshot-bit-unclean", _unclean(_flip("open-0/*.snapshot", 0.6)))
    for name, doctor in {
        "txnindex-tail": _append("txn-0/*.txnindex", _GARBAGE[:10]),
        "txnindex-tail-whole": _append("txn-0/*.txnindex", _GARBAGE[:34]),
        "txnindex-missing": _remove_all("txn-0/*.txnindex"),
        "txnindex-empty": _put("txn-0/*.txnindex", b""),
        "txnindex-bit": _flip("txn-0/*.txnindex", 9),
        "txnindex-version": _flip("txn-0/*.txnindex", 1),
    }.items():
        yield Case(name, doctor)
        yield Case(f"{name}-unclean", _unclean(doctor))


def _index_cases() -> Iterator[Case]:
    for name, doctor in {
        "index-missing": _remove("plain-0/*.index", number=0),
        "timeindex-missing": _remove("plain-0/*.timeindex", number=0),
        "index-of-active-missing": _remove("plain-0/*.index"),
        "indexes-missing": _remove_all("plain-0/*index"),
        "indexes-missing-everywhere": _remove_all("*-*/*index", but=_METADATA),
        "index-bit": _flip("plain-0/*.index", 3),
        "index-high-bit": _flip("plain-0/*.index", 8),
        "index-empty": _put("plain-0/*.index", b"", number=0),
        "index-ragged": _append("plain-0/*.index", b"123", number=0),
        "timeindex-ragged": _append("plain-0/*.timeindex", b"12345", number=0),
        "index-zeros": _put("plain-0/*.index", bytes(64), number=0),
        "timeindex-empty": _put("plain-0/*.timeindex", b"", number=0),
        "timeindex-bit": _flip("plain-0/*.timeindex", 3),
        "index-garbage": _put("plain-0/*.index", _GARBAGE[:64], number=0),
    }.items():
        yield Case(name, doctor)
    yield Case("indexes-missing-unclean", _unclean(_remove_all("plain-0/*index")))
    yield from _large_index_cases()
    yield Case("index-garbage-unclean", _unclean(_put("plain-0/*.index", _GARBAGE[:64], number=0)))


def _large_index_cases() -> Iterator[Case]:
    """Indexes that are larger than ``segment.index.bytes`` of their topic, which is 1024."""
    active = "plain-0/*.index"
    for name, doctor in {
        "index-above-limit": _append(active, bytes(4096)),
        "timeindex-above-limit": _append("plain-0/*.timeindex", bytes(1200)),
        "indexes-at-limit": _chain(_put(active, bytes(1024)), _put("plain-0/*.timeindex", bytes(1020))),
        "index-ragged-above-limit": _put(active, bytes(1030)),
        "index-above-limit-of-older": _append(active, bytes(4096), number=0),
        "index-above-limit-without-setting": _append("single-0/*.index", bytes(4096)),
        "index-above-limit-of-stray": _chain(
            _append(active, bytes(4096)), _copy("plain-0", f"plain-0.{_UUID}-stray"), _put(active, b"")
        ),
        "index-above-limit-of-deleted": _chain(
            _append(active, bytes(4096)), _copy("plain-0", f"plain-0.{_UUID}-delete"), _put(active, b"")
        ),
    }.items():
        yield Case(name, doctor)
        yield Case(f"{name}-unclean", _unclean(doctor))
    # Each second batch gets an entry: it has 84 bytes, and index.interval.bytes of the topic is 128.
    for name, batches in {
        "time-index-fills": [_of_one_record(18 + number, TIME + number) for number in range(171)],
        "time-index-almost-fills": [_of_one_record(18 + number, TIME + number) for number in range(170)],
        "index-fills": [_of_one_record(18 + number, TIME) for number in range(259)],
        "index-almost-fills": [_of_one_record(18 + number, TIME) for number in range(258)],
    }.items():
        yield Case(f"{name}-unclean", _unclean(_put("plain-0/*.log", b"".join(batches))))


def _of_one_record(base: int, time: int) -> bytes:
    return batch(base, [record(0, None, bytes(16))], times=(time, time))


def _log_cases(*, clean: bool) -> Iterator[Case]:
    """Damage of logs, with the mark of an orderly stop and without."""
    suffix, wrap = ("", _same) if clean else ("-unclean", _unclean)
    log, segments = "single-0/*.log", "plain-0/*.log"
    for name, doctor in {
        "torn-tail": _cut(log, -30),
        "torn-tail-header": _cut(log, -200),
        "zero-tail": _append(log, bytes(100)),
        "zero-tail-short": _append(log, bytes(5)),
        "garbage-tail": _append(log, _GARBAGE),
        "tail-of-segments-torn": _cut(segments, -30),
        "older-segment-torn": _cut(segments, -30, number=0),
        "bit-in-record": _flip(log, 0.5),
        "bit-in-last-record": _flip(log, -5),
        "bit-in-first-record": _flip(log, 100),
        "bit-in-older-segment": _flip(segments, 100, number=0),
        "bit-in-base-offset-of-last": _flip_last_batch(log, 7),
        "bit-in-base-offset-high": _flip_last_batch(log, 5),
        "bit-in-length-of-last": _flip_last_batch(log, 10),
        "bit-in-magic-of-last": _flip_last_batch(log, 16),
        "bit-in-epoch-of-last": _flip_last_batch(log, 15),
        "bit-in-last-offset-delta-of-last": _flip_last_batch(log, 26),
        "bit-in-base-offset-of-first": _flip(log, 7),
        "log-empty": _put(log, b""),
        "last-batch-twice": _repeat_last_batch(log),
    }.items():
        yield Case(name + suffix, wrap(doctor))


def _segment_cases() -> Iterator[Case]:
    log = "plain-0/*.log"
    middle = f"plain-0/{9:020}"
    transaction_before = _chain(
        *(_remove(f"open-0/{0:020}{end}") for end in (".log", ".index", ".timeindex", ".txnindex")),
        _put_new(f"open-0/{14:020}.log", plain(14)),
        *(_put_new(f"open-0/{14:020}{end}", b"") for end in (".index", ".timeindex")),
    )
    for name, doctor in {
        "log-missing": _remove("single-0/*.log"),
        "log-of-first-missing": _remove(log, number=0),
        "log-of-middle-missing": _remove(log, number=1),
        "log-of-last-missing": _remove(log),
        "segment-first-missing": _chain(
            _remove(log, number=0), _remove("plain-0/*.index", number=0), _remove("plain-0/*.timeindex", number=0)
        ),
        "segment-middle-missing": _chain(*(_remove(f"{middle}{end}") for end in (".log", ".index", ".timeindex"))),
        "segment-last-missing": _chain(*(_remove(f"plain-0/*{end}") for end in (".log", ".index", ".timeindex"))),
        "segment-overlapping": _copy("single-0/*.log", f"single-0/{9:020}.log"),
        "segment-beyond": _copy("single-0/*.log", f"single-0/{900:020}.log"),
        "segment-empty-beyond": _put_new(f"single-0/{27:020}.log", b""),
        "segment-empty-gap": _put_new(f"single-0/{40:020}.log", b""),
        "swap-whole": _rename(f"{middle}.log", f"{middle}.log.swap"),
        "swap-beside": _copy(f"{middle}.log", f"{middle}.log.swap"),
        "cleaned-beside": _copy(f"{middle}.log", f"{middle}.log.cleaned"),
        "cleaned-alone": _rename(f"{middle}.log", f"{middle}.log.cleaned"),
        "deleted-alone": _rename(f"{middle}.log", f"{middle}.log.deleted"),
        "deleted-beside": _copy(f"{middle}.log", f"{middle}.log.deleted"),
        "log-renamed": _rename(f"single-0/{0:020}.log", f"single-0/{5:020}.log"),
        "transaction-before-log-start": transaction_before,
        "transaction-before-log-start-of-checkpoint": _chain(
            transaction_before, _offset(CHECKPOINTS["log-start"], "open 0", 14)
        ),
        "log-short-name": _rename(f"single-0/{0:020}.log", "single-0/0.log"),
    }.items():
        yield Case(name, doctor)
        yield Case(f"{name}-unclean", _unclean(doctor))
    yield Case("marker-missing", _remove(_MARKER))
    yield Case("marker-garbage", _put(_MARKER, _GARBAGE))
    yield Case("marker-empty", _put(_MARKER, b""))
    yield Case("marker-and-recovery-missing", _unclean(_remove(CHECKPOINTS["recovery"])))
    yield Case("marker-missing-recovery-ahead", _unclean(_offset(CHECKPOINTS["recovery"], "single 0", 1000)))
    yield Case("marker-missing-recovery-behind", _unclean(_offset(CHECKPOINTS["recovery"], "single 0", 5)))
    yield Case("lock-file", _put_new(".lock", b""))


def _killed() -> Iterator[Case]:
    single, txn = "single-0/*.log", "txn-0/*"
    recovery = CHECKPOINTS["recovery"]
    for name, doctor in {
        "torn-tail": _cut(single, -30),
        "zero-tail": _append(single, bytes(100)),
        "garbage-tail": _append(single, _GARBAGE),
        "bit-in-record": _flip(single, 0.5),
        "bit-in-last-record": _flip(single, -5),
        "bit-below-recovery-point": _flip(single, 100),
        "bit-in-older-segment": _flip("plain-0/*.log", 100, number=0),
        "bit-in-last-segment": _flip("plain-0/*.log", 100),
        "marker-added": _put_new(_MARKER, b'{"version":0,"brokerEpoch":5}'),
        "marker-added-torn-tail": _chain(_put_new(_MARKER, b'{"version":0,"brokerEpoch":5}'), _cut(single, -30)),
        "txnindex-missing": _remove_all(f"{txn}.txnindex"),
        "txnindex-tail": _append(f"{txn}.txnindex", _GARBAGE[:10]),
        "snapshots-missing": _remove_all(f"{txn}.snapshot"),
        "snapshots-missing-open": _remove_all("open-0/*.snapshot"),
        "snapshots-missing-everywhere": _remove_all("*-*/*.snapshot", but=_METADATA),
        "snapshot-bit": _flip(f"{txn}.snapshot", 0.6),
        "snapshot-older-bit": _flip(f"{txn}.snapshot", 0.6, number=0),
        "indexes-missing": _remove_all("plain-0/*index"),
        "indexes-missing-everywhere": _remove_all("*-*/*index", but=_METADATA),
        "recovery-missing": _remove(recovery),
        "recovery-garbage": _put(recovery, _GARBAGE),
        "recovery-ahead": _offset(recovery, "single 0", 1000),
        "log-start-missing": _remove(CHECKPOINTS["log-start"]),
        "epochs-missing": _remove(CHECKPOINTS["epochs"]),
        "epochs-garbage": _put(CHECKPOINTS["epochs"], _GARBAGE),
        "log-missing": _remove(single),
        "log-empty": _put(single, b""),
        "segment-middle-missing": _remove(f"plain-0/{9:020}.*"),
        "last-batch-twice": _repeat_last_batch(single),
        "base-offset-bit": _flip_last_batch(single, 7),
        "folder-backup": _folder("backup"),
        "topic-id-missing": _remove("single-0/partition.metadata"),
        "swap-beside": _copy(f"plain-0/{9:020}.log", f"plain-0/{9:020}.log.swap"),
        "cleaned-beside": _copy(f"plain-0/{9:020}.log", f"plain-0/{9:020}.log.cleaned"),
    }.items():
        yield Case(name, doctor)
    for name, doctor in {
        "metadata-log-torn": _cut(f"{_METADATA}/*.log", -7),
        "metadata-log-zero-tail": _append(f"{_METADATA}/*.log", bytes(100)),
        "metadata-log-bit-early": _flip(f"{_METADATA}/*.log", 100),
        "metadata-log-older-segment-bit": _flip(f"{_METADATA}/*.log", 100, number=0),
        "metadata-snapshot-bit": _flip(f"{_METADATA}/*.checkpoint", 0.5),
        "metadata-snapshots-missing": _remove_all(f"{_METADATA}/*.checkpoint"),
    }.items():
        yield Case(name, doctor)


def _jbod() -> Iterator[Case]:
    meta = "b/meta.properties"
    for name, doctor in {
        "second-missing": _remove("b"),
        "second-empty": _emptied("b"),
        "second-meta-missing": _remove(meta),
        "second-meta-other-cluster": _replace(meta, re.compile(rb"cluster\.id=.*"), b"cluster.id=" + _ID.encode()),
        "second-meta-other-node": _replace(meta, re.compile(rb"(node|broker)\.id=\d+"), rb"\1.id=7"),
        "second-meta-other-directory": _replace(
            meta, re.compile(rb"directory\.id=.*"), b"directory.id=" + _ID.encode()
        ),
        "metas-swapped": _swap("a/meta.properties", meta),
        "meta-copied": _copy("a/meta.properties", meta),
        "second-recovery-garbage": _put("b/recovery-point-offset-checkpoint", _GARBAGE),
        "second-log-start-garbage": _put("b/log-start-offset-checkpoint", _GARBAGE),
        "second-replication-garbage": _put("b/replication-offset-checkpoint", _GARBAGE),
        "second-folder-backup": _folder("b/backup"),
        "first-folder-backup": _folder("a/backup"),
        "first-recovery-garbage": _put("a/recovery-point-offset-checkpoint", _GARBAGE),
        "partition-moved": _move_some_partition,
        "partition-in-both": _copy_some_partition,
        "second-is-a-file": _chain(_remove("b"), _put_new("b", b"hello")),
        "first-marker-missing": _remove(f"a/{_MARKER}"),
        "second-marker-missing": _remove(f"b/{_MARKER}"),
        "metadata-moved": _rename(f"a/{_METADATA}", f"b/{_METADATA}"),
        "metadata-snapshot-bit": _flip(f"a/{_METADATA}/*.checkpoint", 0.5),
        "metadata-log-bit": _flip(f"a/{_METADATA}/*.log", -10),
        "second-epochs-garbage": _second_epochs,
        "second-zero-tail": _second_zero_tail,
    }.items():
        yield Case(name, doctor)


def _apart() -> Iterator[Case]:
    """What is different if ``metadata.log.dir`` is none of ``log.dirs``."""
    meta, other = "metadata/meta.properties", b"directory.id=" + base64.urlsafe_b64encode(b"another-director")
    for name, doctor in {
        "metadata-meta-missing": _remove(meta),
        "metadata-meta-other-node": _replace(meta, re.compile(rb"node\.id=\d+"), b"node.id=7"),
        "metadata-meta-other-directory": _replace(meta, re.compile(rb"directory\.id=.*"), other),
        "metadata-directory-empty": _emptied("metadata"),
        "metadata-log-bit": _flip(f"metadata/{_METADATA}/*.log", -10),
        "first-meta-other-directory": _replace("a/meta.properties", re.compile(rb"directory\.id=.*"), other),
        "first-meta-missing": _remove("a/meta.properties"),
        "first-marker-missing": _remove(f"a/{_MARKER}"),
        "first-recovery-garbage": _put("a/recovery-point-offset-checkpoint", _GARBAGE),
        "first-empty": _emptied("a"),
        "partition-missing": _remove("a/plain-*"),
        "partition-beside-metadata": _move_beside_metadata,
        "metadata-lost-and-found": _folder("metadata/lost+found"),
    }.items():
        yield Case(name, doctor)


def _move_beside_metadata(data: Path) -> None:
    moved = _some_partition(data, "a")
    moved.rename(data / "metadata" / moved.name)


def _some_partition(data: Path, folder: str) -> Path:
    return min(path for path in (data / folder).glob("plain-*") if path.is_dir())


def _move_some_partition(data: Path) -> None:
    moved = _some_partition(data, "b")
    moved.rename(data / "a" / moved.name)


def _copy_some_partition(data: Path) -> None:
    copied = _some_partition(data, "b")
    shutil.copytree(copied, data / "a" / copied.name)


def _second_epochs(data: Path) -> None:
    (_some_partition(data, "b") / "leader-epoch-checkpoint").write_bytes(_GARBAGE)


def _second_zero_tail(data: Path) -> None:
    with next(_some_partition(data, "b").glob("*.log")).open("ab") as file:
        file.write(bytes(100))


# What a doctor does; a pattern that matches several files means the last one, or the one of the number.


def _matching(data: Path, pattern: str, but: str | None = None) -> list[Path]:
    return sorted(path for path in data.glob(pattern) if but is None or path.parent.name != but)


def _one(data: Path, pattern: str, number: int = -1) -> Path:
    return _matching(data, pattern)[number]


def _same(doctor: Doctor) -> Doctor:
    return doctor


def _unclean(doctor: Doctor) -> Doctor:
    return _chain(_remove(_MARKER), doctor)


def _chain(*doctors: Doctor) -> Doctor:
    def chained(data: Path) -> None:
        for doctor in doctors:
            doctor(data)

    return chained


def _flip(pattern: str, place: float, *, number: int = -1) -> Doctor:
    def flip(data: Path) -> None:
        path = _one(data, pattern, number)
        content = bytearray(path.read_bytes())
        content[_position(place, len(content))] ^= 1
        path.write_bytes(content)

    return flip


def _position(place: float, size: int) -> int:
    """A byte: a fraction of the size, or an index as Python counts."""
    return place if isinstance(place, int) else int(place * size)


def _cut(pattern: str, place: float, *, number: int = -1) -> Doctor:
    def cut(data: Path) -> None:
        path = _one(data, pattern, number)
        content = path.read_bytes()
        path.write_bytes(content[: _position(place, len(content))])

    return cut


def _put(pattern: str, content: bytes, *, number: int = -1) -> Doctor:
    return lambda data: _written(_one(data, pattern, number), content)


def _put_new(name: str, content: bytes) -> Doctor:
    return lambda data: _written(data / name, content)


def _written(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _append(pattern: str, content: bytes, *, number: int = -1) -> Doctor:
    def append(data: Path) -> None:
        with _one(data, pattern, number).open("ab") as file:
            file.write(content)

    return append


def _remove(pattern: str, *, number: int = -1) -> Doctor:
    return lambda data: _removed(_matching(data, pattern)[slice(number, None if number == -1 else number + 1)])


def _remove_all(pattern: str, *, but: str | None = None) -> Doctor:
    return lambda data: _removed(_matching(data, pattern, but))


def _removed(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _emptied(folder: str, *, keep: str = "") -> Doctor:
    return lambda data: _removed([path for path in (data / folder).iterdir() if path.name != keep])


def _replace(pattern: str, old: "bytes | re.Pattern[bytes]", new: bytes) -> Doctor:
    found = re.compile(re.escape(old)) if isinstance(old, bytes) else old

    def replace(data: Path) -> None:
        path = _one(data, pattern)
        path.write_bytes(found.sub(new, path.read_bytes()))

    return replace


def _folder(name: str) -> Doctor:
    return lambda data: (data / name).mkdir()


def _copy(pattern: str, name: str) -> Doctor:
    def copy(data: Path) -> None:
        source = _one(data, pattern)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, data / name)

    return copy


def _rename(name: str, new: str) -> Doctor:
    def rename(data: Path) -> None:
        (data / name).rename(data / new)

    return rename


def _swap(first: str, second: str) -> Doctor:
    def swap(data: Path) -> None:
        one, other = (data / first).read_bytes(), (data / second).read_bytes()
        (data / first).write_bytes(other)
        (data / second).write_bytes(one)

    return swap


def _malformed(name: str) -> Doctor:
    def malform(data: Path) -> None:
        path = data / name
        lines = path.read_bytes().splitlines() or [b"0", b"0"]
        path.write_bytes(b"\n".join([lines[0], b"%d" % (int(lines[1]) + 1), *lines[2:], b"malformed"]) + b"\n")

    return malform


def _offset(name: str, partition: str, offset: int) -> Doctor:
    """Set the offset of a partition, which is added if it is not there."""

    def change(data: Path) -> None:
        path = data / name
        old = path.read_text().splitlines()[2:] if path.exists() else []
        lines = [line for line in old if not line.startswith(f"{partition} ")] + [f"{partition} {offset}"]
        path.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")

    return change


def _last_batch(content: bytes | bytearray) -> int:
    position = last = 0
    while position + 12 <= len(content):
        last, position = position, position + 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return last


def _remove_topic_in_transaction(folder: str, ends: tuple[bytes, ...], before: int) -> Doctor:
    """Append a transaction to the metadata log that removes the topic of a folder, after some records.

    In the base the log ends where its newest snapshot does.
    """

    def append(data: Path) -> None:
        path = _one(data, f"{_METADATA}/*.log")
        content = path.read_bytes()
        last = content[_last_batch(content) :]
        base = int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1
        topic_id = re.findall(rb"topic_id: (.*)", (data / folder / "partition.metadata").read_bytes())[0]
        remove = b"\1\x09\0" + base64.urlsafe_b64decode(topic_id + b"==") + b"\0"
        time, epoch = int.from_bytes(last[35:43], "big"), int.from_bytes(last[12:16], "big")
        for values in (*[(_NO_OP,)] * before, (_BEGIN, remove, *ends)):
            records = [record(delta, None, value) for delta, value in enumerate(values)]
            content += batch(base, records, epoch=epoch, times=(time, time))
            base += len(values)
        path.write_bytes(content)

    return append


def _flip_last_batch(pattern: str, place: int) -> Doctor:
    def flip(data: Path) -> None:
        path = _one(data, pattern)
        content = bytearray(path.read_bytes())
        content[_last_batch(content) + place] ^= 1
        path.write_bytes(content)

    return flip


def _repeat_last_batch(pattern: str) -> Doctor:
    def repeat(data: Path) -> None:
        path = _one(data, pattern)
        content = path.read_bytes()
        path.write_bytes(content + content[_last_batch(content) :])

    return repeat
