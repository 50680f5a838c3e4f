"""``python -m lab.forecast.random_copies FOLDER ...``: starts a broker on each copy of a random cluster.

Each copy is forecast, then started alone, and both are compared. A broker of three is made the only voter: its
``quorum-state``, which names the others, is taken away from the copy, before the forecast and the start. Nothing is
deleted by retention or cleaned meanwhile, and no transaction times out; see ``python -m lab random --hot --killed``.
"""

import argparse
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kforensics.analyses.forecast import known_release
from kforensics.forensics.forecast.broker_forecast import BrokerForecast
from kforensics.forensics.forecast.next_start import forecast_start
from lab.forecast.bases import APART, Base
from lab.forecast.compare import file_differences, load_differences
from lab.forecast.start import LOADED, Slot, run
from lab.progress import say
from lab.scenario import workspace, write_json

# What changes a log after its load, and is not the start's: retention, cleaning, and time that runs out.
_LONG = "2147483647"
PINNED = {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": _LONG,
    "log.retention.check.interval.ms": _LONG,
    "log.segment.delete.delay.ms": _LONG,
    "auto.leader.rebalance.enable": "false",
    "producer.id.expiration.ms": _LONG,
    "transactional.id.expiration.ms": _LONG,
    "transaction.max.timeout.ms": _LONG,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": _LONG,
    "transaction.remove.expired.transaction.cleanup.interval.ms": _LONG,
    "offsets.retention.minutes": _LONG,
    "offsets.retention.check.interval.ms": _LONG,
}
# Replicas whose leader is another broker are never served here.
_SETTLE_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Copy:
    """The log directories of one broker in a copy.

    Attributes:
        name: of the copy and the broker.
        path: the folder ``broker-<id>``.
    """

    name: str
    path: Path

    @property
    def node_id(self) -> int:
        """The id of the broker."""
        return int(self.path.name.rpartition("-")[2])


def main() -> int:
    """Start all copies, one after the other; returns 1 if a forecast differs."""
    parser = argparse.ArgumentParser(prog="python -m lab.forecast.random_copies", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders of python -m lab random")
    parser.add_argument("--copy", action="append", metavar="NAME", help="only these, such as hot-1 or hot-1/broker-2")
    parser.add_argument("--missing", action="store_true", help="only copies that were not started yet")
    parser.add_argument("--forecast-only", action="store_true", help="compare with the starts of the last time")
    options = parser.parse_args()
    are_equal = [_compare_all(folder.absolute(), options) for folder in options.folders]
    return 0 if all(are_equal) else 1


def _compare_all(folder: Path, options: argparse.Namespace) -> bool:
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    base = Base(plan["upgrade"] or plan["kafka"], "random", tuple(plan["log_dirs"]))
    purpose = "forecast" if options.forecast_only else "start"
    slot, results = Slot(workspace(f"random-copies-{folder.name}-{purpose}")), dict[str, Any]()
    record = folder / "forecast.json"
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for copy in _copies(folder, options.copy):
        if copy.name in known if options.missing else options.forecast_only and copy.name not in known:
            continue
        result = _compared(base, copy, slot, plan, known.get(copy.name) if options.forecast_only else None)
        results[copy.name] = known[copy.name] = result
        say(f"{folder.name} {copy.name}: {result['outcome']}, {'; '.join(result['differences']) or 'as forecast'}")
        if not options.forecast_only:
            write_json(record, known)
    _print_summary(folder.name, base.release, results)
    return not any(result["differences"] for result in results.values())


def _copies(folder: Path, names: list[str] | None) -> Iterator[Copy]:
    for path in sorted((folder / "copies").glob("*/broker-*"), key=lambda path: (len(path.parts[-2]), path)):
        name = f"{path.parent.name}/{path.name}"
        if not names or name in names or path.parent.name in names:
            yield Copy(name, path)


def _compared(base: Base, copy: Copy, slot: Slot, plan: dict[str, Any], did: dict[str, Any] | None) -> dict[str, Any]:
    """Forecast a copy and start a broker on it, unless what a start did is known."""
    shutil.rmtree(slot.folder, ignore_errors=True)
    slot.folder.mkdir(parents=True)
    data = slot.folder / copy.path.name
    shutil.copytree(copy.path, data, ignore=shutil.ignore_patterns(".lock"))
    if plan["brokers"] > 1:
        for state in data.rglob("__cluster_metadata-0/quorum-state"):
            state.unlink()
    base = replace(base, metadata_log_dir=APART if (data / APART).is_dir() else None)
    forecast = forecast_start(base.directories(data), known_release(base.release))
    if did is None:
        node = slot.node(base, copy.node_id, {**plan["config"], **PINNED})
        did = run(node, base, data, {}, _SETTLE_SECONDS)
        loaded = LOADED.findall(node.log.read_text(errors="replace"))
        # What the loads left, before the coordinators go on with their transactions.
        did["loaded"] = {folder: [int(start), int(end)] for folder, start, end in loaded}
    found = [*load_differences(forecast, did, data), *file_differences(forecast, did, data)]
    return did | {"differences": found, "forecast": _summary(forecast)}


def _summary(forecast: BrokerForecast) -> dict[str, Any]:
    """What shows how much of a forecast was put to the test."""
    fates = Counter(each.fate for each in forecast.partitions)
    kinds = Counter(effect.kind for _, effect in forecast.all_effects())
    return {"outcome": forecast.outcome, "fates": dict(fates), "effects": dict(kinds)}


def _print_summary(name: str, release: str, results: dict[str, Any]) -> None:
    for state in ("hot", "killed", "full", "cold"):
        of_state = [result for copy, result in results.items() if re.match(state, copy)]
        if not of_state:
            continue
        equal = sum(not result["differences"] for result in of_state)
        outcomes = Counter(result["outcome"] for result in of_state)
        logs = sum(len(result["loaded"]) for result in of_state)
        effects = sum((Counter(result["forecast"]["effects"]) for result in of_state), Counter())
        say(f"{name} {release} {state}: {equal} of {len(of_state)} as forecast, {dict(outcomes)}, {logs} logs")
        say(f"  effects: {dict(effects.most_common())}")


if __name__ == "__main__":
    sys.exit(main())
