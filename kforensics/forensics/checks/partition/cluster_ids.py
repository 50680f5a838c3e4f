"""Checks whether two log directories of one cluster have different cluster ids; a metadata log names both directories.

Rule: ``ClusterControlManager.registerBroker`` and ``KafkaRaftClient`` accept no node of another cluster id. The
metadata log has no cluster id, so ``kforensics forecast`` and this check compare the directory ids that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.forecast.cluster_ids import ForeignClusterId, foreign_cluster_ids
from kforensics.forensics.forecast.log_directory import META, is_first_folder, read_identity
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.folders import folders_of

CODES = by_name(
    Code(
        "start-other-cluster",
        Severity.ERROR,
        meaning="A log directory has another cluster id than one beside it, but they are of one cluster.",
        remedy=(
            "Copy the log directory first. If it is of the cluster of the others, write their "
            "cluster.id into {path}. Run `kforensics forecast` on all of them before the broker starts."
        ),
        why=(
            "The metadata log in one of them has the other registered. If both are of one broker, it refuses to start. "
            "If they are of two brokers, the controllers reject the registration of the one with another cluster.id, "
            "and its requests to the quorum (INCONSISTENT_CLUSTER_ID)."
        ),
        benign=(
            "The cluster was copied under another cluster id. If the log directories of both copies are beside each "
            "other, nothing is reported."
        ),
    ),
)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield, at the first partition of a log directory, that its cluster id contradicts that of one beside it."""
    log_dir = state.partition.log_dir.path
    if log_dir is None or state.partition.log_dir.cluster_id is None:
        return
    with suppress(InputError):  # what cannot be listed has an error of its own
        if not is_first_folder(state.partition.folder, log_dir):
            return
        folders = folders_of(log_dir)
        parent = folders.parent(log_dir)
        for foreign in _foreign_beside(parent, folders.expand(parent)[0].mtime_ms):
            if foreign.path.rstrip("/") == log_dir.rstrip("/"):
                ids: dict[str, object] = {
                    "cluster_id": foreign.cluster_id,
                    "expected": foreign.expected,
                    "other": foreign.other,
                }
                finding = state.finding(CODES["start-other-cluster"], f"{foreign.message}.", evidence=ids)
                remedy = finding.code.remedy.replace("forecast`", f"forecast {shell_word(parent)}`")
                yield replace(finding, path=f"{log_dir}/{META}", remedy=remedy)


@lru_cache(maxsize=64)
def _foreign_beside(parent: str, _mtime_ms: int | None) -> tuple[ForeignClusterId, ...]:
    """Return the log directories in a folder that name another cluster than their own."""
    identities = {}
    for entry in folders_of(parent).children(parent):
        with suppress(InputError):
            meta = read_identity(entry.path) if entry.is_folder else None
            if meta is not None:
                identities[entry.path] = meta
    return tuple(foreign_cluster_ids(identities))


CHECK = Check("cluster_ids", CODES, findings, needs_log=False)
