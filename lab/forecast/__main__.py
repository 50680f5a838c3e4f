"""``python -m lab.forecast [--build] [BASE ...] [--case NAME]``."""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from lab.errors import LabError
from lab.forecast.bases import BASES, DATA, Base, build
from lab.forecast.cases import Case, cases_of
from lab.forecast.start import Slot, record, without_usual
from lab.forecast.with_zookeeper import build_with_zookeeper
from lab.progress import say
from lab.scenario import workspace, write_json

_BROKERS = 2


def main() -> int:
    """Start the cases; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.forecast", description=__doc__)
    parser.add_argument("bases", nargs="*", metavar="BASE", help="for example 4.4.0-stopped; all of them by default")
    parser.add_argument("--build", action="store_true", help="play the bases first, which changes their archives")
    parser.add_argument("--case", action="append", metavar="NAME", help="only these cases; the others stay as recorded")
    parser.add_argument("--missing", action="store_true", help="only cases that are not recorded yet")
    options = parser.parse_args()
    chosen = [base for base in BASES if not options.bases or base.name in options.bases]
    try:
        for release in dict.fromkeys(base.release for base in chosen) if options.build else ():
            kinds = {base.has_zookeeper for base in chosen if base.release == release}
            for builder in [*([build] if False in kinds else []), *([build_with_zookeeper] if True in kinds else [])]:
                builder(release)
        for base in chosen:
            _record_all(base, options.case, missing=options.missing)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _record_all(base: Base, names: list[str] | None, *, missing: bool) -> None:
    path = DATA / f"{base.name}.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    cases = cases_of(base)
    wanted = [case for case in cases if (not names or case.name in names) and not (missing and case.name in known)]
    slots: SimpleQueue[Slot] = SimpleQueue()
    for number in range(_BROKERS):
        slots.put(Slot(workspace(f"forecast-start-{base.name}-{number}")))
    with ThreadPoolExecutor(_BROKERS) as pool:
        for case, result in pool.map(lambda case: (case, _recorded(base, case, slots)), wanted):
            usual = known.get("undoctored", result)
            known[case.name] = result if case.name == "undoctored" else without_usual(result, usual)
            say(f"{base.name} {case.name}: {result['outcome']}")
            write_json(path, {case.name: known[case.name] for case in cases if case.name in known})


def _recorded(base: Base, case: Case, slots: "SimpleQueue[Slot]") -> dict[str, Any]:
    slot = slots.get()
    try:
        return record(base, case, slot)
    finally:
        slots.put(slot)


if __name__ == "__main__":
    sys.exit(main())
