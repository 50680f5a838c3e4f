"""All checks of replicas together find nothing in the logs of a healthy cluster."""

from __future__ import annotations

import pytest

from kforensics.forensics.audit.copies import replica_findings
from kforensics.forensics.core.findings import Severity
from tests.forensics.replicas.replicas import GROUPS, compared_group


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_healthy_cluster_wrote_raises_no_alarm(name: str) -> None:
    """Leaders killed, stopped and elected, replicas moved and set aside: only the unclean election is reported."""
    codes = {one.code.name for one in replica_findings(compared_group(name)) if one.severity >= Severity.WARNING}
    assert codes == ({"replica-divergence"} if name.startswith("unclean") else set())
