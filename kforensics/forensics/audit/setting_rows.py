"""The table of settings: all that are known of clusters, and those in force in some log directories and topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from kforensics.forensics.core.broker_settings import KNOWN, Setting, default_setting, known_first
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.log.log_rows import Place

__all__ = ["rows_in_force", "setting_rows"]

LogDirs = frozenset[str | None]


def setting_rows(rules: Rules) -> Rows:
    """Return the rows of the table of settings: all known ones, and Kafka's defaults for the others."""
    return _rows(_known_settings(rules))


def rows_in_force(rules: Rules, log_dirs: Iterable[str | None], topics: Callable[[str], bool]) -> Rows:
    """Return the rows of the settings that count for some log directories and topics.

    Args:
        rules: all settings that are known.
        log_dirs: the log directories.
        topics: returns whether a topic is selected.
    """
    every, in_force = frozenset(log_dirs), list[Setting]()
    remaining: dict[str, set[str | None]] = defaultdict(lambda: set(every))
    for setting in _known_settings(rules):
        concerned = every if setting.log_dirs is None else every & setting.log_dirs
        kind, _, name = (setting.entity or "").partition(" ")
        if kind == "topic":
            if concerned and topics(name):
                in_force.append(setting)
        elif remaining[setting.name] & concerned:
            in_force.append(setting)
            remaining[setting.name] -= concerned
    return _rows(in_force)


def _known_settings(rules: Rules) -> list[Setting]:
    """Return all known settings and Kafka's defaults for the others; of those for a log directory the first counts."""
    known = (*rules.settings, *rules.topic_settings)
    with_release = {setting.name for setting in known if setting.is_default}
    defaults = (default_setting(name) for name in KNOWN if name not in with_release)
    for_all: set[str] = set()
    settings = []
    for setting in (*known, *defaults):
        if setting.name not in for_all:
            settings.append(setting)
            for_all |= {setting.name} if setting.entity is None and setting.log_dirs is None else set()
    return known_first(settings)


def _rows(settings: Sequence[Setting]) -> Rows:
    columns = {
        **{name: [getattr(_place(setting), name) for setting in settings] for name in Place._fields},
        "name": [setting.name for setting in settings],
        "value": [setting.value for setting in settings],
        "source": [setting.source for setting in settings],
        "entity": [setting.entity for setting in settings],
        "log_dirs": [_listed(setting.log_dirs) for setting in settings],
        "meaning": [setting.meaning for setting in settings],
    }
    return Rows(RESULTS["settings"], len(settings), columns)


def _place(setting: Setting) -> Place:
    """Return the broker, log directory or topic that a setting is for, as far as it is a single one."""
    kind, _, name = (setting.entity or "").partition(" ")
    (log_dir,) = setting.log_dirs if setting.log_dirs and len(setting.log_dirs) == 1 else (None,)
    return Place(int(name) if kind == "broker" else None, log_dir, name if kind == "topic" else None, None)


def _listed(log_dirs: LogDirs | None) -> str | None:
    return None if log_dirs is None else " ".join(sorted(log_dir or "" for log_dir in log_dirs)) or None
