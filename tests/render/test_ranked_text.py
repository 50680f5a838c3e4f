"""Partitions with the same lines are shown once, and all are named."""

from __future__ import annotations

from contextlib import closing

import pytest

from kforensics.parsers.log.log_rows import Place
from kforensics.render.partition_names import PartitionNames, partition_label
from kforensics.render.ranked_text import SHOWN, RankedText
from kforensics.render.screen import Screen

COMMAND = (("scan",), ("data",))
REST = "$ kforensics scan --all data"


def _place(topic: str, partition: int, broker_id: int | None = 1) -> Place:
    return Place(broker_id, "data", topic, partition)


def _text(partitions: list[tuple[Place, str]], *, shows_all: bool = False) -> list[str]:
    """Return the text of partitions, each with a heading and a line."""
    with closing(RankedText(Screen(shows_all=shows_all, command=COMMAND), "nothing")) as text:
        for rank, (place, line) in enumerate(partitions):
            folder = f"{place.topic}-{place.partition}"
            text.add_partition((rank,), [f"{partition_label(place, folder)}:", f"    {line}"], place, folder)
        return b"".join(text.parts()).decode().splitlines()


def test_equal_lines_are_shown_once_with_the_names_of_the_other_partitions() -> None:
    lines = _text([(_place("orders", number), "1 batch") for number in range(38)])
    assert lines == [
        "orders-0 on broker 1:",
        "    1 batch",
        "    the same in 37 more partitions: orders-1 to orders-37 on broker 1",
        "in full:",
        f"  {REST}",
    ]


def test_all_shows_each_of_them() -> None:
    lines = _text([(_place("orders", number), "1 batch") for number in range(38)], shows_all=True)
    assert lines == [line for number in range(38) for line in (f"orders-{number} on broker 1:", "    1 batch")]


def test_a_partition_with_other_lines_is_not_among_them() -> None:
    lines = _text([(_place("t", number), "2 batches" if number == 1 else "1 batch") for number in range(4)])
    assert lines[:5] == [
        "t-0 on broker 1:",
        "    1 batch",
        "    the same in 2 more partitions: t-2 to t-3 on broker 1",
        "t-1 on broker 1:",
        "    2 batches",
    ]


def test_its_own_name_makes_no_difference_and_that_of_another_partition_does() -> None:
    assert len(_text([(_place("t", number), f"at data/t-{number}/0.log") for number in range(3)])) == 5
    assert "the same" not in "".join(_text([(_place("t", 1), "see t-1"), (_place("t", 11), "see t-1")]))


def test_the_worst_of_equal_partitions_decides_about_the_place() -> None:
    with closing(RankedText(Screen(command=COMMAND), "nothing")) as text:
        for rank, (number, line) in ((5, (0, "same")), (3, (1, "other")), (1, (2, "same"))):
            text.add_partition((rank,), [f"t-{number}:", f"  {line}"], _place("t", number, None), f"t-{number}")
        lines = b"".join(text.parts()).decode().splitlines()
    assert lines[:3] == ["t-0:", "  same", "  the same in 1 more partition: t-2"]


def test_equal_partitions_that_are_not_shown_are_counted_one_by_one() -> None:
    partitions = [(_place("t", number), f"line {number}") for number in range(SHOWN)]
    partitions += [(_place("last", number), "same") for number in range(7)]
    lines = _text(partitions)
    assert lines[-3:] == ["… and 7 more partitions", "all of them:", f"  {REST}"]


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([_place("t", 4)], "t-4 on broker 1"),
        ([_place("t", number) for number in (3, 1, 2, 7)], "t-1 to t-3 on broker 1, t-7 on broker 1"),
        (
            [_place("t", number) for number in range(0, 12, 2)],
            "t-0 on broker 1, t-2 on broker 1, t-4 on broker 1 and 3 more",
        ),
        ([_place("t", 0), _place("t", 0, 2), _place("s", 1, None)], "s-1, t-0 on broker 1, t-0 on broker 2"),
        ([Place(None, None, None, None)] * 5, "stray, stray, stray and 2 more"),
    ],
)
def test_neighbors_are_a_range(places: list[Place], text: str) -> None:
    names = PartitionNames()
    for place in places:
        names.add(place, "stray")
    assert names.text() == text
