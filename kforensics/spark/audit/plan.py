"""The plan of an audit on Spark: which partitions there are, what is around them, and what they show of the settings.

Many tasks list the folders. The driver gets only the sizes of partitions, and what determines their clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kforensics.analyses.surroundings import FileTime
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.setting_evidence import SettingEvidence, setting_evidence
from kforensics.forensics.partition.log_places import moved_away
from kforensics.parsers.files.discover import Unreadable
from kforensics.render.evidence_store import locate_store
from kforensics.render.staged_store import PLAN, StagedStore, writing
from kforensics.render.store_claim import create_task_folder
from kforensics.spark.audit.finished_tasks import FinishedTasks, KeptStage
from kforensics.spark.audit.listing import (
    CONTEXT,
    FILES,
    PARTITION,
    PLANNED,
    UNREADABLE,
    UNSELECTED,
    items_of,
    list_item,
    newest_listed,
    rows_around,
)
from kforensics.spark.audit.serialization import Row, batches_of, deserialize, rows_of, schema_text, serialize
from kforensics.spark.session import parallelism
from kforensics.spark.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ITEMS", "NUMBERED", "SIZES", "Plan", "Step", "by_slot", "mapped", "plan_of", "setting_evidence_of"]

NUMBERED = pa.schema([("number", pa.int64()), ("payload", pa.binary())])
ITEMS = pa.schema([("slot", pa.int32()), ("payload", pa.binary())])
# Columns of the plan that the driver reads for each partition.
SIZES = ("number", "size", "segments", "largest", "mtime_ms", "taken_ms", "shows_settings", "member")
# What a task that has listed folders returns: the columns for the driver, the hash of the row, and the file with all of
# its rows.
LISTED = pa.schema([*(PLANNED.field(name) for name in ("kind", *SIZES)), ("hash", pa.binary()), ("path", pa.binary())])
# Maximum number of unreadable paths that the driver lists by name.
NAMED = 100
ITEMS_PER_TASK = 4

Step = Callable[[Iterator[Row]], Iterable[Row]]


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class Plan:
    """The partitions to evaluate.

    Attributes:
        frame: the rows of the plan, which stay on the cluster and, if there is a store, in its staging folder.
        sizes: ``number``, ``size``, ``segments``, ``largest``, ``mtime_ms``, ``taken_ms``, ``shows_settings`` and the
            serialized ``member`` of each partition.
        unreadable: number of paths that could not be listed.
        named: some of these paths.
        newest_file: the newest file of the log directories, None if no time is known.
        context: the columns of sizes for the logs of coordinators and of metadata that are not to be evaluated.
        unselected: the columns of sizes for all partitions that are not to be evaluated and matter for the settings.
        store: the store that the audit is to write, None for none.
        kept: the frame whose rows the executors keep in memory until the plan is closed.
        hash: SHA-256 of its rows, which have sizes and times of all files, in hexadecimal; without a store it says
            nothing.
        finished: keeps the finished tasks of the audit; None if nothing can be kept.
    """

    frame: DataFrame
    sizes: pa.Table
    unreadable: int
    named: tuple[Unreadable, ...]
    newest_file: FileTime | None = None
    context: pa.Table | None = None
    unselected: pa.Table | None = None
    store: StagedStore | None = None
    kept: DataFrame | None = None
    hash: str = ""
    finished: FinishedTasks | None = None

    def close(self) -> None:
        """Release what the executors keep, and delete an unfinished store."""
        if self.kept is not None:
            self.kept.unpersist()
        if self.store is not None:
            self.store.close()

    @property
    def taken(self) -> Iterator[tuple[str | None, int | None]]:
        """Log directory of each partition, and the time when it was copied from a running broker, if it was."""
        return zip((member.log_dir for member in self.members), self.sizes["taken_ms"].to_pylist(), strict=True)

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return int(sum(self.sizes["size"].to_pylist()))

    @cached_property
    def members(self) -> tuple[PartitionMembership, ...]:
        """Cluster memberships of the partitions."""
        return tuple(_members_in(self.sizes))

    @cached_property
    def all_members(self) -> tuple[PartitionMembership, ...]:
        """Cluster memberships of these, and of the partitions that matter for the settings alone."""
        return (*self.members, *_members_in(self.unselected))

    @cached_property
    def all_clusters(self) -> Clusters:
        """The clusters of all of them."""
        return Clusters.of_members(self.all_members)

    @cached_property
    def clusters(self) -> Clusters:
        """The clusters that the partitions and the logs of their coordinators belong to."""
        return Clusters.of_members((*self.members, *_members_in(self.context)))

    @property
    def shows_settings(self) -> bool:
        """Whether the files of any partition may show settings."""
        tables = (table for table in (self.sizes, self.unselected) if table is not None)
        return any(pc.any(table["shows_settings"]).as_py() for table in tables)


def _members_in(table: pa.Table | None) -> Iterator[PartitionMembership]:
    return (deserialize(member) for member in table["member"].drop_null().to_pylist()) if table else iter(())


def plan_of(
    spark: SparkSession,
    paths: Sequence[str],
    topics: Sequence[str] = (),
    *,
    alone: bool = False,
    store: StagedStore | None = None,
) -> Plan:
    """Return the partitions under paths; many tasks list the folders.

    Args:
        spark: the session.
        paths: as for ``discover``.
        topics: only partitions of these topics; all if empty.
        alone: whether to ignore every partition that is not to be evaluated.
        store: the store that the audit is to write; its staging folder keeps the rows of the plan. Without a store only
            the cluster keeps them, and lists the folders again if executors are lost.
    """
    items = [(slot, serialize(item)) for slot, item in enumerate(items_of(paths))]
    rows = spark.createDataFrame(pa.Table.from_batches(batches_of(ITEMS, items), ITEMS))
    tasks = ITEMS_PER_TASK * parallelism(spark)
    spread = by_slot(rows, tasks, "slot") if len(items) > tasks else rows
    kept, listed = _kept(spark, spread, partial(_listed, topics=tuple(topics)), store)
    hashed = sha256()
    if store is not None:
        _add_hashes(hashed, listed)
        listed = listed.drop_columns(["hash", "path"])
    unreadable = pc.sum(pc.equal(listed["kind"], UNREADABLE)).as_py() or 0
    rows_named = kept.where(kept.kind == UNREADABLE).select("payload").limit(NAMED).collect() if unreadable else []
    named = sorted((deserialize(row.payload) for row in rows_named), key=lambda path: path.path)
    frame, listed = _without_moved(kept, listed)
    sizes = _of_kind(listed, PARTITION)
    members = [*_members_in(sizes), *_members_in(_of_kind(listed, UNSELECTED))]
    newest = newest_listed(_of_kind(listed, FILES)["member"].drop_null().to_pylist(), members, paths)
    plan = Plan(frame, sizes, unreadable, tuple(named), newest, store=store, kept=kept, hash=hashed.hexdigest())
    if alone:
        return plan
    around = pa.Table.from_batches(batches_of(PLANNED, rows_around(len(items), members)), PLANNED)
    if len(around):
        frame = frame.unionAll(spark.createDataFrame(around))
        listed = pa.concat_tables([listed, around.select(listed.column_names)])
        hashed.update(serialize(around.to_pylist()))
    plan = replace(plan, frame=frame, hash=hashed.hexdigest())
    return replace(plan, context=_of_kind(listed, CONTEXT), unselected=_of_kind(listed, UNSELECTED))


def _kept(
    spark: SparkSession, items: DataFrame, listing: Step, store: StagedStore | None
) -> tuple[DataFrame, pa.Table]:
    """Return the rows of the plan, and their columns for the driver.

    Folders are listed once: whatever executors are lost afterwards, the rows are those that tasks have written.
    """
    if store is None:
        frame = mapped(items, [listing], PLANNED).persist()
        return frame, frame.select("kind", *SIZES).toArrow()
    listed = mapped(items, [listing, partial(_written, staging=store.staging)], LISTED).toArrow()
    paths = [(0, path) for path in sorted(set(listed["path"].to_pylist()))]
    files = spark.createDataFrame(pa.Table.from_batches(batches_of(ITEMS, paths), ITEMS))
    frame = mapped(files, [partial(_read, staging=store.staging)], PLANNED).persist()
    return frame, listed


def _add_hashes(hashed: Any, listed: pa.Table) -> None:
    """Add the rows that tasks have listed to a hash, in an order of their own."""
    ordered = listed.sort_by([(name, "ascending") for name in ("kind", "number", "hash")])
    hashed.update(serialize([ordered[name].to_pylist() for name in ("kind", "number", "hash")]))


def _write_plan(staging: str, number: int, batches: Iterable[pa.RecordBatch]) -> str:
    """Write rows of a plan to a file of the staging folder and return its name.

    Args:
        staging: the staging folder, a path or a URI.
        number: the lowest number of a row; the names of files have the order of their numbers.
        batches: the rows.

    Raises:
        UsageError: the file cannot be written; the message names the staging folder.
    """
    system, root = locate_store(staging)
    name = f"{number:020}-{uuid4().hex}.parquet"
    with writing(staging):
        folder = create_task_folder(system, root, PLAN)
        with pq.ParquetWriter(f"{folder}/{name}", PLANNED, filesystem=system) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return name


def _read_plan(staging: str, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of a plan.

    Raises:
        OSError: the file cannot be read.
    """
    system, root = locate_store(staging)
    with system.open_input_file(f"{root}/{PLAN}/{name}") as file:
        yield from pq.ParquetFile(file).iter_batches()


