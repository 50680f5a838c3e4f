"""``python -m lab samples [NAME ...]``."""

import argparse
import sys

from lab.errors import LabError
from lab.pedigree import write_pedigree
from lab.progress import say
from lab.scenario import Scenario
from lab.scenarios import ALL, by_name


def main(arguments: list[str] | None = None) -> int:
    """Play scenarios; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        for scenario in _chosen(options.names):
            scenario.run()
            write_pedigree()
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    say("done")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(required=True)
    samples = commands.add_parser("samples", help="write sample_logs/ with real brokers")
    samples.add_argument("names", nargs="*", metavar="NAME", help="scenarios; all of them when none is named")
    return parser


def _chosen(names: list[str]) -> list[Scenario]:
    unknown = [name for name in names if by_name(name) is None]
    if unknown:
        known = ", ".join(scenario.name for scenario in ALL)
        raise LabError(f"There is no scenario {', '.join(unknown)}. There are: {known}.")
    return [scenario for scenario in ALL if not names or scenario.name in names]


if __name__ == "__main__":
    sys.exit(main())
