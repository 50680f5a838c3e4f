"""What a terminal shows: the same commands at 80 and 120 columns, with and without colors, as files.

``KFORENSICS_UPDATE_SCREENS=1`` writes the files anew; the difference is for people to read.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kforensics.cli.audit_on_spark import _on_spark
from kforensics.cli.writing import repeatable
from kforensics.render.screen import Screen
from lab.forecast.bases import BASES, unpack
from tests.command import ROOT, run
from tests.forensics.forge import forge

SCREENS = Path(__file__).parent / "screens"
AS_OF = "2026-11-21T12:30"
FORGED = ("--as-of", 1_700_009_000_000)
V2 = Path("sample_logs/transactions-v2/broker-1")
QUIET, STUCK = 400, 40
FORGED_CLUSTERS = ("cluster", "held", "killed/data")
WIDTHS, ESCAPE = (80, 120), "\x1b["
SGR = re.compile(r"\x1b\[[0-9;]*m")

BATCHES = "SELECT topic, partition, count(*) AS batches, sum(size) AS bytes FROM batches GROUP BY ALL ORDER BY ALL"

CASES = {
    "lso": ("lso", "--as-of", AS_OF, V2),
    "lso-history": ("lso", "--as-of", AS_OF, "--history", V2 / "open-0", V2 / "committed-0"),
    "lso-one-stuck-of-400": ("lso", *FORGED, "cluster"),
    "lso-forty-of-one-producer": ("lso", *FORGED, "held"),
    "transactions": ("transactions", "--as-of", AS_OF, V2 / "open-0", V2 / "committed-0", V2 / "segments-0"),
    "transactions-wide": ("transactions", "--as-of", AS_OF, "--wide", V2 / "open-0"),
    "transactions-one-stuck-of-400": ("transactions", *FORGED, "--state", "open", "cluster"),
    "transactions-alike": ("transactions", *FORGED, "held"),
    "transaction-costs": ("transactions", "--as-of", AS_OF, "--cost", "sample_logs/consume-transform-produce"),
    "producers": ("producers", "--as-of", AS_OF, V2),
    "duplicates": ("duplicates", "--as-of", "2026-11-21T18:00", "sample_logs/duplicates"),
    "scan": ("scan", "--as-of", AS_OF, V2),
    "scan-one-stuck-of-400": ("scan", *FORGED, "cluster"),
    "scan-alike": ("scan", *FORGED, "held"),
    "audit": ("audit", "--as-of", AS_OF, V2, "sample_logs/unclean-election"),
    "audit-verbose": ("audit", "--as-of", AS_OF, "-v", V2 / "open-0"),
    "audit-tz": ("audit", "--as-of", AS_OF, "--tz", "Europe/Berlin", V2 / "open-0"),
    "audit-wide": ("audit", "--as-of", AS_OF, "--wide", V2),
    "audit-forty-of-one-producer": ("audit", *FORGED, "held"),
    "verify": ("verify", "--as-of", "2026-11-21T12:15", "sample_logs/damaged/batches/written-twice-0"),
    "verify-many": ("verify", "--as-of", "2026-11-21T12:15", "sample_logs/damaged/states"),
    "explain": ("explain", "--as-of", "2026-11-21T12:16", "--offset", 5, V2 / "open-0"),
    "ids": ("ids", "--as-of", AS_OF, "sample_logs/transactions-v1"),
    "ids-life": ("ids", "--as-of", AS_OF, "--transactional-id", "slow", "sample_logs/transactions-v1"),
    "groups": ("groups", "--as-of", AS_OF, "sample_logs/groups"),
    "groups-history": ("groups", "--as-of", AS_OF, "--group", "modern", "sample_logs/groups"),
    "settings": ("settings", "--as-of", AS_OF, "--topic", "kept", "sample_logs/cluster-metadata"),
    "cluster": ("cluster", "--as-of", AS_OF, "sample_logs/cluster-metadata"),
    "cluster-history": ("cluster", "--as-of", AS_OF, "--history", "kept-0", "sample_logs/cluster-metadata"),
    "forecast": ("forecast", "killed/data"),
    "forecast-elect": ("forecast", "--elect", "sample_logs/unclean-election"),
    "mirror": ("mirror", "tests/data/mirror/source", "tests/data/mirror/target"),
    "query": ("query", "--logs", V2, BATCHES),
    "keys": ("keys", "--as-of", "2026-11-22", "--topic", "grown-twice", "sample_logs/partition-growth"),
}
screens = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of log directories: 400 healthy partitions and a stuck one, 40 stuck ones, of a killed broker."""
    folder = tmp_path_factory.mktemp("c")
    unpack(next(base for base in BASES if base.state == "killed"), folder / "killed")
    for number in range(QUIET):
        forge(folder / "cluster", "D 1 0 0-4 @0-4 T ts 1700000000000; M 1 0 C 3 @5", topic="orders", partition=number)
    stuck = "D 7 2 0-4 @0-4 T ts 1700000000000; D 8 0 0-3 @5-8 N"
    forge(folder / "cluster", stuck, topic="stuck", log_append_time=True)
    for number in range(STUCK):
        open_since = "D 1 0 0-4 @0-4 T ts 1700000000000; M 1 0 C 3 @5; D 9 1 0-4 @6-10 T ts 1700000100000"
        forge(folder / "held", open_since, topic="held", partition=number, log_append_time=True)
    return folder


