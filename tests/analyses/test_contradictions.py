"""What an audit says of one subject does not deny itself, whichever finding says it and whatever was selected."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.core.findings import Finding
from tests.analyses.test_context import (
    BLOCKING,
    EVERY_SAMPLE,
    V0,
    Audited,
    an_hour_later,
    asked,
    audited,
    investigated,
)
from tests.command import SAMPLES
from tests.thorough import some

# Phrases of findings that rule each other out, for the same transaction.
ALONE, CONSULTED = "coordinator log", "in order according to its coordinator"
UNKNOWN_ID = "txn-hanging-unknown-id"


@pytest.mark.parametrize("scenario", some(EVERY_SAMPLE, 2, 1))
def test_no_finding_denies_another_one(scenario: str) -> None:
    for folder, findings in Audited.of(an_hour_later(scenario)).findings.items():
        assert denials(findings) == [], folder


def denials(findings: Iterable[Finding]) -> list[tuple[object, ...]]:
    """Return what findings on one partition say of the same offsets and producer that cannot be true at once."""
    about = defaultdict[object, list[Finding]](list)
    for finding in findings:
        if finding.producer_id is not None:
            about[finding.first_offset, finding.producer_id].append(finding)
    denied: list[tuple[object, ...]] = []
    for subject, found in about.items():
        codes = Counter(finding.code.name for finding in found if finding.code.name in BLOCKING)
        denied += [(subject, code) for code, count in codes.items() if count > 1]
        if {"txn-hanging", UNKNOWN_ID} <= codes.keys():
            denied.append((subject, "txn-hanging", UNKNOWN_ID))
        tested = defaultdict[str, set[str]](set)
        for phrase in (phrase for finding in found for phrase in finding.benign):
            hypothesis, _, result = phrase.partition(": ")
            tested[hypothesis].add(result)
        # "no, it is late" and "no, its coordinator …" agree; "no" and "likely" do not.
        denied += [
            (subject, hypothesis, *sorted(results))
            for hypothesis, results in tested.items()
            if len({result.startswith(("no", "ruled out")) for result in results}) > 1
        ]
        coordinators = {
            result for hypothesis, results in tested.items() if hypothesis == CONSULTED for result in results
        }
        if len(coordinators) > 1 or (coordinators and any(ALONE in phrase for one in found for phrase in one.benign)):
            denied.append((subject, CONSULTED, *sorted(coordinators)))
    return denied


def test_findings_that_deny_each_other_are_noticed() -> None:
    """The findings that an audit reported before verdicts followed the coordinators, as an example of each kind."""
    findings = Audited.of(an_hour_later("transactions-v0")).findings[str(V0 / "hanging-0")]
    (hangs,) = (finding for finding in findings if finding.code.name == "txn-hanging")
    (late,) = (finding for finding in findings if finding.code.name == "txn-late")
    alone = replace(hangs, benign=("coordinator log: not consulted",))
    ongoing = replace(late, benign=(f"{CONSULTED}: Ongoing, times out at 12:30",))
    (of_other_id,) = (replace(hangs, code=replace(hangs.code, name=UNKNOWN_ID)),)
    assert not denials(findings)
    for added in (replace(hangs, message="likely"), alone, ongoing, of_other_id):
        assert denials([*findings, added]), added


def test_findings_on_one_marker_agree_whether_an_operator_wrote_it() -> None:
    for version in range(3):
        findings = Audited.of(an_hour_later(f"forged-markers-v{version}")).findings
        (of_aborted,) = (found for folder, found in findings.items() if folder.endswith("/aborted-0"))
        by_code = {finding.code.name: finding for finding in of_aborted}
        split, by_operator = by_code["atomicity-split-outcome"], by_code["marker-admin-abort"]
        assert split.first_offset == by_operator.first_offset
        assert "abort by an operator: likely, see marker-admin-abort" in split.benign


@pytest.mark.parametrize("scenario", ["forged-markers-v0", "forged-markers-v1", "forged-markers-v2"])
def test_a_partition_alone_is_evaluated_with_the_settings_that_its_neighbors_show(scenario: str) -> None:
    """A transactional id of this broker has a timeout of an hour, which another coordinator's log would not show."""
    whole = an_hour_later(scenario)
    expected = audited(whole)
    for name in ("late", "patient"):
        (partition,) = (one for one in whole.partitions if one.place.topic == name)
        alone = investigated(Path(partition.folder), as_of_ms=whole.rules.as_of_ms)
        assert alone.known_rules.settings == whole.known_rules.settings != ()
        wanted = {partition.place: expected[partition.place]} if partition.place in expected else {}
        assert asked(alone) == audited(alone) == wanted


def test_a_replica_alone_reports_the_loss_that_all_replicas_show() -> None:
    """The finding is on the replica with the most of the log among those that are given; its words are the same."""
    whole = investigated(SAMPLES / "unclean-election", as_of_ms=an_hour_later("unclean-election").rules.as_of_ms)
    expected = losses(Audited.of(whole))
    assert {topic for topic, _ in expected} == {"lossless-0", "lossy-0", "lossy-unread-0"}
    for partition in whole.partitions:
        alone = losses(Audited.of(investigated(Path(partition.folder), as_of_ms=whole.rules.as_of_ms)))
        assert alone == {loss for loss in expected if loss[0] == partition.name}


def losses(audit: Audited) -> set[tuple[str, str]]:
    """Return what an audit says of losses by unclean elections, by partition."""
    by_folder = audit.findings.items()
    return {
        (Path(folder).name, finding.message)
        for folder, findings in by_folder
        for finding in findings
        if finding.code.name == "unclean-election-loss"
    }
