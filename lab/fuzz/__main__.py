"""``python -m lab.fuzz``: attack kforensics with damaged and hostile input for some minutes."""

import argparse
import sys
from pathlib import Path

from lab.fuzz.run import ATTACKS, Plan, run_attacks
from lab.places import ROOT
from lab.progress import say


def main(arguments: list[str] | None = None) -> int:
    """Make the attacks, print how many inputs there were, and return 1 if one was not withstood."""
    options = _parser().parse_args(arguments)
    attacks = tuple(options.attack or ATTACKS)
    plan = Plan(attacks, options.seed, 60 * options.minutes, options.first, options.inputs, options.output)
    results = run_attacks(plan)
    for result in results:
        say(f"{result.name}: {result.done} inputs, {result.failures} not withstood, seed {options.seed}")
    return 1 if any(result.failures for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long; the attacks run at the same time")
    parser.add_argument("--seed", type=int, default=1, help="decides the inputs")
    parser.add_argument("--attack", action="append", choices=tuple(ATTACKS), help="only this attack; repeatable")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="number of the first input")
    parser.add_argument("--inputs", type=int, metavar="COUNT", help="end after so many inputs of each attack")
    kept = ROOT / "out" / "fuzz"
    parser.add_argument("--output", type=Path, default=kept, metavar="DIR", help="keep inputs that cause failures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
