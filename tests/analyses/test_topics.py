"""A topic that does not exist is a usage error that names similar ones, in every command."""

from __future__ import annotations

import pytest

from kforensics.analyses.topics import check_topics
from kforensics.errors import UsageError
from tests.command import SAMPLES, run, sentence

BROKER = SAMPLES / "transactions-v2" / "broker-1"
COMMANDS = {
    **dict.fromkeys(
        ["audit", "scan", "verify", "lso", "transactions", "producers", "duplicates", "keys", "settings"], ()
    ),
    "explain": ("--offset", 0),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_topic_that_no_partition_has_is_a_usage_error(command: str) -> None:
    ended = run(command, *COMMANDS[command], "--topic", "comitted", BROKER)
    assert "no topic 'comitted'; did you mean committed?" in sentence(ended)
    assert ended.code == 2


def test_one_of_several_topics_does_not_exist() -> None:
    assert "no topic 'nosuch'" in sentence(run("lso", "--topic", "open", "--topic", "nosuch", BROKER))


def test_topics_that_exist_are_no_error() -> None:
    check_topics(["a"], ["a", None, "b"])
    check_topics([], [])


@pytest.mark.parametrize(
    ("topic", "known", "hint"),
    [
        ("Orders", ["orders", "b"], "did you mean orders?"),
        ("nosuch", ["b", "a"], "there are a, b"),
        ("nosuch", [f"t{number:02}" for number in range(12)], "t09, and 2 others"),
        ("orders-12", ["orders", "orders-x"], "did you mean --topic orders --partition 12?"),
        ("orders-x", ["orders"], "did you mean orders?"),
        ("orders-1", ["orders-2"], "did you mean orders-2?"),
        ("nosuch", [None], "no partition under the paths has a topic"),
    ],
)
def test_what_there_is_instead(topic: str, known: list[str | None], hint: str) -> None:
    with pytest.raises(UsageError, match=f"no topic '{topic}'; ") as error:
        check_topics([topic], known)
    assert hint in str(error.value)
