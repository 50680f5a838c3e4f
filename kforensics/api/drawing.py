"""Draws a chart of a log by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kforensics.analyses.topics import NO_PARTITION, check_topics, is_numbered, is_selected, selection_of, similar
from kforensics.api.arguments import with_checked_arguments
from kforensics.api.opened import Opened
from kforensics.api.opened import open as open_log
from kforensics.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from kforensics.api.arguments import Paths
    from kforensics.plots import Plot

__all__ = ["plot"]


@with_checked_arguments
def plot(
    chart: str,
    paths: Paths,
    *,
    topic: str | Iterable[str] | None = None,
    partition: int | str | Iterable[int | str] | None = None,
    as_of: datetime | str | int | None = None,
) -> Plot:
    """Return a chart of a partition or of log directories.

    Args:
        chart: ``lso``, ``lso-time``, ``transactions``, ``transactions-time``, ``atomicity``, ``costs``, ``sequences``,
            ``batch-sizes``, ``batching``, ``compression``, ``damage`` or ``timeline``.
        paths: log directories, partition folders, files, archives, globs or URIs.
        topic: the topic to show, a name or glob, or several; what begins with ``!`` excludes. None for all topics.
        partition: the partition, a number or a range such as ``"0-9"``, or several; None for all partitions.
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
    topics, numbers = selection_of(topic, partition)
    shown = _Shown(open_log(paths, as_of=as_of), topics, numbers, paths)
    check_topics(topics, shown.log.files["topic"].to_pylist())
    if not shown.rows("files").num_rows:
        raise UsageError(NO_PARTITION)
    return _CHARTS[chart](shown)


def check_chart(chart: str | None) -> None:
    """Refuse the name of a chart that does not exist.

    Raises:
        UsageError: there is no such chart.
    """
    if chart not in _CHARTS:
        wanted = "there is no chart to draw" if chart is None else f"there is no chart {chart!r}"
        every = f"name one of {', '.join(_CHARTS)}"
        raise UsageError(f"{wanted}; {similar(chart or '', _CHARTS) or every}")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A log, and which of its partitions a chart shows: all if there are no topics and no numbers."""

    log: Opened
    topics: tuple[str, ...]
    numbers: tuple[range, ...]
    paths: Paths

    def rows(self, name: str, *, beside: str | None = None) -> pa.Table:
        """Return the rows of a table that a chart shows.

        Args:
            name: the table.
            beside: a topic whose rows concern every partition.
        """
        import pyarrow.compute as pc

        from kforensics.plots.chart import to_table

        table = to_table(self.log.table(name))
        if not (self.topics or self.numbers):
            return table
        is_wanted = pc.and_(
            _is_any(table["topic"], lambda topic: is_selected(topic, self.topics)),
            _is_any(table["partition"], lambda number: is_numbered(number, self.numbers)),
        )
        if beside is not None:
            is_wanted = pc.or_(is_wanted, _is_any(table["topic"], lambda topic: topic == beside))
        return table.filter(is_wanted)


def _is_any(column: pa.ChunkedArray, is_wanted: Callable[[Any], bool]) -> pa.ChunkedArray:
    """Return for each value of a column whether it is wanted, which is asked once for each distinct value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = [value for value in pc.unique(column).to_pylist() if is_wanted(value)]
    return pc.is_in(column, pa.array(wanted, column.type))


def _lso(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.lso(shown.rows("lso_history"), transactional_ids=shown.log.table("transactional_ids"))


def _lso_over_time(shown: _Shown) -> Plot:
    from kforensics import plots

    names = shown.log.table("transactional_ids")
    return plots.lso_over_time(shown.rows("lso_history"), shown.rows("batches"), transactional_ids=names)


def _transactions(shown: _Shown, by: str = "offset") -> Plot:
    from kforensics import plots

    return plots.transactions(shown.rows("transactions"), by=by)


def _atomicity(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.atomicity(shown.log.table("distributed_transactions"), shown.rows("transactions"))


def _costs(shown: _Shown) -> Plot:
    from kforensics import plots
    from kforensics.api.partition_questions import transactions

    numbers = [f"{each.start}-{each.stop - 1}" for each in shown.numbers]
    return plots.transaction_costs(transactions(shown.paths, cost=True, topic=shown.topics, partition=numbers))


def _sequences(shown: _Shown) -> Plot:
    from kforensics import plots

    return plots.sequences(shown.rows("batches"))


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
    from kforensics import plots
    from kforensics.parsers.files.log_names import METADATA_TOPIC

    events = shown.rows("cluster_events", beside=METADATA_TOPIC)
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
