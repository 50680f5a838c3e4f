"""The commands that answer questions about partitions: arguments, one call, one renderer."""

# No postponed annotations, see ``cli``.

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from kforensics.cli_values import PlainCommand

__all__ = ["add_questions"]

OUTPUT, RUN, FILTERS = "Output", "How to run", "Which"

Paths = Annotated[
    list[str] | None, typer.Argument(metavar="PATH", help="Log directories, partition folders, files, globs or URIs.")
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, or rows as table, json, ndjson, csv, parquet or arrow.",
        rich_help_panel=OUTPUT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write to this file, which appears whole or not at all.", rich_help_panel=OUTPUT),
]
Topic = Annotated[
    list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.", rich_help_panel=FILTERS)
]
AsOf = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Judge as of this time, in ms or ISO 8601 (UTC); by default the newest modification time of the files.",
        rich_help_panel=RUN,
    ),
]
FailOn = Annotated[
    str,
    typer.Option(
        metavar="SEVERITY",
        help="Exit with 1 from this on: info, warning, error, critical or never.",
        rich_help_panel=RUN,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors on standard error.", rich_help_panel=RUN)]
Progress = Annotated[
    bool | None, typer.Option(help="Show progress; by default where a person looks.", rich_help_panel=RUN)
]
Processes = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Use so many processes; by default by size.", rich_help_panel=RUN),
]
EXIT_CODES = "Exit code: 0 clean, 1 findings, 2 the command makes no sense as it stands, 3 something could not be read."


def _epilog(*examples: str) -> str:
    lines = "\n\n".join(f"  kforensics {example}" for example in examples)
    return f"\nExamples:\n\n{lines}\n\n{EXIT_CODES}\n"


def lso(  # one parameter per option, as in the others
    context: typer.Context,
    paths: Paths = None,
    *,
    at: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="At this high watermark.", rich_help_panel=FILTERS)
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Every step, as the high watermark rises.", rich_help_panel=FILTERS)
    ] = False,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Say where the last stable offset is, who holds it back, since when, and what is hidden behind it."""
    from kforensics.answers import LsoQuestion  # --help must not load what a question needs
    from kforensics.question_command import run_question

    raise typer.Exit(run_question(context.params, LsoQuestion(at, history)))


def transactions(
    context: typer.Context,
    paths: Paths = None,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="open, aborted or committed; may be repeated.", rich_help_panel=FILTERS),
    ] = None,
    producer_id: Annotated[int | None, typer.Option(help="Of this producer.", rich_help_panel=FILTERS)] = None,
    min_duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="That lasted at least 90s, 15m, 2h, …", rich_help_panel=FILTERS)
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="KEY", help="offset, marker, duration, records, bytes, begun or producer.", rich_help_panel=OUTPUT
        ),
    ] = "offset",
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """List transactions: open, aborted or committed, by whom, from where to where, and how long they lasted."""
    from kforensics.answers import TransactionsQuestion  # as above
    from kforensics.arguments import duration_ms
    from kforensics.question_command import run_question

    least = None if min_duration is None else duration_ms(min_duration, "--min-duration")
    question = TransactionsQuestion(tuple(state or ()), producer_id, least, sort)
    raise typer.Exit(run_question(context.params, question))


def producers(
    context: typer.Context,
    paths: Paths = None,
    *,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="After all batches below this offset.", rich_help_panel=FILTERS),
    ] = None,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Rebuild what a broker knows of every producer, and say where a snapshot knows it otherwise."""
    from kforensics.answers import ProducersQuestion  # as above
    from kforensics.question_command import run_question

    raise typer.Exit(run_question(context.params, ProducersQuestion(at)))


def duplicates(
    context: typer.Context,
    paths: Paths = None,
    *,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL", help="sequence, content-retry or content; may be repeated.", rich_help_panel=FILTERS
        ),
    ] = None,
    committed: Annotated[
        bool,
        typer.Option("--committed", help="Only what a read_committed consumer gets twice.", rich_help_panel=FILTERS),
    ] = False,
    memory: Annotated[
        int,
        typer.Option(min=1, metavar="MB", help="Use temporary files beyond so many megabytes.", rich_help_panel=RUN),
    ] = 256,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Find what was written twice: the same sequences, and the same key, value and headers."""
    from kforensics.answers import DuplicatesQuestion  # as above
    from kforensics.question_command import run_question

    question = DuplicatesQuestion(tuple(level or ()), committed, memory << 20)
    raise typer.Exit(run_question(context.params, question))


def explain(
    context: typer.Context,
    paths: Paths = None,
    *,
    offset: Annotated[int | None, typer.Option(min=0, help="This offset.", rich_help_panel=FILTERS)] = None,
    producer_id: Annotated[int | None, typer.Option(help="This producer.", rich_help_panel=FILTERS)] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="This transactional id; needs the log of its coordinator.", rich_help_panel=FILTERS
        ),
    ] = None,
    topic: Topic = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only partitions of this number.", rich_help_panel=FILTERS)
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="With --offset: at this high watermark.", rich_help_panel=FILTERS),
    ] = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Tell the story of one offset, one producer or one transactional id, with the evidence."""
    from kforensics.explain_command import run_explain  # as above

    raise typer.Exit(run_explain(context.params))