def _written(rows: Iterator[Row], staging: str) -> Iterator[Row]:
    """Write the rows of a plan to a file; yield their columns for the driver, and its name."""
    waiting = list(rows)
    if waiting:
        wanted = [PLANNED.get_field_index(name) for name in ("kind", *SIZES)]
        number = min(row[PLANNED.get_field_index("number")] for row in waiting)
        path = _write_plan(staging, number, batches_of(PLANNED, waiting)).encode()
        yield from ((*(row[index] for index in wanted), sha256(row[-1]).digest(), path) for row in waiting)


def _read(files: Iterator[Row], staging: str) -> Iterator[Row]:
    for _, path in files:
        yield from rows_of(_read_plan(staging, path.decode()))


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.filter(pc.equal(rows["kind"], kind)).drop_columns(["kind"])


def _without_moved(frame: DataFrame, listed: pa.Table) -> tuple[DataFrame, pa.Table]:
    """Return rows without the partitions that were moved to a log directory that other tasks have listed."""
    partitions = pc.is_in(listed["kind"], pa.array([PARTITION, UNSELECTED]))
    moved = _moved_numbers(listed.filter(partitions))
    if not moved:
        return frame, listed
    is_moved = pc.and_(partitions, pc.is_in(listed["number"], pa.array(moved, pa.int64())))
    kinds = frame.kind.isin(PARTITION, UNSELECTED)
    return frame.where(~(kinds & frame.number.isin(moved))), listed.filter(pc.invert(is_moved))


