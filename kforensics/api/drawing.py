"""Draws a chart of a log by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kforensics.api.opened import Opened
from kforensics.api.opened import open as open_log
from kforensics.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from kforensics.api.partition_questions import Paths
    from kforensics.plots import Plot

__all__ = ["plot"]


def plot(
    chart: str,
    paths: Paths,
    *,
    topic: str | None = None,
    partition: int | None = None,
    as_of: datetime | str | int | None = None,
) -> Plot:
    """Return a chart of a partition or of log directories.

    Args:
        chart: ``lso``, ``lso-time``, ``transactions``, ``transactions-time``, ``atomicity``, ``costs``, ``sequences``,
            ``batch-sizes``, ``batching``, ``compression``, ``damage`` or ``timeline``.
        paths: log directories, partition folders, files, archives, globs or URIs.
        topic: the topic to show.
        partition: the partition of the topic.
        as_of: time of evaluation: a datetime with a time zone, text in ISO 8601 or ``"now"``, or milliseconds; None for
            the newest modification time of the files.

    Raises:
        InputError: a path cannot be read.
        MissingExtraError: Altair is not installed.
        UsageError: there is no such chart, topic or partition, or the chart shows one partition and there are several.

    Examples:
        >>> chart = kforensics.plot("lso", "sample_logs/transactions-v2/broker-1", topic="hanging")
        >>> chart.to_dict()["title"]["text"]
        'Last stable offset: hanging-0'
    """
    check_chart(chart)
    from kforensics.plots.chart import PartitionFilter

    partition_filter = PartitionFilter(topic, partition)
    log = open_log(paths, as_of=as_of)
    if not partition_filter.rows(log.files).num_rows:
        place = " ".join([*([f"topic {topic}"] if topic else []), *([f"partition {partition}"] if partition else [])])
        raise UsageError(f"no file belongs to {place}; name another topic or partition, or other paths")
    return _CHARTS[chart](_Shown(log, partition_filter, paths))


def check_chart(chart: str | None) -> None:
    """Refuse the name of a chart that does not exist.

    Raises:
        UsageError: there is no such chart.
    """
    if chart not in _CHARTS:
        wanted = "there is no chart to draw" if chart is None else f"there is no chart {chart}"
        raise UsageError(f"{wanted}; name one of {', '.join(_CHARTS)}")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A log, and which of its partitions a chart shows."""

    log: Opened
    partition_filter: Any
    paths: Paths

    @property
    def place(self) -> dict[str, Any]:
        """The arguments of a chart of one partition."""
        return {"topic": self.partition_filter.topic, "partition": self.partition_filter.partition}

    def rows(self, name: str) -> Any:
        """Return the rows of a table that a chart of any number of partitions shows."""
        return self.partition_filter.rows(self.log.table(name))


def _lso(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.lso(shown.log.lso_history, **shown.place, transactional_ids=shown.log.table("transactional_ids"))


def _lso_over_time(shown: _Shown) -> Plot:
    from kforensics import plots

    names = shown.log.table("transactional_ids")
    return plots.lso_over_time(shown.log.lso_history, shown.log.batches, **shown.place, transactional_ids=names)


def _transactions(shown: _Shown, by: str = "offset") -> Plot:
    from kforensics import plots

    return plots.transactions(shown.log.table("transactions"), by=by, **shown.place)


def _atomicity(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.atomicity(shown.log.table("distributed_transactions"), shown.rows("transactions"))


def _costs(shown: _Shown) -> Plot:
    from kforensics import plots
    from kforensics.api.partition_questions import transactions

    number = shown.partition_filter.partition
    return plots.transaction_costs(
        transactions(shown.paths, cost=True, topic=shown.partition_filter.topic, partition=number)
    )


def _sequences(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.sequences(shown.log.batches, **shown.place)


def _batch_sizes(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.batch_sizes(shown.rows("batches"))


def _batching(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.batching(shown.rows("batches"))


def _compression(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.compression(shown.rows("batches"), shown.rows("records"))


def _damage(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.damage_map(shown.rows("files"), shown.rows("damage"))


def _timeline(shown: _Shown) -> Plot:
    import pyarrow as pa

    from kforensics import plots
    from kforensics.parsers.files.log_names import METADATA_TOPIC
    from kforensics.plots.chart import PartitionFilter

    events = shown.rows("cluster_events")
    if shown.partition_filter.topic is not None:
        # What the metadata log shows concerns every partition.
        events = pa.concat_tables([events, PartitionFilter(METADATA_TOPIC).rows(shown.log.table("cluster_events"))])
    return plots.timeline(events, shown.rows("transactions"), shown.rows("incidents"))


# In the order of the help of the command.
_CHARTS: dict[str, Callable[[_Shown], Plot]] = {
    "lso": _lso,
    "lso-time": _lso_over_time,
    "transactions": _transactions,
    "transactions-time": lambda shown: _transactions(shown, "time"),
    "atomicity": _atomicity,
    "costs": _costs,
    "sequences": _sequences,
    "batch-sizes": _batch_sizes,
    "batching": _batching,
    "compression": _compression,
    "damage": _damage,
    "timeline": _timeline,
}
