"""Keys that real producers wrote: no findings above INFO except those that were provoked."""

from __future__ import annotations

import pytest

from kforensics.analyses.keys import KeysQuestion, evaluate_topic_keys
from kforensics.analyses.partitions import investigate
from kforensics.errors import InputError
from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.core.findings import Severity
from tests.forensics.keys.topics import truth
from tests.forensics.partition_states import SAMPLES


@pytest.mark.parametrize(
    "sample",
    [
        *("cluster-metadata-3.9", "compaction", "consume-transform-produce", "groups", "legacy-2.7", "records"),
        *("replication", "share-groups", "streams-group", "transactions-v2"),
    ],
)
def test_what_real_producers_wrote_raises_no_alarm(sample: str) -> None:
    """Records with explicit partitions, with and without keys, in transactions; topics that grew or were compacted."""
    messages: list[str] = []
    investigation = investigate([str(SAMPLES / sample)], None, messages.append, lambda _: None)
    errors: list[InputError] = []
    found = evaluate_topic_keys(investigation, KeysQuestion(), errors.append)
    results = [result for result in found if isinstance(result, TopicKeyResult)]
    assert (messages, errors) == ([], [])
    assert sum(result.topic.counts.records for result in results) > 0
    assert [result.topic.name for result in results if result.worst is not None and result.worst > Severity.INFO] == []


def test_the_growth_sample_has_only_the_provoked_findings() -> None:
    investigation = investigate([str(SAMPLES / "partition-growth")], None, lambda _: None, lambda _: None)
    codes = {
        result.topic.name: {finding.code.name for finding in result.findings if finding.severity > Severity.INFO}
        for result in evaluate_topic_keys(investigation, KeysQuestion(), lambda _: None)
        if isinstance(result, TopicKeyResult)
    }
    provoked = {"late-writer": {"key-in-two-partitions"}, "compacted": {"tombstone-wrong-partition"}}
    assert codes == {name: provoked.get(name, set()) for name in truth()["sent"]}
