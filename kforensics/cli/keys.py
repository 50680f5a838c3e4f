"""The command ``kforensics keys``: the partitions of keys, and which keys are misplaced."""

# No postponed annotations, see ``command``.

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import EXECUTION, OUTPUT, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kforensics.analyses.keys import TopicResult
    from kforensics.cli.asking import DocumentFindings
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "keys --topic orders /var/lib/kafka/data",
        "keys --topic orders --partition-count 12 --list keys --format csv --output /tmp/keys.csv orders-*",
    ),
)
@with_shared_options(refused=("min_severity", "codes", "since", "partitions"))
def keys(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    partition_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of partitions of the topic today. Default: from the cluster metadata under the paths.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    listed: Annotated[
        str,
        typer.Option(
            "--list",
            metavar="LIST",
            help="The rows of other formats than text: partitions, keys (in several partitions) or producers.",
            rich_help_panel=OUTPUT,
        ),
    ] = "partitions",
) -> None:
    """Find keys that are not where their partitioner puts them, or are in several partitions."""
    from kforensics.analyses.keys import KeysRequest, evaluate_topic_keys
    from kforensics.cli.asking import DocumentFindings
    from kforensics.cli.partition_options import ExitStatus, severities_of
    from kforensics.cli.writing import write_parts, write_results
    from kforensics.render.formats import Format
    from kforensics.render.key_text import add_keys
    from kforensics.render.output import open_output
    from kforensics.render.ranked_text import RankedText

    request = KeysRequest(tuple(options.topic or ()), partition_count, listed)
    options.refuse("this command shows no such", "min_severity", "codes", "since", "partitions")
    to_format, severity = options.format(), options.severity()
    investigation = options.investigation(all_topics=True)  # the metadata topic has the partition counts
    status = ExitStatus(investigation.unreadable)
    table, document_findings = request.table, DocumentFindings(investigation, options.brokers())
    with options.stage("partitions read, evaluated and written"), options.watched(investigation) as watched:
        results = status.watch(evaluate_topic_keys(watched, request, status.add_unreadable), severities_of)
        if to_format is Format.TEXT:
            collected = RankedText(options.screen(), "no keys", "topic")
            with open_output(options.output) as out, closing(collected):
                for result in results:
                    add_keys(collected, result)
                write_parts(collected.parts(), out)
        else:
            write_results(
                _with_findings_beside(results, document_findings) if to_format is Format.JSON else results,
                to_format,
                options,
                text=str,
                table=table,
                rows=lambda keys: keys.rows.get(table.name, ()),
                beside=document_findings.tables,
            )
    raise typer.Exit(status.code(severity))


def _with_findings_beside(
    results: "Iterable[TopicResult]", document_findings: "DocumentFindings"
) -> "Iterator[TopicResult]":
    """Yield results, and add their findings to what a document has beside their rows."""
    for result in results:
        for place, finding in result.placed:
            document_findings.add(place, (finding,))
        yield result
