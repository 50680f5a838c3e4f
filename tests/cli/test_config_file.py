"""Defaults from ``kforensics.toml``: which file, what counts first, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.command import CLASSIC, SAMPLES, Ended, run, sentence

BROKER = SAMPLES / "transactions-v2" / "broker-1"
AS_OF = ("--as-of", "2026-11-21T14:00")
TIMEOUT = "transaction.max.timeout.ms"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with an empty home directory; return the folder of the user's configuration."""
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    (home / ".config" / "kforensics").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    for name in ("KFORENSICS_CONFIG", "KFORENSICS_BOOTSTRAP", "XDG_CONFIG_HOME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return home / ".config" / "kforensics"


def write(path: str | Path, *lines: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))
    return file


def topics(*words: object) -> set[str]:
    return {row["topic"] for row in run("lso", "-q", *AS_OF, "--format", "ndjson", *words, BROKER).objects}


def timeout(*words: object) -> tuple[str, str]:
    rows = run("settings", "-q", *AS_OF, "--format", "ndjson", *words, BROKER).objects
    return next((row["value"], row["source"]) for row in rows if row["name"] == TIMEOUT)


def error_of(*lines: str, command: str = "lso") -> str:
    write("kforensics.toml", *lines)
    return sentence(run(command, *AS_OF, BROKER)).removeprefix("kforensics: ")


