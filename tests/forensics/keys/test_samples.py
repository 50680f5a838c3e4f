"""What real producers wrote to topics of other samples: nothing there is worse than a remark."""

from __future__ import annotations

import pytest

from kforensics.analyses.keys import KeysQuestion, judged_topics
from kforensics.analyses.partitions import investigate
from kforensics.forensics.core.findings import Severity
from tests.forensics.cases import SAMPLES
from tests.forensics.keys.topics import truth


@pytest.mark.parametrize(
    "sample",
    [
        *("cluster-metadata-3.9", "compaction", "consume-transform-produce", "groups", "legacy-2.7", "records"),
        *("replication", "share-groups", "streams-group", "transactions-v2"),
    ],
)
def test_what_real_producers_wrote_raises_no_alarm(sample: str) -> None:
    """Records put by hand, by keys, without keys, in transactions; topics that grew, or were cleaned."""
    said: list[str] = []
    found = investigate([str(SAMPLES / sample)], None, said.append, lambda _: None)
    judged = list(judged_topics(found, KeysQuestion(), said.append))
    assert said == []
    assert sum(one.topic.counts.records for one in judged) > 0
    assert [one.topic.name for one in judged if one.worst is not None and one.worst > Severity.INFO] == []


def test_of_the_sample_on_growth_only_what_was_provoked_is_told() -> None:
    found = investigate([str(SAMPLES / "partition-growth")], None, lambda _: None, lambda _: None)
    told = {
        one.topic.name: {finding.code.name for finding in one.findings if finding.severity > Severity.INFO}
        for one in judged_topics(found, KeysQuestion(), lambda _: None)
    }
    provoked = {"late-writer": {"key-in-two-partitions"}, "compacted": {"tombstone-wrong-partition"}}
    assert told == {name: provoked.get(name, set()) for name in truth()["sent"]}
