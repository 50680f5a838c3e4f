"""The questions about a broker or a cluster as a whole as Python functions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from kforensics.analyses.cluster import ClusterQuestion
from kforensics.analyses.groups import GroupsRequest, answer_groups
from kforensics.analyses.ids import IdsRequest, answer_ids
from kforensics.analyses.settings import Evaluation, parameters_of, settings_in_force
from kforensics.analyses.topics import selection_of
from kforensics.api.arguments import Paths, path_names, with_checked_arguments
from kforensics.api.partition_questions import investigation_of_all, raise_any, table_of_answers
from kforensics.api.views.table_view import TableView, view_of
from kforensics.errors import InputError, UsageError
from kforensics.parsers.tables.arrow import table_of_parts

if TYPE_CHECKING:
    from kforensics.analyses.collect import Collection

__all__ = ["cluster", "collect", "forecast", "groups", "ids", "mirror", "settings"]


@with_checked_arguments
def cluster(  # one parameter per option of the command
    paths: Paths,
    *,
    at: int | str | None = None,
    diff: str | None = None,
    history: str | None = None,
    broker: int | None = None,
    **evaluation: Unpack[Evaluation],
) -> TableView:
    """Return what a KRaft cluster was: the table ``cluster_image``, ``cluster_changes`` or ``partition_history``.

    ``topic`` and ``partition`` select what is in the metadata, whether its files are under the paths or not.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        at: before this offset of the metadata log, or at this time; None for the end of the log.
        diff: what changed between two offsets or times, as in ``"1200..1300"``, or between the copies in two paths.
        history: the leaders and in-sync replicas of this partition, such as ``"orders-0"``.
        broker: only this broker or controller, and its partitions.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or the metadata log does not have the offset, time or partition.

    Examples:
        >>> image = kforensics.cluster("sample_logs/unclean-election", at=80, topic="lossy")
        >>> image.select(["kind", "name", "setting", "value", "leader", "isr"])
        cluster_image: 6 rows, one per entity in the image of a KRaft cluster
          kind       name         setting                         value  leader  isr
          topic      lossy        null                            1      null    null
          partition  lossy-0      null                            null   3       2,3
          config     topic lossy  index.interval.bytes            128    null    null
          config     topic lossy  internal.segment.bytes          600    null    null
          config     topic lossy  segment.index.bytes             1024   null    null
          config     topic lossy  unclean.leader.election.enable  true   null    null
    """
    named = parameters_of(**evaluation)
    at_text = None if at is None else str(at)
    question = ClusterQuestion(at_text, diff, history, broker, tuple(named["topics"]), tuple(named["numbers"]))
    return table_of_answers(paths, question, evaluation | Evaluation(topic=None, partition=None))


@with_checked_arguments
def groups(paths: Paths, *, group: str | None = None, **evaluation: Unpack[Evaluation]) -> TableView:
    """Return the consumer, share and streams groups: the table ``groups``, or ``group_events``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        group: the history of this group instead of all groups.
        evaluation: ``topic`` and ``partition``, which select committed offsets, ``as_of`` and more; see
            :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: no log of a group coordinator is under the paths, or none has the group.

    Examples:
        >>> kforensics.groups("sample_logs/groups", topic="orders-europe").select(["group", "type", "state", "lag"])
        groups: 4 rows, one per group
          group                type      state   lag
          classic-cooperative  classic   Stable  0
          modern               consumer  Stable  0
          regex                consumer  Stable  0
          simple               classic   Empty   2
    """
    named, errors = parameters_of(**evaluation), list[InputError]()
    request = GroupsRequest(group, tuple(named["topics"]), tuple(named["numbers"]))
    everywhere = investigation_of_all(paths, evaluation | Evaluation(topic=None, partition=None))
    answers = list(answer_groups(everywhere, request, errors.append))
    raise_any(paths, errors)
    parts = (batch for answer in answers for rows in answer.rows for batch in rows.record_batches())
    return view_of(request.table, table_of_parts(request.table, parts))


@with_checked_arguments
def ids(
    paths: Paths,
    *,
    transactional_id: str | None = None,
    where: str | None = None,
    **evaluation: Unpack[Evaluation],
) -> TableView:
    """Return the transactional ids: the table ``transactional_ids``, ``id_events`` or ``name_partitions``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        transactional_id: the life of this id, event by event, instead of all ids.
        where: the partitions that this transactional id or group belongs to, instead of all ids.
        evaluation: ``as_of``, ``alone`` and more, but no ``topic`` and no ``partition``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: no log of a coordinator is under the paths, none has the id, or a topic or a partition is named.

    Examples:
        >>> life = kforensics.ids("sample_logs/transactions-v1", transactional_id="slow")
        >>> life.select(["event", "producer_id", "first_epoch", "last_epoch", "committed", "aborted"])
        id_events: 4 rows, one per event in the life of a transactional id, or run of equal ones
          in all rows: producer_id 14
          event         first_epoch  last_epoch  committed  aborted
          initialized   0            0           0          0
          timed-out     0            1           0          1
          initialized   2            2           0          0
          transactions  2            2           1          0
    """
    named = parameters_of(**evaluation)
    if named["topics"] or named["numbers"]:
        raise UsageError("transactional ids belong to a cluster; leave out topic and partition")
    request, errors = IdsRequest(transactional_id, where), list[InputError]()
    answers = list(answer_ids(investigation_of_all(paths, evaluation), request, errors.append))
    raise_any(paths, errors)
    parts = (batch for answer in answers for rows in answer.rows for batch in rows.record_batches())
    return view_of(request.table, table_of_parts(request.table, parts))


@with_checked_arguments
def settings(paths: Paths, **evaluation: Unpack[Evaluation]) -> TableView:
    """Return the settings in force, where they come from and what they mean for the verdicts: the table ``settings``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        evaluation: ``topic``, which selects settings of topics, ``settings``, ``server_properties`` and more; see
            :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, a setting is invalid, or a partition is named.

    Examples:
        >>> in_force = kforensics.settings("sample_logs/cluster-metadata", topic="kept").to_pylist()
        >>> [row["value"] for row in in_force if row["name"] == "max.message.bytes"]
        ['9999', '1048588']
    """
    named = parameters_of(**evaluation)
    if named["numbers"]:
        raise UsageError("partition selects partitions, and settings are for brokers and topics; leave it out")
    rows = settings_in_force(investigation_of_all(paths, evaluation), named["topics"])
    return view_of(rows.table, table_of_parts(rows.table, rows.record_batches()))


@with_checked_arguments
def forecast(paths: Paths, *, release: str | None = None, elect: bool = False) -> TableView:
    """Return what the next start of a broker does to its log directories: the table ``forecast``, or ``elections``.

    Args:
        paths: log directories, globs, or folders of log directories. Those of the same node are of one broker.
        release: the release that will be started, such as ``"4.4.0"``; None for the one the broker ran last.
        elect: what each replica would cost as leader, of partitions with several replicas under the paths, instead.

    Raises:
        InputError: a log directory cannot be read.
        UsageError: there is no log directory, no such release, or no partition with several replicas.

    Examples:
        >>> forecast = kforensics.forecast("sample_logs/crash-before-recovery/broker-1")
        >>> forecast["effect"].to_pylist()[0]
        'starts'
    """
    from kforensics.analyses.forecast import forecast_brokers, forecast_elections, known_release
    from kforensics.forensics.forecast.elections import ELECTIONS, candidate_rows
    from kforensics.forensics.forecast.forecast_rows import FORECAST, forecast_rows
    from kforensics.parsers.tables.arrow import arrow_table

    if elect:
        if release is not None:
            raise UsageError("elect is about elections, not about a start; leave release out")
        unread: list[str] = []
        replicas = list(forecast_elections(path_names(paths), unread.append))
        if unread:
            raise InputError(", ".join(path_names(paths)), unread[0])
        return view_of(ELECTIONS, arrow_table(ELECTIONS, [row for each in replicas for row in candidate_rows(each)]))
    brokers = forecast_brokers(path_names(paths), known_release(release))
    rows = [row for broker in brokers for row in forecast_rows(broker)]
    return view_of(FORECAST, arrow_table(FORECAST, rows))


@with_checked_arguments
def mirror(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    topic: str | Iterable[str] | None = None,
    partition: int | str | Iterable[int | str] | None = None,
    mirror_topic: str | None = None,
) -> TableView:
    """Return what MirrorMaker made of the records, transactions and offsets of topics: the table ``mirror``.

    Args:
        source: log directories of the source cluster: a folder of them, a glob, an archive or a URI.
        target: those of the target cluster.
        topic: names or globs of topics of the source; None for all that have a mirror.
        partition: numbers or ranges of partitions, such as ``"0-9"``; None for all.
        mirror_topic: the mirror of the only topic; None to find it by its name.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, no such topic, or no topic has a mirror.

    Examples:
        >>> folder = "tests/data/mirror"
        >>> rows = kforensics.mirror(f"{folder}/source", f"{folder}/target", topic="orders").to_pylist()
        >>> [(row["first_offset"], row["mirror_first_offset"]) for row in rows if row["kind"] == "copied"]
        [(0, 0), (8, 7), (11, 9), (18, 15)]
    """
    from kforensics.analyses.mirror import MirrorRequest, compare_mirrors
    from kforensics.forensics.mirrors.mirror_rows import MIRROR, mirror_rows
    from kforensics.parsers.tables.arrow import arrow_table

    paths = path_names([source, target])
    topics, numbers = selection_of(topic, partition)
    unread, errors = list[str](), list[InputError]()
    request = MirrorRequest.of(paths, topics, numbers, mirror_topic)
    comparisons = compare_mirrors(request, unread.append, errors.append)
    rows = [row for comparison in comparisons for row in mirror_rows(comparison)]
    raise_any(paths, errors)
    if unread:
        raise InputError(", ".join(paths), unread[0])
    return view_of(MIRROR, arrow_table(MIRROR, rows))


@with_checked_arguments
def collect(paths: Paths, output: str | os.PathLike[str], *, metadata_only: bool = False) -> Collection:
    """Copy log directories, also of a running broker, so that an audit of the copy is true.

    Args:
        paths: log directories, globs, or folders of log directories.
        output: a ``.tar.zst``, ``.tar.gz`` or ``.tar``, or a folder.
        metadata_only: leave out the records of data partitions, and files that are not Kafka's.

    Returns:
        What was copied: ``files`` with sizes, times and checksums, and ``unreadable``.

    Raises:
        InputError: there is no such folder.
        UsageError: there is no log directory, or the output cannot be written.

    Examples:
        >>> from tempfile import mkdtemp
        >>> kforensics.collect("sample_logs/groups/broker-1", f"{mkdtemp()}/case.tar.zst").unreadable
        ()
    """
    from kforensics.analyses.collect import collect_files
    from kforensics.parsers.files.log_capture import find_log_files

    files = find_log_files(path_names(paths))
    return collect_files(files, os.fspath(output), lambda _: None, metadata_only=metadata_only)
