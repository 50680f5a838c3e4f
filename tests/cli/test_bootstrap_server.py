"""The address of the brokers in the commands of remedies, in every output that has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.command import SAMPLES, run, sentence
from tests.report_html.unpacked import everything

SAMPLE = SAMPLES / "transactions-v2"
OUTPUTS = [("lso",), ("verify",), ("audit",), ("audit", "--format", "ndjson"), ("verify", "--format", "ndjson")]
VARIABLE = '"$BOOTSTRAP"'


def output(*words: str, server: str | None = None) -> str:
    given = [] if server is None else ["--bootstrap-server", server]
    paths = [SAMPLES / "state-lost-after-stop"] if words[0] == "verify" else [SAMPLE]
    return run(*words, "--as-of", "2026-11-21T14:00", "--fail-on", "never", *given, *paths).text.replace('\\"', '"')


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_commands_name_the_brokers(words: tuple[str, ...]) -> None:
    """Without an address they name a shell variable; nothing else changes."""
    plain, filled = output(*words), output(*words, server="broker-1:9092,[::1]:9093")
    assert words[0] == "verify" or VARIABLE in plain
    assert not re.search(r"<[a-z_: ]+>", plain)
    repeated = " --bootstrap-server 'broker-1:9092,[::1]:9093' --fail-on"  # in the command that shows the rest
    assert filled.replace(repeated, " --fail-on") == plain.replace(VARIABLE, "'broker-1:9092,[::1]:9093'")


def test_the_environment_has_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORENSICS_BOOTSTRAP", "one:9092")
    assert "--bootstrap-server one:9092 " in output("lso")
    assert "--bootstrap-server two:9092 " in output("lso", server="two:9092")


@pytest.mark.parametrize("server", ["broker", "a:1;reboot", "$(reboot):1", "<host:port>", "a:1,", "a:1 b:2"])
def test_what_is_no_address_is_refused(server: str) -> None:
    expected = f"--bootstrap-server {server!r} is not an address; write HOST:PORT, several separated by commas"
    assert expected in sentence(run("lso", "--bootstrap-server", server, SAMPLE))


def test_a_store_has_the_variable_and_a_report_of_it_the_address(tmp_path: Path) -> None:
    """Stores of different users are equal."""
    store, page = tmp_path / "store", tmp_path / "report.html"
    run("audit", "--fail-on", "never", "--output", store, "--bootstrap-server", "a:1", SAMPLE)
    audit: Any = kforensics.audit(SAMPLE)
    remedies = [text for text in audit.findings["remedy"].to_pylist() if text and "--bootstrap-server" in text]
    assert remedies
    assert all(text.count(VARIABLE) == text.count("--bootstrap-server") for text in remedies)
    run("report", store, "--output", page, "--bootstrap-server", "b:2")
    text = everything(page)
    assert "--bootstrap-server b:2 " in text
    assert "$BOOTSTRAP" not in text
    assert "a:1 " not in re.sub(r"audit[^<]*", "", text)
