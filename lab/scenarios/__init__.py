"""The scenarios, in the order in which they are played."""

from collections.abc import Iterator
from importlib import import_module

from lab.scenario import Scenario

_MODULES = (
    "classic_transaction",
    "transaction_costs",
    "transactions",
    "forged_markers",
    "rolling_restart",
    "record_contents",
    "compaction",
    "deletion",
    "ghosts",
    "duplicates",
    "look_alikes",
    "partition_growth",
    "coordinator_growth",
    "consume_transform_produce",
    "lost_state",
    "producer_expiry",
    "replication",
    "unclean_election",
    "groups",
    "group_resets",
    "exactly_once_clients",
    "mirror",
    "coordinators",
    "cluster_metadata",
    "remote_storage",
    "tiered_cluster",
    "crash",
    "legacy_zookeeper",
    "legacy_formats",
    "format_downgrade",
)


def _all() -> Iterator[Scenario]:
    for module in _MODULES:
        yield from import_module(f"lab.scenarios.{module}").SCENARIOS


ALL: list[Scenario] = list(_all())


def by_name(name: str) -> Scenario | None:
    """The scenario that writes this folder."""
    return next((scenario for scenario in ALL if scenario.name == name), None)
