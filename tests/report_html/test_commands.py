"""Commands are found in what is to be done, whole, and only where a shell would take them for what they are."""

from __future__ import annotations

import shlex

import pytest

from kforensics.forensics.checks.all_checks import EVERY_FAMILY
from kforensics.report_html.commands import pieces

REMEDIES = {
    code.name: code.remedy
    for family in EVERY_FAMILY
    for code in family.CODES.values()
    if "kafka-" in code.remedy and "--bootstrap-server" in code.remedy
}
FIGURES = {
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
    for figure, value in FIGURES.items():
        remedy = remedy.replace(figure, value)
    found = list(pieces(remedy, "orders.v1-x"))
    assert "".join(text for text, _ in found) == remedy
    commands = [text for text, is_command in found if is_command]
    assert len(commands) == remedy.count("kafka-transactions.sh --bootstrap-server")
    # Outside of commands no option is left behind.
    assert not [text for text, is_command in found if not is_command and " --" in text]
    for command in commands:
        words = shlex.split(command.replace("<", "'<").replace(">", ">'"))
        assert words[0].endswith(".sh")
        assert all(words[at + 1 :] for at, word in enumerate(words) if word.startswith("--"))


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "x;y", "--help", "it's", "\x1b[2J", "ü", ""])
def test_an_id_is_offered_as_a_shell_takes_it_or_not_at_all(name: str) -> None:
    remedy = REMEDIES["txnlog-ongoing-overdue"].replace("{transactional_id}", shlex.quote(name))
    (command,) = (text for text, is_command in pieces(remedy, "__transaction_state") if is_command)
    words = shlex.split(command.replace("<", "'<").replace(">", ">'"))
    given = words[words.index("--transactional-id") + 1 :] if "--transactional-id" in words else [name]
    assert given == [name]


def test_a_full_stop_behind_a_command_is_not_of_it() -> None:
    remedy = "Do kafka-transactions.sh --bootstrap-server <host:port> abort --topic a.b --partition 0. Then wait."
    assert [text for text, is_command in pieces(remedy, "a.b") if is_command] == [
        "kafka-transactions.sh --bootstrap-server <host:port> abort --topic a.b --partition 0"
    ]


@pytest.mark.parametrize("topic", ["a; rm -rf ~", "$(id)", "a b", "x\ny", "`id`", "a/../b", "ü", "", "x" * 250])
def test_a_topic_that_no_broker_allows_is_never_in_a_command(topic: str) -> None:
    remedy = REMEDIES["lso-stuck"].replace("{topic}", topic)
    assert list(pieces(remedy, topic)) == [(remedy, False)]
