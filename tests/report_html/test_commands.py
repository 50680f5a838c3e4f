"""Remedies are split into text and complete commands that are safe to copy into a shell."""

from __future__ import annotations

import re
import subprocess

import pytest

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.core.commands import export_command, filled_in, for_brokers
from kforensics.report_html.incident_cards import split_commands

REMEDIES = {
    code.name: code.remedy
    for check in ALL_CHECKS
    for code in check.codes.values()
    if "kafka-" in code.remedy and "--bootstrap-server" in code.remedy
}
VALUES = {
    "topic": "orders.v1-x",
    "partition": 3,
    "first_offset": 12,
    "producer_id": 7,
    "producer_epoch": 1,
    "coordinator_epoch": 0,
    "transactional_id": "payments-1",
}


def words_in_bash(command: str) -> list[str]:
    """Return the arguments that bash passes on, the name of the command first."""
    script = f'f() {{ printf "%s\\0" "$@"; }}; f {command}'
    environment = {"BOOTSTRAP": "broker:9092", "PATH": ""}
    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=True, env=environment, text=True)
    assert done.stderr == ""
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("name", REMEDIES)
def test_every_command_of_every_remedy_is_found(name: str) -> None:
    remedy = filled_in(REMEDIES[name], VALUES)
    parts = list(split_commands(remedy, "orders.v1-x"))
    assert "".join(text for text, _ in parts) == remedy.replace("`", "")
    commands = [text for text, is_command in parts if is_command]
    assert len(commands) == len(re.findall(r"kafka-(transactions|topics)\.sh --bootstrap-server", remedy))
    # No option is left outside of commands.
    assert not [text for text, is_command in parts if not is_command and " --" in text]
    for command in commands:
        arguments = words_in_bash(command)
        assert arguments[0] in {"kafka-transactions.sh", "kafka-topics.sh"}
        assert arguments[1:3] == ["--bootstrap-server", "broker:9092"]
        assert all(arguments[index + 1 :] for index, argument in enumerate(arguments) if argument.startswith("--"))


HOSTILE = [
    "$(reboot)",
    "`reboot`",
    "a b",
    "x;y",
    "it's",
    "\x1b[2J",
    "a\nb",
    "ü",
    "",
    "{topic}",
    "\\",
    '"$BOOTSTRAP"',
    "!!",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_an_id_is_quoted_for_the_shell(name: str) -> None:
    remedy = filled_in(REMEDIES["txnlog-ongoing-overdue"], {"transactional_id": name, "topic": "'; reboot"})
    remedy = for_brokers(remedy, "a:1")
    describe, terminate = (text for text, is_command in split_commands(remedy, "__transaction_state") if is_command)
    assert words_in_bash(describe)[-2:] == ["--transactional-id", name]
    assert words_in_bash(terminate)[-2:] == ["--transactionalId", name]


def test_a_tool_does_not_take_a_value_for_an_option() -> None:
    remedy = filled_in(REMEDIES["txnlog-ongoing-overdue"], {"transactional_id": "--help"})
    describe, terminate = (text for text, is_command in split_commands(remedy, "__transaction_state") if is_command)
    assert words_in_bash(describe)[-1] == "--transactional-id=--help"
    assert words_in_bash(terminate)[-1] == "--transactionalId=--help"


@pytest.mark.parametrize("name", ["/data/it's `x`-0", "-rf", "a b", "/x/{path}"])
def test_a_path_is_quoted_for_the_shell(name: str) -> None:
    remedy = filled_in(f"Save it: {export_command(name, 3, 4)}.", {"path": "y", "topic": "t"})
    (command,) = (text for text, is_command in split_commands(remedy, "t") if is_command)
    assert words_in_bash(command)[-1] in {name, f"./{name}"}


@pytest.mark.parametrize("part", ["reboot", "kforensics; reboot", "kafka-x.sh $(reboot)", "kafka-x.sh $'\\'' reboot '"])
def test_another_code_than_a_command_is_not_to_be_copied(part: str) -> None:
    assert not [text for text, is_command in split_commands(f"Do `{part}`.", "t") if is_command]


def test_a_full_stop_after_a_command_is_not_part_of_it() -> None:
    remedy = "Do `kafka-transactions.sh --bootstrap-server a:9092 abort --topic a.b --partition 0`. Then wait."
    assert [text for text, is_command in split_commands(remedy, "a.b") if is_command] == [
        "kafka-transactions.sh --bootstrap-server a:9092 abort --topic a.b --partition 0"
    ]


@pytest.mark.parametrize("topic", ["a; rm -rf ~", "$(id)", "a b", "x\ny", "`id`", "a/../b", "ü", "", "x" * 250])
def test_an_illegal_topic_name_is_never_in_a_command(topic: str) -> None:
    remedy = REMEDIES["lso-stuck"].replace("{topic}", topic)
    assert list(split_commands(remedy, topic)) == [(remedy, False)]
