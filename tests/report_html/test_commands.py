"""Remedies are split into text and complete commands that are safe to copy into a shell."""

from __future__ import annotations

import shlex

import pytest

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.report_html.sections import split_commands

REMEDIES = {
    code.name: code.remedy
    for check in ALL_CHECKS
    for code in check.codes.values()
    if "kafka-" in code.remedy and "--bootstrap-server" in code.remedy
}
VALUES = {
    "{topic}": "orders.v1-x",
    "{partition}": "3",
    "{first_offset}": "12",
    "{producer_id}": "7",
    "{producer_epoch}": "1",
    "{transactional_id}": "payments-1",
}


@pytest.mark.parametrize("name", REMEDIES)
def test_every_command_of_every_remedy_is_found(name: str) -> None:
    remedy = REMEDIES[name]
    for placeholder, value in VALUES.items():
        remedy = remedy.replace(placeholder, value)
    parts = list(split_commands(remedy, "orders.v1-x"))
    assert "".join(text for text, _ in parts) == remedy
    commands = [text for text, is_command in parts if is_command]
    assert len(commands) == remedy.count("kafka-transactions.sh --bootstrap-server")
    # No option is left outside of commands.
    assert not [text for text, is_command in parts if not is_command and " --" in text]
    for command in commands:
        arguments = shlex.split(command.replace("<", "'<").replace(">", ">'"))
        assert arguments[0].endswith(".sh")
        assert all(arguments[index + 1 :] for index, argument in enumerate(arguments) if argument.startswith("--"))


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "x;y", "--help", "it's", "\x1b[2J", "ü", ""])
def test_an_id_is_quoted_for_the_shell(name: str) -> None:
    remedy = REMEDIES["txnlog-ongoing-overdue"].replace("{transactional_id}", shlex.quote(name))
    (command,) = (text for text, is_command in split_commands(remedy, "__transaction_state") if is_command)
    arguments = shlex.split(command.replace("<", "'<").replace(">", ">'"))
    given = arguments[arguments.index("--transactional-id") + 1 :] if "--transactional-id" in arguments else [name]
    assert given == [name]


def test_a_full_stop_after_a_command_is_not_part_of_it() -> None:
    remedy = "Do kafka-transactions.sh --bootstrap-server <host:port> abort --topic a.b --partition 0. Then wait."
    assert [text for text, is_command in split_commands(remedy, "a.b") if is_command] == [
        "kafka-transactions.sh --bootstrap-server <host:port> abort --topic a.b --partition 0"
    ]


@pytest.mark.parametrize("topic", ["a; rm -rf ~", "$(id)", "a b", "x\ny", "`id`", "a/../b", "ü", "", "x" * 250])
def test_an_illegal_topic_name_is_never_in_a_command(topic: str) -> None:
    remedy = REMEDIES["lso-stuck"].replace("{topic}", topic)
    assert list(split_commands(remedy, topic)) == [(remedy, False)]
