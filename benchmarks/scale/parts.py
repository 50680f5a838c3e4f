"""The parts of the scale run, each a table or two."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.scale import data
from benchmarks.scale.measuring import Bench, Metrics, Row, Scans
from benchmarks.scale.synthetic import Made

Tables = Iterator[tuple[str, Sequence[Row]]]

KINDS = ("txn", "plain")
SCANS: Scans = (("batches", "base_offset"), ("records", "offset"), ("records", ""))
"""Tables and the columns that are counted, all if none is named."""
JAVA = "spark.driver.extraJavaOptions"
COMPILED_WELL = {JAVA: "-XX:TieredStopAtLevel=4"}
"""Java as Spark starts it: the command starts one that compiles fast."""
SET_FOR_READING = {
    JAVA: f"{COMPILED_WELL[JAVA]} -Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""As ``docs/spark.md`` would have it where many rows are read."""
SPLIT = 128 << 20
GB = 1_000_000_000


def bars(bench: Bench, options: argparse.Namespace) -> Tables:
    """The requirements of the audit on Spark, in some minutes; the best of three audits in a process counts."""
    with data.copies(options.kinds, 1000, options.held) as path:
        pool, pools = (bench.least("in_process", path, 3, cores) for cores in (1, 2))
        spark, sparks = (bench.least("on_spark", path, 3, cores) for cores in (1, 2))
        free = bench.least("on_spark", path, 3, 1, is_pinned=False)
    yield (
        f"bars: {options.held} GB, Spark compared with the pool",
        [
            _bar("executor time, by seconds of the pool", free["executor_seconds"] / pool["seconds"], "≤ 1.3"),
            _bar("the same, Java on the same processor", spark["executor_seconds"] / pool["seconds"], ""),
            _bar("workers' seconds of processor, by the pool's", (spark["cpu"] - spark["jvm"]) / pool["cpu"], ""),
            _bar("all seconds of processor, by the pool's", spark["cpu"] / pool["cpu"], ""),
            _bar("1 to 2 processors, all processes on as many", _efficiency_of(spark, sparks), "≥ 0.80"),
            _bar("1 to 2 tasks at once, Java on any processor", _efficiency_of(free, sparks), ""),
            _bar("1 to 2 processors, the pool", _efficiency_of(pool, pools), ""),
            _bar("seconds of processor on 1, by those on 2", spark["cpu"] / sparks["cpu"], ""),
        ],
    )
    title = f'counting rows of format("kforensics"), {options.held} GB on 1 processor, Java included'
    with data.copies(KINDS, 1000, options.held) as path:
        yield f"{title}, set for reading", _scans(bench, path, SCANS, SET_FOR_READING)
        yield f"{title}, as Spark comes", _scans(bench, path, SCANS[1:2], COMPILED_WELL)


def _bar(name: str, ratio: float, wanted: str) -> Row:
    return {"": name, "ratio": f"{ratio:.2f}", "bar": wanted}


def _efficiency_of(one: Metrics, two: Metrics) -> float:
    """The part of two processors that does what one would have to do."""
    return one["seconds"] / two["seconds"] / 2


def _scans(bench: Bench, path: Path, scans: Scans, properties: Mapping[str, str]) -> list[Row]:
    taken = bench.scans(path, scans, properties)
    return [_scan(table, columns, one) for (table, columns), one in zip(scans, taken, strict=True)]


def _scan(table: str, columns: str, taken: Metrics) -> Row:
    return {
        "": f"{table}, {columns or 'all columns'}",
        "rows": taken["rows"],
        "records": taken["records"],
        "seconds": taken["seconds"],
        "cpu": taken["cpu"],
        "M records/s": taken["records"] / taken["seconds"] / 1e6,
        "M records per cpu s": taken["records"] / taken["cpu"] / 1e6,
        "bar": "≥ 5" if columns else "",
    }


def growth(bench: Bench, options: argparse.Namespace) -> Tables:
    """The same partitions, more and more of them, in a pool and on Spark, on one processor and on two."""
    taken: dict[int, list[tuple[Metrics, Metrics]]] = {}
    with ExitStack() as stack:
        paths = [stack.enter_context(data.copies(KINDS, 1000, count)) for count in options.gigabytes]
        for cores in (1, 2):
            taken[cores] = bench.audits(paths, cores)
            rows = [_both(f"{count} GB", *pair) for count, pair in zip(options.gigabytes, taken[cores], strict=True)]
            yield f"growth, {cores} at once; pool | Spark", rows
    pairs = zip(options.gigabytes, taken[1], taken[2], strict=True)
    yield "from 1 to 2 processors", [_efficiency(f"{count} GB", one, two) for count, one, two in pairs]