def _moved_numbers(sizes: pa.Table) -> list[int]:
    """Return the numbers of the partitions that were moved."""
    if not pc.any(pc.equal(sizes["segments"], 0)).as_py():
        return []
    places = [deserialize(member).log_place for member in sizes["member"].to_pylist()]
    numbers = sizes["number"].to_pylist()
    return [numbers[index] for index in sorted(moved_away(places))]


def by_slot(frame: DataFrame, tasks: int, slot: str) -> DataFrame:
    """Return a frame whose rows are at the task of their slot."""
    from pyspark.sql.functions import expr  # only jobs on Spark import it

    return frame.repartitionById(tasks, expr(f"int(pmod({slot}, {tasks}))"))


def mapped(frame: DataFrame, steps: Sequence[Step], schema: pa.Schema, finished: KeptStage | None = None) -> DataFrame:
    """Return the result of functions that are applied one after the other to the rows of each task.

    Args:
        frame: the rows.
        steps: the functions.
        schema: schema of the rows that the last function yields.
        finished: keeps what the tasks return, None to keep nothing.
    """
    applied = partial(_batches, steps=tuple(steps), schema=schema)
    function = applied if finished is None else partial(_finished_or, applied=applied, schema=schema, finished=finished)
    return frame.mapInArrow(function, schema_text(schema))


def _finished_or(
    batches: Iterable[pa.RecordBatch],
    applied: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    finished: KeptStage,
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # only workers are in a task

    context = TaskContext.get()
    if context is None:  # the function alone, without Spark
        return applied(batches)
    return finished.of_task(context.partitionId(), batches, applied, schema)


def _batches(batches: Iterable[pa.RecordBatch], steps: tuple[Step, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    settle()
    rows = rows_of(batches)
    for step in steps:
        rows = iter(step(rows))
    return batches_of(schema, rows)


def _listed(rows: Iterator[Row], topics: tuple[str, ...]) -> Iterator[Row]:
    for number, payload in rows:
        yield from list_item(number, deserialize(payload), topics)


def setting_evidence_of(plan: Plan, as_of_ms: int) -> list[SettingEvidence]:
    """Return what the partitions of a plan show of the settings, in the order of their numbers.

    Without a partition whose files may show any, there is no job.

    Args:
        plan: the partitions.
        as_of_ms: time of evaluation.
    """
    if not plan.shows_settings:
        return []
    kinds = (PARTITION,) if plan.unselected is None else (PARTITION, UNSELECTED)
    showing = plan.frame.where(plan.frame.shows_settings & plan.frame.kind.isin(*kinds))
    evidence = mapped(showing, [partial(_setting_evidence, as_of_ms=as_of_ms)], NUMBERED).toArrow()
    return [deserialize(payload) for payload in evidence.sort_by("number")["payload"].to_pylist()]


def _setting_evidence(rows: Iterator[Row], as_of_ms: int) -> Iterator[Row]:
    for _, number, *_, payload in rows:
        if evidence := setting_evidence(deserialize(payload), as_of_ms):
            yield number, serialize(evidence)