def test_the_first_file_counts_alone(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each place is added in turn, the last one first."""
    every = topics()
    write(home / "kforensics.toml", '[lso]\ntopic = ["open"]')
    assert topics() == {"open"} != every
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert topics() == every
    write(tmp_path / "xdg" / "kforensics" / "kforensics.toml", '[lso]\ntopic = ["hanging"]')
    assert topics() == {"hanging"}
    write("kforensics.toml", "[options]\nwide = true")
    assert topics() == every
    monkeypatch.setenv("KFORENSICS_CONFIG", str(write("named.toml", '[lso]\ntopic = ["ope?"]')))
    assert topics() == {"open"}
    assert topics("--config", write("given.toml", '[lso]\ntopic = "hanging"')) == {"hanging"}
    assert topics("--no-config") == every


def test_the_command_line_counts_before_the_environment_and_that_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(*words: object) -> str:
        return run("lso", "-q", *AS_OF, "--fail-on", "never", *words, BROKER).text

    assert '--bootstrap-server "$BOOTSTRAP" ' in shown()
    write("kforensics.toml", '[options]\nbootstrap-server = "file:1"\ncolor = "always"')
    assert "--bootstrap-server file:1 " in shown("--color", "never")
    assert "\x1b[" in shown()
    monkeypatch.setenv("KFORENSICS_BOOTSTRAP", "environment:1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "--bootstrap-server environment:1 " in shown()
    assert "\x1b[" not in shown()
    assert "--bootstrap-server line:1 " in shown("--bootstrap-server", "line:1")


def test_the_table_of_a_command_counts_before_that_of_all() -> None:
    assert run("lso", *AS_OF, BROKER).code == 1
    write("kforensics.toml", '[options]\nfail-on = "never"\n[verify]\nfail-on = "critical"')
    assert run("lso", *AS_OF, BROKER).code == 0
    write("kforensics.toml", '[lso]\nfail-on = "error"\n[options]\nfail-on = "never"')
    assert run("lso", *AS_OF, BROKER).code == 1
    assert run("lso", *AS_OF, "--fail-on", "never", BROKER).code == 0


@pytest.mark.parametrize("name", [TIMEOUT, f'"{TIMEOUT}"'], ids=["dots", "quoted"])
def test_settings_count_one_by_one(name: str) -> None:
    """The command line gives some, a broker's file others, and the configuration file the rest."""
    properties = write("server.properties", f"{TIMEOUT}=2000000")
    assert timeout()[1] not in ("--set", "[settings] of kforensics.toml")
    write("kforensics.toml", "[settings]", f"{name} = 3000000", 'producer.id.expiration.ms = "5000000"')
    assert timeout() == ("3000000", "[settings] of kforensics.toml")
    assert timeout("--set", f"{TIMEOUT}=1000000") == ("1000000", "--set")
    assert timeout("--set", "retention.ms=1000000") == ("3000000", "[settings] of kforensics.toml")
    assert timeout("--server-properties", properties) == ("2000000", str(properties))
    write("kforensics.toml", f'[options]\nserver-properties = "{properties}"\n[settings]\n{name} = 3000000')
    assert timeout() == ("3000000", "[settings] of kforensics.toml")


def test_verbose_output_names_the_file_and_the_command_for_the_rest_has_it() -> None:
    assert "configuration:" not in run("lso", "-v", *AS_OF, BROKER).err
    write("other.toml", '[options]\nverbose = 1\ntz = "Europe/Berlin"')
    ended = run("transactions", *AS_OF, "--config", "other.toml", BROKER)
    assert ended.err.startswith("configuration: other.toml\n")
    (rest,) = (line for line in ended.lines if "$ kforensics transactions --wide" in line)
    assert "--tz Europe/Berlin" in rest
    assert "--config other.toml" in rest


@pytest.mark.parametrize("words", [(), ("--max-bytes", "+100000")], ids=["plain", "converted by typer"])
def test_dump_has_defaults_too(words: tuple[str, ...], tmp_path: Path) -> None:
    write("kforensics.toml", '[dump]\nlimit = 1\nprint-data-log = true\n[options]\nfail-on = "never"')
    assert run("dump", *words, CLASSIC).lines == run("dump", "--limit", "1", "--print-data-log", CLASSIC).lines
    every = run("dump", "--print-data-log", "--no-config", CLASSIC).lines
    assert run("dump", *words, "--limit", "9", CLASSIC).lines == every
    assert run("dump", *words, "--print-data-log", "--no-config", CLASSIC).lines == every
    assert run("dump", *words, CLASSIC).lines == every[:4]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["x = "], "kforensics.toml is not TOML: Invalid value (at"),
        (['fail-on = "never"'], "kforensics.toml: [fail-on] is no table of this file"),
        (
            ["settings = 1"],
            "kforensics.toml: settings is an integer, not a table; write [settings] on a line of its own",
        ),
        (["[adit]"], "kforensics.toml: [adit] is no table of this file; did you mean audit?"),
        (["[options]", "fail-no = 1"], "[options] fail-no is no option of any command; did you mean fail-on?"),
        (["[audit]", "recods = true"], "[audit] recods is no option of kforensics audit; did you mean records or"),
        (["[audit]", "history = true"], "[audit] history is no option of kforensics audit;"),
        (["[lso]", "config = 'x'"], "[lso] config is no option of kforensics lso"),
        (["[options]", "fail-on = 1"], "kforensics.toml: [options] fail-on is 1, not a string; correct it, or ignore"),
        (["[audit]", "records = 'yes'"], "[audit] records is a string, not true or false"),
        (["[audit]", "processes = 0"], "[audit] processes is 0, not an integer of at least 1"),
        (["[audit]", "processes = true"], "[audit] processes is a boolean, not an integer of at least 1"),
        (["[lso]", "topic = [1]"], "[lso] topic is an array, not an array of strings"),
        (["[options]", "as-of = 2026-11-21"], "[options] as-of is a time, not a string"),
        (
            ["[options]", "topic = ['a']"],
            "[options] topic is not for all commands; give it in the table of one, such as",
        ),
        (["[options]", "output = 'a'"], "[options] output is not for all commands"),
        (["[audit]", "output = 'a'"], "[audit] output is not taken from a file that is only found in the working"),
        (["[audit]", "conf = ['a=b']"], "[audit] conf is not taken from a file that is only found in the working"),
        (["[settings]", "transaction.max.timeout.s = 1"], "[settings] transaction.max.timeout.s: no setting"),
        (["[settings]", f"{TIMEOUT} = 1.5"], f"[settings] {TIMEOUT} is a decimal, not a string or an integer"),
        (["[settings]", f"{TIMEOUT} = '1 h'"], f"[settings] {TIMEOUT}: '1 h' is not an integer"),
        (
            ["[lso]", "fail-on = 'x'"],
            "--fail-on 'x' is not one of info, warning, error, critical, never; kforensics.toml has",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_file_with_an_error_is_refused(lines: list[str], expected: str) -> None:
    assert expected in error_of(*lines)


def test_a_default_that_the_command_refuses_is_named() -> None:
    write("kforensics.toml", '[keys]\nseverity = "error"')
    error = sentence(run("keys", *AS_OF, BROKER))
    assert error.endswith("leave it out; kforensics.toml has a default for severity, and --no-config ignores it")


@pytest.mark.parametrize("value", ["nothing.toml", "."])
def test_a_named_file_must_be_readable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = f"cannot read the configuration file {value}: "
    assert expected in sentence(run("lso", "--config", value, BROKER))
    monkeypatch.setenv("KFORENSICS_CONFIG", value)
    assert expected in sentence(run("dump", CLASSIC))
    assert run("dump", "--no-config", CLASSIC).code == 0


def test_a_file_among_the_evidence_does_not_change_the_verdict(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("kforensics.toml", '[lso]\nfail-on = "never"')
    Path("broker").symlink_to(BROKER)
    assert run("lso", *AS_OF, "broker").code == 0
    for words in ((".",), ("broker", "..")):
        ended = run("lso", *AS_OF, *words)
        assert (ended.code, "kforensics.toml is among the input files and is ignored" in ended.err) == (1, True)
    assert run("lso", *AS_OF, "--config", "kforensics.toml", ".").code == 0


def test_a_file_that_the_user_names_may_say_where_results_go() -> None:
    write("mine.toml", '[lso]\noutput = "rows"')
    ended: Ended = run("lso", *AS_OF, "--config", "mine.toml", BROKER)
    assert (ended.out, Path("rows").stat().st_size > 0) == (b"", True)


def test_the_help_and_the_version_need_no_valid_file() -> None:
    write("kforensics.toml", "x =")
    outputs: list[Any] = [run(*words) for words in (["--version"], ["--help"], ["lso", "--help"])]
    assert [(ended.code, ended.err) for ended in outputs] == [(0, "")] * 3