def _both(name: str, pool: Metrics, spark: Metrics) -> Row:
    return {
        "": name,
        "pool s": pool["seconds"],
        "pool cpu": pool["cpu"],
        "spark s": spark["seconds"],
        "workers cpu": spark["cpu"] - spark["jvm"],
        "jvm cpu": spark["jvm"],
        "plan s": spark["plan_seconds"],
        "task s": spark["executor_seconds"],
        "tasks": spark["tasks"],
        "shuffled MB": spark["shuffled"] / 1e6,
        "worker MB": spark["worker_peak"] / 1e6,
        "driver MB": spark["own_peak"] / 1e6,
        "heap MB": spark["heap"] / 1e6,
        "start s": spark["start_seconds"],
        "load": spark["load"],
    }


def _efficiency(name: str, one: tuple[Metrics, Metrics], two: tuple[Metrics, Metrics]) -> Row:
    (pool, spark), (pools, sparks) = one, two
    return {
        "": name,
        "pool, times faster": pool["seconds"] / pools["seconds"],
        "spark, times faster": spark["seconds"] / sparks["seconds"],
        "spark, efficiency": spark["seconds"] / sparks["seconds"] / 2,
    }


def skew(bench: Bench, options: argparse.Namespace) -> Tables:
    """One large partition, many small ones, and both together."""
    with data.folder("skew") as folder, data.folder("large") as large, data.folder("small") as small:
        data.write_plain(large / "large-0", 4, options.large // 4)
        data.tiny_partitions(small, options.small)
        for path in (*large.iterdir(), *small.glob("small-*")):
            data.link(path, folder / path.name)
        names = ("the large one", "the small ones", "together")
        for cores in (1, 2):
            pairs = bench.audits([large, small, folder], cores)
            rows = [_both(name, *pair) for name, pair in zip(names, pairs, strict=True)]
            yield f"skew, {cores} at once; pool | Spark", rows


def transactions(bench: Bench, options: argparse.Namespace) -> Tables:
    """One partition of very many transactions, which are swept at its end."""
    with data.folder("transactions") as folder:
        data.write_transactions(folder / "swept-0", 20, options.transactions // 20)
        ((pool, spark),) = bench.audits([folder], 2)
        yield "transactions of one partition; pool | Spark", [_both(f"{options.transactions:,}", pool, spark)]


def partitions(bench: Bench, options: argparse.Namespace) -> Tables:
    """A growing number of tiny partitions."""
    counts = [options.partitions // 10, options.partitions]
    with ExitStack() as stack:
        paths = [stack.enter_context(data.folder(f"tiny-{count}")) for count in counts]
        for path, count in zip(paths, counts, strict=True):
            data.tiny_partitions(path, count)
        pairs = bench.audits(paths, 2)
        rows = [_both(f"{count:,}", *pair) for count, pair in zip(counts, pairs, strict=True)]
        yield "tiny partitions; pool | Spark", rows


def planning(bench: Bench, options: argparse.Namespace) -> Tables:
    """A job without the reading, for more and more bytes, with a partition per GB."""
    sizes = [size for size in (1, 10, 100, 1000) if size <= options.planned]
    made = [Made(size, GB // SPLIT + 1, SPLIT) for size in sizes]
    taken = bench.synthetic("planning", made)
    rows = [_planned(size, one, some) for size, one, some in zip(sizes, made, taken, strict=True)]
    yield "planning, no file is there", rows


def _planned(size: int, made: Made, taken: Metrics) -> Row:
    return {
        "": f"{size:,} GB",
        "splits": made.splits,
        "seconds": taken["seconds"],
        "cpu": taken["cpu"],
        "tasks": taken["tasks"],
        "sizes kB": taken["sizes"] / 1e3,
        "driver MB": taken["own_peak"] / 1e6,
        "heap MB": taken["heap"] / 1e6,
        "load": taken["load"],
    }


def merging(bench: Bench, options: argparse.Namespace) -> Tables:
    """Summaries of splits merged and evaluated, and how large they are, for ten producers and for a hundred."""
    per_partition = 1000
    for producers in (10, 100):
        most = max(1, options.summaries * 10 // producers // per_partition)
        counts = sorted({most, max(1, most // 10), max(1, most // 100)})
        made = [Made(count, per_partition, SPLIT, producers) for count in counts]
        taken = bench.synthetic("merging", made)
        rows = [_merged(one, some) for one, some in zip(made, taken, strict=True)]
        yield f"joining, {producers} producers in every split, {per_partition:,} splits in a partition", rows


def _merged(made: Made, taken: Metrics) -> Row:
    joining = taken["cpu"] - taken["made_cpu"]
    return {
        "": f"{made.splits:,} summaries",
        "seconds": taken["seconds"],
        "making s": taken["made_seconds"],
        "cpu": taken["cpu"],
        "joining cpu": joining,
        "ms a summary": 1000 * joining / made.splits,
        "bytes a summary": taken["bytes"] / made.splits,
        "shuffled MB": taken["shuffled"] / 1e6,
        "driver MB": taken["own_peak"] / 1e6,
        "heap MB": taken["heap"] / 1e6,
        "load": taken["load"],
    }
