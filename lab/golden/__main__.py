"""``python -m lab.golden [SCENARIO…]``: golden output for these scenarios, or for all; ``--formatters`` for those."""

import argparse
import sys

from lab.errors import LabError
from lab.golden.formatters import make_formatter_golden, make_mirror_golden
from lab.golden.runner import check_alone, list_scenarios, make_golden
from lab.progress import say


def main(arguments: list[str] | None = None) -> int:
    """Make or check golden output; 1 when a check found a difference."""
    parser = argparse.ArgumentParser(prog="python -m lab.golden", description="Dump the samples with Kafka's tools.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="a folder of sample_logs (default: all)")
    help_text = "repeat N runs per tool and scenario in processes of their own, and compare"
    parser.add_argument("--check", type=int, metavar="N", help=help_text)
    parser.add_argument("--formatters", action="store_true", help="those of kafka-console-consumer, for all logs")
    parser.add_argument("--mirror-formatters", action="store_true", help="those of MirrorMaker, for the sample mirror")
    options = parser.parse_args(arguments)
    scenarios = options.scenarios or list_scenarios()
    try:
        if options.formatters:
            return _make_formatters()
        if options.mirror_formatters:
            say(f"formatters of MirrorMaker: {make_mirror_golden()} texts")
            return 0
        return _check(scenarios, options.check) if options.check else _make(scenarios)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1


def _make(scenarios: list[str]) -> int:
    for version, count in make_golden(scenarios).items():
        say(f"dump tool {version}: {count} runs")
    return 0


def _make_formatters() -> int:
    for version, count in make_formatter_golden().items():
        say(f"formatters {version}: {count} records")
    return 0


def _check(scenarios: list[str], runs_per_tool: int) -> int:
    differences = check_alone(scenarios, runs_per_tool)
    for difference in differences:
        say(difference)
    say(f"{len(differences)} runs differ")
    return int(bool(differences))


if __name__ == "__main__":
    raise SystemExit(main())