SHOWN: dict[tuple[str, int, str], str] = {}


def _shown(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch, width: int, color: str) -> str:
    """Return what a command shows; it runs once for several tests."""
    if (name, width, color) not in SHOWN:
        SHOWN[name, width, color] = _run(name, clusters, monkeypatch, width, color)
    return SHOWN[name, width, color]


def _run(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch, width: int, color: str) -> str:
    monkeypatch.chdir(clusters if CASES[name][-1] in FORGED_CLUSTERS else ROOT)
    monkeypatch.setenv("COLUMNS", str(width))
    command, *words = CASES[name]
    ended = run(command, "--quiet", "--color", color, *words)
    assert ended.code in (0, 1)
    assert not ended.err or "-v" in words
    return ended.text.replace(f" --color {color}", "")


@screens
def test_the_screen_is_the_recorded_one(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = []
    for width in WIDTHS:
        plain, colored = (_shown(name, clusters, monkeypatch, width, color) for color in ("never", "always"))
        assert ESCAPE not in plain
        assert SGR.sub("", colored) == plain
        sections.append(f"==== {width} columns\n{plain}==== {width} columns, in color\n{colored}")
    screen, file = "".join(sections).replace("\x1b", "␛"), SCREENS / f"{name}.txt"
    if os.environ.get("KFORENSICS_UPDATE_SCREENS"):
        file.write_text(screen, encoding="utf-8")
    assert screen == file.read_text(encoding="utf-8")


@screens
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_longer_than_the_screen_but_commands_and_words(
    name: str, width: int, clusters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = _shown(name, clusters, monkeypatch, width, "never").splitlines()
    if name == "cluster-history":
        pytest.skip("its least row is longer")
    long = [line for line in lines if len(line) > width and not re.match(r" *((check|do) +)?\$ ", line)]
    if "--wide" not in CASES[name]:
        assert [line for line in long if len(line.split()) > 2 and "/" not in line] == []


@screens
def test_no_word_and_no_command_is_torn(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words at 80 columns are those of a screen without an end, in the same order."""
    if CASES[name][0] in ("transactions", "producers", "audit", "ids", "groups", "cluster"):
        pytest.skip("the width decides about the columns of a table, and where a line is cut")
    narrow, endless = (_shown(name, clusters, monkeypatch, width, "never") for width in (80, 9_999))
    assert narrow.split() == endless.split()
    commands = [line.strip() for line in endless.splitlines() if line.lstrip().startswith("$ ")]
    assert [line.strip() for line in narrow.splitlines() if line.lstrip().startswith("$ ")] == commands


def test_the_stuck_partition_of_400_is_on_the_first_screen(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lso-one-stuck-of-400", "transactions-one-stuck-of-400", "scan-one-stuck-of-400"):
        lines = _shown(name, clusters, monkeypatch, 80, "never").splitlines()
        assert "stuck-0" in lines[0]
        assert len(lines) <= 24, name


def test_a_cause_is_stated_once_for_forty_partitions(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _shown("lso-forty-of-one-producer", clusters, monkeypatch, 80, "never")
    assert text.startswith("40 partitions: LSO stuck, blocked by producer 9, epoch 1\n")
    assert text.count("find-hanging") == 1
    monkeypatch.chdir(clusters)
    complete = run("lso", "--quiet", "--all", *FORGED, "held").text
    assert [f"held-{number} on" in complete for number in range(STUCK)] == [True] * STUCK


@pytest.mark.parametrize("command", ["transactions", "scan", "producers"])
def test_what_forty_partitions_have_in_common_is_shown_once(
    command: str, clusters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clusters)
    monkeypatch.setenv("COLUMNS", "120")
    words = (command, "--quiet", *FORGED, "held")
    lines = run(*words).lines
    assert len(lines) < 10
    assert lines[0].endswith("held-0 on broker 1") or lines[0].startswith("held-0 on broker 1: 2 ")
    assert [line.strip() for line in lines[-3:]] == [
        "the same in 39 more partitions: held-1 to held-39 on broker 1",
        "in full:",
        f"$ kforensics {command} --all --as-of {FORGED[1]} --quiet held",
    ]
    complete = run(*words, "--all").text
    assert "the same in" not in complete
    assert [f"held-{number} on broker 1" in complete for number in range(STUCK)] == [True] * STUCK


def test_partitions_with_the_same_faults_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kind of fault the first partition is shown in full, as long as there is room for it."""
    monkeypatch.chdir(ROOT)
    words = ("verify", "--quiet", "--as-of", AS_OF, "sample_logs/damaged/states")
    lines = run(*words).lines
    assert "18 partitions: critical log-missing" in lines
    counted = [re.match(r"(\d+) partitions?: (?:critical|error|warning|info)", line) for line in lines]
    assert len([match for match in counted if match]) > 3
    assert lines[-1] == f"  $ kforensics verify --all --as-of {AS_OF} --quiet sample_logs/damaged/states"
    assert run(*words, "--all").text.count(" log-missing: ") == 19


def test_what_two_findings_need_is_stated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that hangs blocks the last stable offset, too: the remedy of the hang ends both."""
    monkeypatch.chdir(ROOT)
    lines = run("lso", "--quiet", "--as-of", AS_OF, V2 / "hanging-0").lines
    assert sum("--topic hanging --partition 0 --start-offset 3" in line for line in lines) == 1
    assert "           do: see txn-hanging below" in lines
    text = run("lso", "--quiet", "--as-of", "2026-11-25", "sample_logs/consume-transform-produce").text
    assert text.count("for the other partitions, run the same commands") == 1  # those of pending-app are not hanging


def test_all_lists_every_partition(tmp_path: Path) -> None:
    for number in range(5):
        forge(tmp_path, "plain @0-4 ts 1700000000000", partition=number)
    for command in ("lso", "transactions", "producers", "scan", "verify"):
        words = (command, "--quiet", *FORGED, tmp_path)
        (closing,) = run(*words).lines
        assert closing.startswith("5 partitions: "), command
        complete = run(*words, "--all").lines
        assert sum(" on broker 1" in line for line in complete if not line.startswith(" ")) == 5, command


@pytest.mark.parametrize("command", ["lso", "transactions", "producers", "scan", "verify"])
def test_partitions_without_rows_are_one_line_and_the_only_one_is_named(command: str, tmp_path: Path) -> None:
    for number in range(2):
        forge(tmp_path, "plain @0-4 ts 1700000000000", partition=number)
    (closing,) = run(command, "--quiet", *FORGED, tmp_path).lines
    assert closing.startswith("2 partitions: ")
    assert run(command, "--quiet", *FORGED, next(tmp_path.rglob("t-1"))).lines[0].count("t-1") == 1


SHELL = re.compile(r" *(?:(?:check|do):? +)?\$ (.*)")
# Samples and options of commands that show remedies.
REMEDIES = [
    *(("audit", *v, sample) for v in ((), ("-v",)) for sample in ("damaged/states", "producer-expiry")),
    ("audit", "duplicates"),
    *(("audit", "-v", sample) for sample in ("consume-transform-produce", "unclean-election")),
    *(("lso", sample) for sample in ("deletion", "transactions-v2")),
    *(("verify", sample) for sample in ("damaged/batches", "damaged/states")),
    ("explain", "--topic", "hanging", "--partition", "0", "--offset", "3", "transactions-v2"),
    ("explain", "--topic", "flipped-crc-bit", "--partition", "0", "--offset", "6", "damaged/batches"),
]


@pytest.mark.parametrize("words", REMEDIES, ids=" ".join)
def test_no_command_in_text_is_broken(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands at a width are those of a screen without an end: a terminal copies them as one line."""
    monkeypatch.chdir(ROOT)
    *given, sample = words
    commands: dict[int, set[str]] = {}
    for width in (80, 100, 9_999):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = run(*given, "--color", "never", "--as-of", AS_OF, Path("sample_logs") / sample).lines
        assert [line for line in lines if line.count("`") % 2] == []
        commands[width] = {match[1] for match in map(SHELL.fullmatch, lines) if match}
        commands[width] |= {command for line in lines for command in re.findall("`([^`]*)`", line)}
    endless = {command for command in commands.pop(9_999) if "--verbose" not in command}
    assert endless or words[0] == "explain"  # which says what happened, not what to do
    for width, shown in commands.items():
        assert {command for command in shown if "--verbose" not in command} == endless, width


def test_a_verbose_audit_states_each_command_of_a_remedy_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = run("audit", "-q", "-v", "--as-of", AS_OF, V2 / "hanging-0").text
    assert "`" not in text
    for part in text.split("\n\n")[1:]:
        commands = [line.strip().removeprefix("check").removeprefix("do").strip() for line in part.splitlines()]
        shown = [line for line in commands if line.startswith("$ ")]
        assert len(shown) == len({*shown})


def test_two_clusters_with_the_same_producer_id_have_two_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transactions of two clusters have nothing to do with each other, whatever their producer ids."""
    monkeypatch.chdir(ROOT)
    words = ("lso", "--quiet", "--as-of", AS_OF, "--topic", "hanging")
    text = run(*words, "sample_logs/transactions-v2", "sample_logs/transactions-v1").text
    assert text.count("blocked by producer") == 2
    assert "2 partitions: LSO stuck" not in text


PASTED = {
    "lso": ("lso", "--as-of", AS_OF, "--topic", "h*", "--topic", "!x y", "--partition", "0", "--wide"),
    "transactions": ("transactions", "-qv", "--no-progress", "--as-of", AS_OF, "--state", "committed", "--state=open"),
    "audit": (
        "audit",
        "--set",
        "transaction.max.timeout.ms=60000",
        "--alone",
        "--code",
        "lso-stuck",
        "--severity=info",
    ),
    "audit-store": ("audit", "--checksums", "--format", "text", "-q", "--processes", "1", "--all"),
}


@pytest.mark.parametrize("name", PASTED)
@pytest.mark.parametrize("option", ["--all", "--verbose", "--wide", "--format"])
def test_the_command_that_shows_the_rest_says_what_was_said(name: str, option: str, tmp_path: Path) -> None:
    """The words of a command and of the one that it prints have the same values, but for what shows the rest."""
    output = () if name == "audit" else ("--output", str(tmp_path / "results"))
    command, given = _parsed(*PASTED[name], *output, "--", "-odd name", "odd")
    parameters = signature(command.callback).parameters.values()
    screen = Screen(command=repeatable(PASTED[name][0], given, parameters))
    (line,) = screen.rest(option, *(() if option != "--format" else ("ndjson",)))
    assert line.startswith(f"  $ kforensics {PASTED[name][0]} {option} ")
    _, pasted = _parsed(*shlex.split(line.removeprefix("  $ kforensics ")))
    shown: dict[str, dict[str, Any]] = {
        "--all": {"show_all": True},
        "--verbose": {"verbose": 1},
        "--wide": {"wide": True},
    }
    not_repeated = {"output": None, "checksums": False, "output_format": "text"}
    defaults = {each.name: each.default for each in parameters}
    assert pasted["paths"] == ["-odd name", "odd"]
    expected = {**given, **not_repeated, **shown.get(option, {"output_format": "ndjson"})}
    assert {**defaults, **pasted} == {**defaults, **{key: expected[key] for key in expected if key in defaults}}


def _parsed(name: str, *words: str) -> tuple[Any, dict[str, Any]]:
    """Return a command, and the values of its parameters that some words give."""
    command: Any = get_command(import_module(f"kforensics.cli.{name}").app)
    return command, command.make_context(name, [*words]).params


def test_the_command_under_a_report_shows_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one incident of a selection is on the screen without an end that the printed command does not show."""
    for number in range(25):
        forge(tmp_path, "D 9 1 0-4 @0-4 T ts 1700000100000", topic="a b", partition=number)
        text = f"D {number} 1 0-4 @0-4 T ts 1700000100000"
        forge(tmp_path, text, topic="other", partition=number, log_append_time=True)
    monkeypatch.setenv("COLUMNS", "80")
    words = ("audit", "-q", *FORGED, "--topic", "other", "--partition", "1-23", "--output", tmp_path.parent / "s")
    first = run(*words, tmp_path)
    (command,) = (line for line in first.lines if line.startswith("  $ ") and " --all " in line)
    rest = run(*shlex.split(command.removeprefix("  $ kforensics ")))
    assert first.lines[0] == rest.lines[0]
    assert [len([line for line in each.lines if line.startswith("CRITICAL stuck")]) for each in (first, rest)] == [
        20,
        23,
    ]


def test_on_spark_the_command_runs_on_spark() -> None:
    given = Screen(command=(("audit",), ("--as-of", "5"), ("s3://logs",)))
    assert [*_on_spark(given).rest("--all")] == ["  $ kforensics audit --all --engine spark --as-of 5 s3://logs"]
    assert _on_spark(_on_spark(given)) == _on_spark(given)


def test_no_color_and_pipes_have_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert ESCAPE not in run(*CASES["lso"]).text
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE in run("lso", "--color", "always", *CASES["lso"][1:]).text


def test_a_pipe_has_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    (line,) = (line for line in run(*CASES["lso"]).lines if "critical lso-stuck: LSO stuck at 3" in line)
    assert line.endswith("2 ended and 0 other open transactions are blocked.")


def test_the_lines_of_a_label_are_below_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(ROOT)
    lines = run("audit", "-q", "--as-of", "2026-11-22", "sample_logs/duplicates/broker-1/import-0").lines
    (number,) = (number for number, line in enumerate(lines) if line.startswith("  do      Consumers"))
    assert lines[number + 1] == "          results, and check failovers and producer.id.expiration.ms."


def test_what_is_left_out_of_shown_partitions_is_not_called_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lines = run("cluster", "-q", "sample_logs/unclean-election").lines
    assert lines[-2:] == ["in full:", "  $ kforensics cluster --all --quiet sample_logs/unclean-election"]


def test_the_replica_that_shows_an_idle_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One out of sync counts until it fell out of sync; the finding counts with the replica that was the last one."""
    monkeypatch.chdir(ROOT)
    sample = "sample_logs/consume-transform-produce/broker"
    words = ("lso", "--quiet", "--as-of", "2026-11-22T02:00", "--topic", "__consumer_offsets", "--partition", "0")
    left, last = run(*words, f"{sample}-1").text, run(*words, f"{sample}-2").text
    assert "idle for 9.15 s when this replica fell out of sync\n" in left
    assert "It has been idle for 1 h 58 min. The replica on broker 2 shows that.\n" in left
    assert "idle for 1 h 58 min\n" in last
    assert "fell out of sync" not in last
    assert "shows that" not in last


def test_a_late_transaction_that_is_in_order_has_a_next_step(tmp_path: Path) -> None:
    """Its coordinator, on a broker that was stopped, will abort it; one that hangs, or is young, has no such line."""
    for minute, step in ((15, False), (59, True)):
        folder = shutil.copytree(ROOT / V2, tmp_path / str(minute))
        for path in (folder, *folder.rglob("*")):
            os.utime(path, ns=(1_795_262_400 * 10**9 + minute * 60 * 10**9,) * 2)  # from 12:00 on
        ended = run("lso", "--quiet", folder / "open-0")
        assert ended.code == 0
        assert ("\n  do: Do not abort it in this partition alone: its coordinator was stopped" in ended.text) is step
        assert ("describe --transactional-id open-first" in ended.text) is step
        assert "\n  do: " not in run("lso", "--quiet", folder / "hanging-0").text
        assert "its coordinator was stopped" not in run("lso", "--quiet", "--alone", folder / "open-0").text


def test_a_reset_in_force_has_a_next_step_and_its_cause_is_stated_once() -> None:
    """One after which the group has committed more has none: what it has processed since must not be undone."""
    text = run("groups", "--quiet", "--group", "readers", ROOT / "sample_logs/legacy-magic-1").text
    assert text.count("lowered by a member; its only member reader-") == 1
    assert "\n  do: No action, if it was intended. To continue at offset 40 after all, stop its members" in text
    assert text.count("--to-offset 40") == 2
    later = run("groups", "--quiet", "--group", "member", ROOT / "tests/data/group-resets/4.4.0").text
    assert later.count("lowered by a member; its only member member-") == 1
    assert "\n  do: " not in later


def test_a_group_without_a_lag_names_what_would_show_it() -> None:
    """With the logs of all brokers there is a lag, and no such line."""
    sample = ROOT / "sample_logs/unclean-election"
    more = "name the log directories of brokers that have them, too\n"
    for words in ((), ("--group", "readers")):
        alone = run("groups", "--quiet", *words, sample / "broker-1").text
        assert alone.endswith(more)
        assert "(+)" not in alone
        assert more not in run("groups", "--quiet", *words, *(sample / f"broker-{one}" for one in (1, 2, 3))).text
