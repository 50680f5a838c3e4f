"""``python -m lab samples [NAME ...]`` and ``python -m lab random FOLDER``."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from lab.errors import LabError
from lab.pedigree import write_pedigree
from lab.progress import say
from lab.random_cluster.copies import Counts
from lab.random_cluster.plan import make_plan, with_disks, with_remote_storage
from lab.random_cluster.run import play
from lab.scenario import Scenario
from lab.scenarios import ALL, by_name
from lab.scenarios.remote_storage import KAFKA as TIERED_RELEASE


def main(arguments: list[str] | None = None) -> int:
    """Play scenarios; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
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
    samples.set_defaults(run=_samples)
    clusters = commands.add_parser("random", help="put a cluster under random load, and copy its files")
    clusters.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder with a short path")
    clusters.add_argument("--kafka", default="4.4.0", metavar="RELEASE", help="release of the brokers")
    clusters.add_argument("--brokers", type=int, default=1, choices=(1, 3), help="how many")
    clusters.add_argument("--controllers", type=int, default=0, metavar="N", help="controllers apart from the brokers")
    clusters.add_argument("--dynamic", action="store_true", help="voters that leave the quorum and return; from 3.9 on")
    clusters.add_argument("--disks", type=int, metavar="N", help="log directories of each broker; default: of the seed")
    clusters.add_argument("--tiered", action="store_true", help=f"with remote storage; needs --kafka {TIERED_RELEASE}")
    clusters.add_argument("--migrate", action="store_true", help="begin with ZooKeeper, and migrate to KRaft")
    clusters.add_argument("--seed", type=int, default=1, help="decides settings and choices, not the timing")
    clusters.add_argument("--seconds", type=int, default=90, help="how long the load lasts")
    clusters.add_argument("--upgrade", metavar="RELEASE", help="release that the first rolling restart brings")
    clusters.add_argument("--rollback", action="store_true", help="let the second one bring the first release back")
    clusters.add_argument(
        "--skew",
        type=float,
        default=0,
        metavar="SECONDS",
        help="difference between the clocks of one broker and the next",
    )
    clusters.add_argument(
        "--only", nargs="*", default=(), metavar="FAULT", help="only these faults, such as unclean; default: all"
    )
    clusters.add_argument("--hot", type=int, default=2, metavar="N", help="how many copies of the brokers at work")
    clusters.add_argument("--killed", type=int, default=0, metavar="N", help="copies of a broker killed meanwhile")
    clusters.add_argument("--full", type=int, default=0, metavar="N", help="copies of a broker whose disk was full")
    clusters.add_argument("--offline", type=int, default=0, metavar="N", help="copies while one of the disks is away")
    clusters.set_defaults(run=_random)
    return parser


def _samples(options: argparse.Namespace) -> None:
    for scenario in _chosen(options.names):
        scenario.run()
        write_pedigree()


def _random(options: argparse.Namespace) -> None:
    folder = options.folder.absolute()
    plan = make_plan(options.kafka, options.brokers, options.seed, options.seconds, options.upgrade)
    skew_ms = round(options.skew * 1000)
    plan = replace(plan, controllers=options.controllers, dynamic=options.dynamic, faults=tuple(options.only))
    plan = replace(plan, skew_ms=skew_ms, rolls_back=options.rollback)
    if options.migrate:
        plan = replace(plan, migrates=True)
    if options.tiered:
        plan = with_remote_storage(plan)
    if options.disks is not None:
        plan = with_disks(plan, options.disks)
    if options.offline and len(plan.log_dirs) == 1:
        raise LabError("--offline needs --disks 2 or more: without its only log directory a broker ends.")
    play(folder, plan, Counts(options.hot, options.killed, options.full, options.offline))


def _chosen(names: list[str]) -> list[Scenario]:
    unknown = [name for name in names if by_name(name) is None]
    if unknown:
        known = ", ".join(scenario.name for scenario in ALL)
        raise LabError(f"There is no scenario {', '.join(unknown)}. There are: {known}.")
    return [scenario for scenario in ALL if not names or scenario.name in names]


if __name__ == "__main__":
    sys.exit(main())
