"""Coordinator records in the wrong partition, unreadable records, and excessive timeouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.partition_of import java_hashes
from tests.forensics.coordinators.clusters import cluster_under, codes_in, forge_coordinator, found_in, key_of, value_of

FIRES = {
    "txnlog-wrong-partition": "test_an_id_in_a_partition_that_is_not_its_own",
    "txnlog-unparsable": "test_a_record_that_cannot_be_read",
    "txnlog-timeout-too-large": "test_a_timeout_that_brokers_do_not_allow",
}
SILENT = {
    "txnlog-wrong-partition": "test_ids_where_their_names_lead",
    "txnlog-unparsable": "test_bytes_after_a_value_do_no_harm",
    "txnlog-timeout-too-large": "test_the_longest_timeout_allowed",
}


def test_hashes_are_those_of_java() -> None:
    """The second hash is the smallest int, which has no positive counterpart; the last name has two UTF-16 units."""
    names = ["", "a", "id-a", "polygenelubricants", "é", "\U0001f600"]
    assert java_hashes(names).tolist() == [0, 97, 3225647, 0, 233, 1772899]


def ids_by_partition(count: int) -> dict[int, list[str]]:
    """Return two ids for each partition."""
    findings: dict[int, list[str]] = {}
    for number in range(1000):
        name = f"id-{number}"
        (place,) = (java_hashes([name]) % count).tolist()
        findings.setdefault(place, []).append(name)
    return {place: names[:2] for place, names in findings.items()}


def write(folder: Path, ids: dict[int, list[str]]) -> None:
    number = 0
    for partition, names in ids.items():
        records = [f"{name} Empty {number + at} 0 t {at}" for at, name in enumerate(names)]
        forge_coordinator(folder, "; ".join(records), partition=partition)
        number += len(names)


@pytest.mark.parametrize("reported", [None, 3])
def test_ids_where_their_names_lead(reported: int | None, tmp_path: Path) -> None:
    write(tmp_path, ids_by_partition(3))
    assert codes_in(cluster_under(tmp_path, partition_count=reported)) == {}


@pytest.mark.parametrize(("reported", "exactness"), [(None, "approximate"), (3, "exact")])
def test_an_id_in_a_partition_that_is_not_its_own(reported: int | None, exactness: str, tmp_path: Path) -> None:
    ids = ids_by_partition(3)
    ids[2].append(ids[0].pop())
    write(tmp_path, ids)
    ((place, finding),) = found_in(cluster_under(tmp_path, partition_count=reported))
    assert (finding.code.name, str(finding.severity)) == ("txnlog-wrong-partition", "critical")
    assert (place.partition, finding.evidence["wanted_partition"]) == (2, 0)
    assert finding.exactness == exactness


def test_partitions_of_a_broker_among_others_have_the_usual_number(tmp_path: Path) -> None:
    ids = ids_by_partition(50)
    write(tmp_path, {partition: ids[partition] for partition in (7, 31)})
    assert codes_in(cluster_under(tmp_path)) == {}


@pytest.mark.parametrize(
    ("content", "severity", "words"),
    [
        ((key_of("a"), b"\x00\x07" + value_of()[2:]), "error", "unknown version 7"),
        ((key_of("a"), value_of()[:-9]), "error", "end inside"),
        ((key_of("a"), b""), "error", "no version"),
        ((b"\x00\x05" + key_of("a")[2:], value_of()), "warning", "unknown record type 5"),
        ((key_of("a")[:-1], value_of()), "error", "key"),
        ((None, value_of()), "error", "no key"),
    ],
)
def test_a_record_that_cannot_be_read(
    content: tuple[bytes | None, bytes | None], severity: str, words: str, tmp_path: Path
) -> None:
    """Later records of the id are not compared with the one before it."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0; a Empty 1 1 t 1; b Empty 2 0 t 2", others={1: content})
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity), finding.first_offset) == ("txnlog-unparsable", severity, 1)
    assert words in finding.message


def test_bytes_after_a_value_do_no_harm(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0", others={0: (key_of("a"), value_of() + b"more")})
    assert codes_in(cluster_under(tmp_path)) == {}


@pytest.mark.parametrize(("timeout", "two_phase"), [(900_001, "no"), (2_147_483_647, "yes")])
def test_a_timeout_that_brokers_do_not_allow(timeout: int, two_phase: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, f"a Empty 1 0 timeout {timeout} t 0")
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity)) == ("txnlog-timeout-too-large", "info")
    assert f"producer of a two-phase commit: {two_phase}" in finding.benign


def test_the_longest_timeout_allowed(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 timeout 900000 t 0")
    assert codes_in(cluster_under(tmp_path)) == {}
