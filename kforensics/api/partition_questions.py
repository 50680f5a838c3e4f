"""The questions as Python functions: each returns the table that the command of the same name writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from kforensics.analyses.duplicates import DuplicatesQuestion
from kforensics.analyses.explain import Subject, explain_subject
from kforensics.analyses.filters import offsets_of
from kforensics.analyses.keys import KeysRequest, evaluate_topic_keys
from kforensics.analyses.lso import LsoQuestion
from kforensics.analyses.partitions import Investigation, ignore, investigate
from kforensics.analyses.producers import ProducersQuestion
from kforensics.analyses.questions import Question
from kforensics.analyses.settings import Evaluation, parameters_of
from kforensics.analyses.topics import check_topics
from kforensics.analyses.transactions import CostsRequest, TransactionsQuestion, answer_costs, refuse_filters
from kforensics.analyses.values import whole_number
from kforensics.api.arguments import Paths, path_names, with_checked_arguments
from kforensics.api.explanation import Explanation
from kforensics.api.views.table_view import TableSource, TableView, view_of
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.core.cluster_tables import TRANSACTION_COSTS
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.partition_duplicates import DEFAULT_MEMORY
from kforensics.parsers.tables.arrow import arrow_schema_of, table_of_parts, without_dictionaries
from kforensics.parsers.tables.schemas import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "duplicates",
    "explain",
    "keys",
    "lso",
    "producers",
    "transactions",
]


@with_checked_arguments
def lso(paths: Paths, *, at: int | None = None, history: bool = False, **evaluation: Unpack[Evaluation]) -> TableView:
    """Return where the last stable offset of each partition is: the table ``lso``, or ``lso_history``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        at: the high watermark; None for the end of the log.
        history: every value of the last stable offset as the high watermark advances.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, a setting is invalid, or both ``at`` and ``history`` are given.

    Examples:
        >>> lso = kforensics.lso("sample_logs/transactions-v2/broker-1", topic="hanging", as_of="2026-11-21T12:15")
        >>> lso.select(["last_stable_offset", "log_end_offset", "hidden_records", "producer_id"]).to_pylist()
        [{'last_stable_offset': 3, 'log_end_offset': 9, 'hidden_records': 4, 'producer_id': 12}]
    """
    return table_of_answers(paths, LsoQuestion(at, history), evaluation)


@with_checked_arguments
def transactions(  # noqa: PLR0913  # one parameter per filter of the command
    paths: Paths,
    *,
    states: str | Iterable[str] = (),
    producer_id: int | None = None,
    min_duration_ms: int | None = None,
    sort: str = "offset",
    cost: bool = False,
    **evaluation: Unpack[Evaluation],
) -> TableView:
    """Return the transactions of each partition, or what they cost: the table ``transactions``, ``transaction_costs``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        states: only transactions that are ``open``, ``aborted`` or ``committed``.
        producer_id: only transactions of this producer.
        min_duration_ms: only transactions that lasted at least this long.
        sort: offset, marker, duration, records, bytes, begun or producer; within each partition.
        cost: what the transactions of each cluster cost, instead of a list; of those with a partition that ``topic``
            and ``partition`` select.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or no such state or sort key; for costs, no coordinator's log, or a filter of the
            list.

    Examples:
        >>> open_ones = kforensics.transactions("sample_logs/transactions-v2/broker-1", states=["open"])
        >>> open_ones.select(["topic", "producer_id", "first_offset", "records"])
        transactions: 3 rows, one per transaction of a partition
          topic    producer_id  first_offset  records
          hanging  12           3             2
          open     16           2             3
          open     17           4             2
    """
    question = TransactionsQuestion((*states,), producer_id, min_duration_ms, sort)
    return _costs(paths, question, evaluation) if cost else table_of_answers(paths, question, evaluation)


def _costs(paths: Paths, listed: TransactionsQuestion, evaluation: Evaluation) -> TableView:
    refuse_filters(listed)
    named, errors = parameters_of(**evaluation), list[InputError]()
    request = CostsRequest(named["topics"], named["numbers"])
    rows = list(answer_costs(investigation_of_all(paths, evaluation), request, errors.append))
    raise_any(paths, errors)
    return view_of(TRANSACTION_COSTS, table_of_parts(TRANSACTION_COSTS, (part.record_batch() for part in rows)))


@with_checked_arguments
def producers(paths: Paths, *, at: int | None = None, **evaluation: Unpack[Evaluation]) -> TableView:
    """Return the state of every producer as a broker rebuilds it: the table ``producers``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        at: after all batches below this offset; None for the end of the log.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.

    Examples:
        >>> producers = kforensics.producers("sample_logs/transactions-v2/broker-1", topic="open")
        >>> producers.select(["producer_id", "producer_epoch", "last_offset", "current_txn_first_offset"])
        producers: 4 rows, one per producer id at the end of a log
          producer_id  producer_epoch  last_offset  current_txn_first_offset
          0            4               -1           -1
          1            5               -1           -1
          16           1               10           2
          17           0               5            4
    """
    return table_of_answers(paths, ProducersQuestion(at), evaluation)


@with_checked_arguments
def duplicates(  # one parameter per option of the command
    paths: Paths,
    *,
    levels: str | Iterable[str] = (),
    committed: bool = False,
    memory: int = DEFAULT_MEMORY,
    internal: bool = False,
    **evaluation: Unpack[Evaluation],
) -> TableView:
    """Return the records that were written twice: the table ``duplicates``, with a row for each run of records.

    The rows of duplicates inside a partition come first, then those across the partitions of a topic.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        levels: only pairs at the level ``sequence``, ``content-retry`` or ``content``.
        committed: only what a read_committed consumer receives twice.
        memory: bytes of memory before the search uses temporary files.
        internal: search internal topics, too.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or no such level.

    Examples:
        >>> twice = kforensics.duplicates("sample_logs/duplicates/broker-1", topic="retried")
        >>> twice.select(["level", "first_offset", "second_offset", "records"])
        duplicates: 3 rows, one per duplicate run of records, or duplicate batch
          in all rows: level content-retry, records 2
          first_offset  second_offset
          2             4
          6             8
          8             10
    """
    question = DuplicatesQuestion((*levels,), committed, memory, internal)
    answers = question.answers(investigation_of(paths, evaluation), _raise)
    return TableView(RESULTS["duplicates"], streamed_rows(RESULTS["duplicates"], [answer.rows for answer in answers]))


@with_checked_arguments
def explain(  # one parameter per option of the command
    paths: Paths,
    *,
    offset: int | str | range | None = None,
    producer_id: int | None = None,
    transactional_id: str | None = None,
    at: int | None = None,
    **evaluation: Unpack[Evaluation],
) -> Explanation:
    """Explain offsets, one producer or one transactional id: as values, as text and as a table.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        offset: an offset of one partition, or several as a range or as text, such as ``"100:200"`` without 200. Of
            several, neighbors with the same story are one row.
        producer_id: a producer.
        transactional_id: a transactional id; the log of its coordinator must be under the paths.
        at: the high watermark at which to evaluate an offset; None for the end of the log.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, no partition has anything on the subject, or it is not exactly one subject.

    Examples:
        >>> story = kforensics.explain("sample_logs/transactions-v2/broker-1", topic="hanging", offset=3)
        >>> print(story.text.splitlines()[0])
        hanging-0 on broker 1, offset 3: undecided
        >>> runs = kforensics.explain("sample_logs/transactions-v2/broker-1", topic="hanging", offset=range(0, 4))
        >>> [run["fate"] for run in runs.table.to_pylist()]
        ['visible', 'control', 'undecided']
    """
    named = parameters_of(**evaluation)
    several = offsets_of(offset) if isinstance(offset, str | range) else None
    one = None if offset is None or several is not None else whole_number(offset, "offset", 0)
    subject = Subject(one, producer_id, transactional_id, at, named["topics"], named["numbers"], several)
    errors: list[InputError] = []
    stories = tuple(explain_subject(investigation_of_all(paths, evaluation), subject, errors.append))
    raise_any(paths, errors)
    return Explanation(subject, stories)


@with_checked_arguments
def keys(
    paths: Paths,
    *,
    partition_count: int | None = None,
    listed: str = "partitions",
    **evaluation: Unpack[Evaluation],
) -> TableView:
    """Return where the keys of topics are: the table ``key_partitions``, ``keys_apart`` or ``producer_batches``.

    Without ``topic`` these are all topics except Kafka's internal ones.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        partition_count: how many partitions the topic has today; None for the number in the cluster metadata under the
            paths, or else the number of partitions there.
        listed: which rows: ``partitions``, ``keys`` or ``producers``.
        evaluation: ``topic``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log or no such topic, or it cannot have so few partitions, or a partition is named.

    Examples:
        >>> keys = kforensics.keys("sample_logs/partition-growth", topic="keyed")
        >>> keys.select(["partition", "keys", "keys_apart"])
        key_partitions: 4 rows, one per partition of a topic, evaluated by its keys
          partition  keys  keys_apart
          0          17    6
          1          7     3
          2          6     6
          3          3     3
    """
    named = parameters_of(**evaluation)
    if named["numbers"]:
        raise UsageError("partition selects partitions, and keys belong to whole topics; leave it out")
    request, errors = KeysRequest(named["topics"], partition_count, listed), list[InputError]()
    results = list(evaluate_topic_keys(investigation_of_all(paths, evaluation), request, errors.append))
    topics_with_log = [result for result in results if isinstance(result, TopicKeyResult)]
    raise_any(paths, errors)
    table = request.table
    parts = [result.rows[table.name].record_batch() for result in topics_with_log]
    return view_of(table, table_of_parts(table, parts))


def table_of_answers(paths: Paths, question: Question[Any], evaluation: Evaluation) -> TableView:
    """Return the rows of all answers to a question.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or no such topic or partition.
    """
    answers = question.answers(investigation_of(paths, evaluation), _raise)
    definition = RESULTS[question.table]
    parts = (batch for each in answers for batch in each.rows.record_batches())
    return view_of(definition, table_of_parts(definition, parts))


def streamed_rows(table: Table, rows: Sequence[Rows | RowStream]) -> TableSource:
    """Return the source of rows that may be too many to hold in memory."""
    schema = arrow_schema_of(table)

    def stream() -> Iterator[pa.RecordBatch]:
        return (without_dictionaries(batch, schema) for part in rows for batch in part.record_batches())

    return TableSource.of_stream(schema, stream)


def investigation_of(paths: Paths, evaluation: Evaluation) -> Investigation:
    """Return the partitions under the paths that the caller selects.

    Raises:
        InputError: a path cannot be read.
        UsageError: there is no log, or no such topic or partition.
    """
    names = path_names(paths)
    unreadable: list[str] = []
    investigation = investigate(names, warn=unreadable.append, note=ignore, **parameters_of(**evaluation))
    if investigation.unreadable:
        raise InputError(", ".join(names), "; ".join(unreadable))
    return investigation


def investigation_of_all(paths: Paths, evaluation: Evaluation) -> Investigation:
    """Return all partitions, because other topics have evidence too; the topics to answer for must be among them."""
    investigation = investigation_of(paths, evaluation | Evaluation(topic=None, partition=None))
    topics = parameters_of(**evaluation)["topics"]
    check_topics(topics, [partition.place.topic for partition in investigation.partitions])
    return investigation


def _raise(error: InputError) -> NoReturn:
    raise error


def raise_any(paths: Paths, errors: Sequence[InputError]) -> None:
    """Raise one error for all inputs that cannot be read.

    Raises:
        InputError: there is one.
    """
    if errors:
        raise InputError(", ".join(path_names(paths)), "; ".join(map(str, errors)))
