"""Other brokers' replicas of a coordinator's log, read for what they show about a broker that was asked for alone."""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import forge_coordinator
from tests.forensics.partition_states import SAMPLES

# An id that goes from nothing to Ongoing, and what one of the replicas has in addition.
LOG, MORE = "a Ongoing 7 0 {t-0} t 1", "; b Empty 8 0 t 2; b Ongoing 8 0 {t-0} t 3"


def findings_in(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows = kforensics.audit(str(path), as_of=NOW + 10_000, **options).findings.to_pylist()
    return [row for row in rows if row["code"] == "txnlog-illegal-transition"]


@pytest.mark.parametrize(("first", "second"), [("", ""), (MORE, ""), ("", MORE)])
@pytest.mark.parametrize("node_id", [1, 2])
def test_findings_on_a_coordinator_are_those_of_the_broker_that_was_asked_for(
    tmp_path: Path, node_id: int, first: str, second: str
) -> None:
    """Seen on 4.1.0: the replica of a neighbor was as complete, and what it showed was lost with it."""
    for number, more in ((1, first), (2, second)):
        forge_coordinator(tmp_path / f"broker-{number}", LOG + more, node_id=number)
    asked = tmp_path / f"broker-{node_id}"
    (row,) = findings_in(asked)
    (alone,) = findings_in(asked, alone=True)
    assert (row["broker_id"], row["first_offset"], row["message"]) == (node_id, 0, alone["message"])
    assert row["path"] == alone["path"]


@pytest.mark.parametrize("broker", ["broker-1", "broker-2", "broker-3"])
def test_a_broker_of_the_lab_has_beside_others_the_findings_that_it_has_alone(broker: str) -> None:
    """Its three brokers have the same logs of coordinators; broker 2 was stopped last, so it knows what stayed open.

    Broker 3 was an eligible leader of the coordinators until then, so it lacks nothing either.
    """
    path = str(SAMPLES / "consume-transform-produce" / broker)
    beside, alone = (kforensics.audit(path, as_of="2026-11-28", alone=alone).findings for alone in (False, True))
    keys = ["code", "topic", "partition", "broker_id", "first_offset"]
    rows = [Counter(map(str, found.select(keys).to_pylist())) for found in (beside, alone)]
    more = (rows[0] - rows[1]).elements()
    assert not rows[1] - rows[0]
    codes = sorted(literal_eval(row)["code"] for row in more)
    blocked, overdue = ["eos-offsets-pending"] * 2, ["txnlog-ongoing-overdue"]
    assert codes == {"broker-1": blocked + overdue, "broker-2": [], "broker-3": blocked}[broker]
    assert any("__consumer_offsets" in row for row in rows[1])
    assert any("'txn-hanging'" in row for row in rows[1])
