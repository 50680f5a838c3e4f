"""All families of findings on replicas together: on what a healthy cluster wrote they are silent."""

from __future__ import annotations

import pytest

from kforensics.forensics.audit.replica_result import findings_on
from kforensics.forensics.core.findings import Severity
from tests.forensics.replicas.replicas import GROUPS, compared_group


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_healthy_cluster_wrote_raises_no_alarm(name: str) -> None:
    """Leaders killed, stopped and elected, replicas moved and set aside: nothing at error or above but one election."""
    found = {one.code.name for one in findings_on(compared_group(name)) if one.severity >= Severity.WARNING}
    assert found == ({"replica-divergence"} if name.startswith("unclean") else set())
