"""Reads what the topics of Kafka Connect in a cluster say about a connector."""

from __future__ import annotations

from kforensics.analyses.explain import PartitionReader
from kforensics.errors import InputError
from kforensics.forensics.coordinators.connectors import Connector, connectors_of, is_of_connect
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["connector_in"]


def connector_in(reader: PartitionReader, cluster: str, name: str) -> Connector | None:
    """Return what is known about a connector; None if nothing is, or if several Connect clusters have one of this name.

    Args:
        reader: reads partitions.
        cluster: the name of the cluster.
        name: the connector.
    """
    investigation = reader.investigation
    longest: dict[tuple[str | None, int | None], Partition] = {}
    for one in (*investigation.partitions, *investigation.neighbors):
        if not one.has_log or investigation.clusters.name_of(one) != cluster:
            continue
        place = (one.place.topic, one.place.partition)
        try:
            if is_of_connect(one) and (place not in longest or _length(one) > _length(longest[place])):
                longest[place] = one
        except InputError as error:
            reader.skip(error)
    try:
        connector = connectors_of(reader.states(list(longest.values()))).get(name)
    except InputError as error:
        reader.skip(error)
        return None
    return None if connector is None or connector.has_two_owners else connector


def _length(log: Partition) -> tuple[int, int]:
    """Return what is larger for a replica that is further: the offset and size of its last segment."""
    return (log.segments[-1].base_offset or 0, log.segments[-1].size)