def keys(
    context: typer.Context,
    paths: Paths = None,
    *,
    partition_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Partitions of the topic today; by default as the cluster's metadata under the paths has it.",
            rich_help_panel=RUN,
        ),
    ] = None,
    listed: Annotated[
        str,
        typer.Option(
            "--list",
            metavar="WHAT",
            help="Rows of the other formats: partitions, keys (that lie in two of them) or producers.",
            rich_help_panel=OUTPUT,
        ),
    ] = "partitions",
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Say which keys lie where their partitioner would not put them, in two partitions, or elsewhere since a growth."""
    from kforensics.keys_command import run_keys  # as above

    raise typer.Exit(run_keys(context.params))


def scan(
    context: typer.Context,
    paths: Paths = None,
    *,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Say what lies here and whether it is well: a card for each partition, the worst first."""
    from kforensics.audit_command import run_scan  # as above

    raise typer.Exit(run_scan(context.params))


def verify(
    context: typer.Context,
    paths: Paths = None,
    *,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Compare indexes, snapshots, transaction indexes and checkpoints with the log they belong to."""
    from kforensics.audit_command import run_verify  # as above

    raise typer.Exit(run_verify(context.params))


def audit(  # long: one parameter per option
    context: typer.Context,
    paths: Paths = None,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write the evidence store there: Parquet and a manifest, all of it or nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Decode every record too: what cannot be read, what is there twice.",
            rich_help_panel=RUN,
        ),
    ] = False,
    checksums: Annotated[
        bool,
        typer.Option("--checksums", help="Put the SHA-256 of every input into the manifest.", rich_help_panel=OUTPUT),
    ] = False,
    topic: Topic = None,
    output_format: FormatOption = "text",
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="process or spark; by default Spark where spark-submit starts it.",
            rich_help_panel=RUN,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark's master; by default as Spark is configured, or local[*].", rich_help_panel=RUN
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A property of Spark; may be repeated.", rich_help_panel=RUN),
    ] = None,
    split_size: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MB", help="On Spark, read large segments in pieces of about this.", rich_help_panel=RUN
        ),
    ] = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Judge everything under some paths, keep the evidence, and report the worst first, with what to do."""
    from kforensics.arguments import is_for_spark  # as above

    if is_for_spark(engine, [name for name in ("master", "conf", "split_size") if context.params[name] is not None]):
        from kforensics.spark_command import run_spark_audit

        raise typer.Exit(run_spark_audit(context.params))
    from kforensics.audit_command import run_audit

    raise typer.Exit(run_audit(context.params))


def report(
    context: typer.Context,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="The evidence store of an audit: a folder or a URI.")
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the report to this file, which appears whole or not at all.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Make one HTML file of an evidence store: verdict, findings, charts, tables and provenance; no network needed."""
    from kforensics.report_command import run_report  # as above

    raise typer.Exit(run_report(context.params))


COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {
    scan: ("scan /var/lib/kafka/data", "scan --format csv --output /tmp/cards.csv /mnt/evidence"),
    lso: ("lso /var/lib/kafka/data", "lso --history orders-0", "lso --at 1200 orders-0"),
    transactions: (
        "transactions --state open /var/lib/kafka/data",
        "transactions --min-duration 15m --sort duration orders-0",
    ),
    producers: ("producers orders-0", "producers --at 1200 --format csv --output /tmp/producers.csv orders-0"),
    duplicates: (
        "duplicates orders-0",
        "duplicates --committed --format csv --output /tmp/twice.csv /var/lib/kafka/data",
    ),
    explain: (
        "explain --offset 1200 orders-0",
        "explain --topic orders --partition 0 --offset 1200 /var/lib/kafka/data",
        "explain --producer-id 12 /var/lib/kafka/data",
        "explain --transactional-id payments-1 /var/lib/kafka/data",
    ),
    keys: (
        "keys --topic orders /var/lib/kafka/data",
        "keys --topic orders --partition-count 12 --list keys --format csv --output /tmp/keys.csv orders-*",
    ),
    verify: ("verify /var/lib/kafka/data", "verify --fail-on warning orders-0"),
    audit: (
        "audit /var/lib/kafka/data",
        "audit --output /tmp/evidence --as-of 2026-11-21T03:00 /mnt/broker-1/data",
        "audit --engine spark --master spark://host:7077 --output s3://bucket/evidence s3://bucket/brokers",
    ),
    report: ("report /tmp/evidence --output /tmp/report.html",),
}


def add_questions(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command, examples in COMMANDS.items():
        app.command(cls=PlainCommand, epilog=_epilog(*examples))(command)
