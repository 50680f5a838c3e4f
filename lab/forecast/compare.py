"""Where a forecast differs from what a broker did: the outcome, offsets, strays, and files that went or were cut."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kforensics.forensics.forecast.broker_forecast import BrokerForecast
from kforensics.forensics.forecast.effects import RETENTION_DUE, ROUTINE, Effect
from kforensics.forensics.forecast.metadata_loading import DELETED_AS_STRAY, NOT_KNOWN, SERVED

OUTCOMES = {"started": "starts", "refused": "refuses", "ended": "refuses", "hung": "hangs"}
# A start removes these only if it has a reason, and makes none of them.
_KEPT = (".log", ".snapshot", ".swap", ".cleaned", ".deleted")
_RENAMED = re.compile(r"\.[^.]*-(delete|future|stray)$")
_STRAY = re.compile(r"\.[0-9a-f]{32}-stray$")
# What a start that fails does to the marker of the clean shutdown, with the effect that says so.
_MARKERS = {"removed": "marker-removed", "created": "marker-written"}
_REMOVALS = ("housekeeping", "orphan-deleted", "snapshot-dropped", "file-renamed", "file-deleted")


def differences(forecast: BrokerForecast, truth: dict[str, Any]) -> list[str]:
    """Return how the outcome, and the offsets and strays once all is served, differ from what a start did."""
    expected = OUTCOMES[truth["outcome"]]
    if forecast.outcome == NOT_KNOWN:
        return []
    if forecast.outcome != expected:
        return [f"{forecast.outcome} instead of {expected}: {forecast.refusals[:1]} {truth.get('exceptions')}"]
    if expected == "refuses":
        first = _first_exception(truth)
        named = forecast.refusals[0].exception
        marker = _MARKERS.get(truth["files"].get(".kafka_cleanshutdown"))
        said = next((effect.kind for _, effect in forecast.all_effects() if effect.kind in _MARKERS.values()), None)
        if any("may write" in effect.detail for _, effect in forecast.all_effects()) and marker is None:
            said = None
        if len(forecast.log_dirs) > 1:
            said = marker  # the record has no markers of several log directories
        return [] if (named, said) == (first, marker) else [f"{named}, {said} instead of {first}, {marker}"]
    return [*_offset_differences(forecast, truth["partitions"]), *stray_differences(forecast, truth["files"])]


def _first_exception(truth: dict[str, Any]) -> str:
    """The exception that a broker logs first; of one that waited for a controller in vain, what it ends with."""
    fatal: list[str] = truth.get("fatal", [])
    # A controller with ZooKeeper logs that it does not reach the broker which ends.
    own = [name for name, message in truth["exceptions"] if not message.startswith("Connection to ")]
    first: str = fatal[1] if len(fatal) > 1 and "during broker startup" in fatal[0] else own[0]
    return first


def _offset_differences(forecast: BrokerForecast, truth: dict[str, Any]) -> list[str]:
    unknown = {each.name for each in forecast.partitions if each.fate == NOT_KNOWN}
    if forecast.has_zookeeper:  # which partitions it creates, and which it does not serve, is in ZooKeeper
        live = {each.name for each in forecast.partitions if each.fate == SERVED}
        unknown |= {name for name, offsets in truth.items() if name not in live or offsets == "error 3"}
    served = {
        each.name: [each.loaded.log_start, each.loaded.log_end, each.loaded.last_stable]
        for each in forecast.partitions
        if each.fate in ("served", "created") and each.loaded is not None
    }
    return [
        f"{name}: {served.get(name)} instead of {offsets}"
        for name, offsets in truth.items()
        if name not in unknown and served.get(name) != (_bounded(offsets) if isinstance(offsets, list) else None)
    ]


def _bounded(offsets: list[int]) -> list[int]:
    """Log start, log end and last stable offset of a broker, the last not before the log start.

    If a transaction that began before the log start is open, 4.4.0 names the base offset of the batch in which the log
    starts, and 3.9.1 the log start.
    """
    return [offsets[0], offsets[1], max(offsets[0], offsets[2])]


def stray_differences(forecast: BrokerForecast, files: dict[str, str]) -> list[str]:
    """Return how the folders that become stray differ from the changed files after a start."""
    made = {name.split(".*")[0] for name, kind in files.items() if name.endswith("-stray/") and kind == "created"}
    named = {
        Path(each.folder).name
        for each in forecast.partitions
        if each.fate == "stray" and each.folder is not None and not each.folder.endswith("-stray")
    }
    unknown = {Path(each.folder or "").name for each in forecast.partitions if each.fate == NOT_KNOWN}
    made = {name.rpartition("/")[2] for name in made} - unknown
    deleted = {name.split(".*")[0] for name, kind in files.items() if name.endswith("-delete/") and kind == "created"}
    deleted -= unknown
    gone = {Path(each.folder).name for each in forecast.partitions if each.fate == DELETED_AS_STRAY and each.folder}
    wrong = [] if made == named else [f"strays {sorted(named)} instead of {sorted(made)}"]
    return wrong if deleted == gone else [*wrong, f"deletes {sorted(gone)} instead of {sorted(deleted)}"]


def load_differences(forecast: BrokerForecast, truth: dict[str, Any], data: Path) -> list[str]:
    """Return how a forecast differs from a start whose coordinators and controller went on with their work afterwards.

    Args:
        forecast: of a copy.
        truth: what the start did; ``loaded`` has log start and log end of each folder after its load.
        data: the copy, whose path the effects have.
    """
    expected = OUTCOMES[truth["outcome"]]
    if forecast.outcome != "starts" or expected != "starts":
        return differences(forecast, truth)
    return [
        *_loaded(forecast, truth["loaded"]),
        *stray_differences(forecast, truth["files"]),
        *_created(forecast, truth["files"]),
        *_stable(forecast, truth["partitions"]),
        *_cut(forecast, truth["files"], data),
    ]


def _logs(forecast: BrokerForecast) -> dict[str, Any]:
    return {Path(each.folder).name: each.loaded for each in forecast.partitions if each.folder and each.loaded}


def _loaded(forecast: BrokerForecast, loaded: dict[str, list[int]]) -> Iterator[str]:
    logs = {name: [log.log_start, log.log_end] for name, log in _logs(forecast).items()}
    # A folder that has become stray has its new name in the log; one that is to be deleted, no end of its own.
    known = {name if name in logs else _STRAY.sub("", name): offsets for name, offsets in loaded.items()}
    for name in sorted(logs.keys() | known.keys()):
        if logs.get(name) != known.get(name) and not name.endswith("-delete"):
            yield f"loaded {name}: {logs.get(name)} instead of {known.get(name)}"


def _created(forecast: BrokerForecast, files: dict[str, str]) -> Iterator[str]:
    folders = {Path(name).name for name, kind in files.items() if name.endswith("/") and kind == "created"}
    made = {name for name in folders if not name.endswith(("-stray", "-delete", "-future"))} | _replaced(files)
    named = {each.name for each in forecast.partitions if each.fate == "created"}
    if made != named:
        yield f"created {sorted(named)} instead of {sorted(made)}"


def _replaced(files: dict[str, str]) -> set[str]:
    """Folders that became stray, and that the broker made again."""
    made = {Path(name).name for name, kind in files.items() if name.endswith("-stray/") and kind == "created"}
    gone = {Path(name).name for name, kind in files.items() if name.endswith("/") and kind == "removed"}
    return {name.partition(".*")[0] for name in made} - gone


def _stable(forecast: BrokerForecast, partitions: dict[str, Any]) -> Iterator[str]:
    """The last stable offset of each log that nothing was appended to since its load."""
    logs = _logs(forecast)
    for name, offsets in partitions.items():
        if name not in logs or not isinstance(offsets, list) or max(offsets[1:]) != logs[name].log_end:
            continue
        if _bounded(offsets)[2] != logs[name].last_stable:
            yield f"last stable offset of {name}: {logs[name].last_stable} instead of {offsets[2]}"


def file_differences(
    forecast: BrokerForecast, truth: dict[str, Any], data: Path, ends: tuple[str, ...] = _KEPT
) -> list[str]:
    """Return how the files that go differ, of a start after which nothing is deleted by retention or cleaned.

    Args:
        forecast: of a copy.
        truth: what the start did.
        data: the copy, whose path the effects have.
        ends: how the names of the files end that are compared.
    """
    if forecast.outcome != "starts" or truth["outcome"] != "started":
        return []
    files = truth["files"]
    removed = {name for name, kind in files.items() if kind == "removed" and _is_of_a_log(name, ends)}
    # What was in a folder that became stray, and that the broker made again, has gone with it.
    replaced = _replaced(files)
    gone = {name for name in removed if Path(name).parent.name not in replaced}
    stays = {Path(each.folder) for each in forecast.partitions if each.fate != "stray" and each.folder}
    named = {
        path.relative_to(data).as_posix()
        for path in (Path(effect.path or "") for _, effect in forecast.all_effects() if _removes(effect))
        if path.parent in stays and _is_of_a_log(path.as_posix(), ends)
    }
    return [
        f"{name} {'stays' if name in named else 'goes'}, and the forecast does not say so"
        for name in sorted(named ^ gone)
    ]


def unsaid_changes(
    forecast: BrokerForecast, files: dict[str, str], data: Path, routine: Iterable[re.Pattern[str]]
) -> list[str]:
    """Return the files that a start created or removed, and that no effect of a forecast is about.

    A routine effect is about the file that it names. Any other is about its whole partition.

    Args:
        forecast: of a copy.
        files: the changed files after the start.
        data: the copy, whose path the effects have.
        routine: what every start may do, as ``created`` or ``removed`` and the path of a file.
    """
    every = list(forecast.all_effects())
    if forecast.outcome != "starts" or any(effect.kind == "not-known" for _, effect in every):
        return []
    named = {effect.path.removeprefix(f"{data}/") for _, effect in every if effect.path is not None}
    due = {effect.path.removesuffix(".log") for _, effect in every if effect.kind == RETENTION_DUE and effect.path}
    of_partitions = {part.name for part, effect in every if part is not None and effect.kind not in ROUTINE}
    return [
        f"{kind} {name}, and the forecast does not say so"
        for name, kind in files.items()
        if kind in ("created", "removed")
        and not any(pattern.fullmatch(f"{kind} {name}") for pattern in routine)
        and name not in named
        and f"{data}/{name.rpartition('.')[0]}" not in due
        and _partition_of(name) not in of_partitions
    ]


def _partition_of(name: str) -> str:
    """The partition in whose folder a file is, or that a folder is of."""
    folder = Path(name) if name.endswith("/") else Path(name).parent
    return _RENAMED.sub("", folder.name)


def _removes(effect: Effect) -> bool:
    # A segment after the one that is cut goes; the cut one stays.
    return effect.kind in _REMOVALS or (effect.kind == "truncated" and "is deleted" in effect.detail)


def _is_of_a_log(name: str, ends: tuple[str, ...]) -> bool:
    # The metadata log is cleaned with each start, and what is in a deleted folder goes with it.
    return name.endswith(ends) and "__cluster_metadata-0/" not in name and "-delete/" not in name


def _cut(forecast: BrokerForecast, files: dict[str, str], data: Path) -> Iterator[str]:
    """Logs that became shorter."""
    cut = [effect.path or "" for _, effect in forecast.all_effects() if effect.kind == "truncated"]
    named = {Path(path).relative_to(data).as_posix() for path in cut if path}
    replaced = _replaced(files)
    for name, kind in files.items():
        if _is_shorter(name, kind) and name not in named and Path(name).parent.name not in replaced:
            yield f"{name}: {kind}, and the forecast does not say so"


def _is_shorter(file: str, kind: str) -> bool:
    """Return whether a change of a file is that of a log that became shorter."""
    sizes = [int(size) for size in kind.removesuffix(" bytes").split(" -> ")] if " -> " in kind else []
    return file.endswith(".log") and len(sizes) == 2 and sizes[1] < sizes[0]
