"""Which topic is the mirror of which."""

from kforensics.forensics.mirrors.mirror_names import MirroredTopic, mirrored_topics, sync_alias


def _names(topics: list[str], targets: list[str]) -> list[MirroredTopic]:
    return [*mirrored_topics(topics, targets)]


def test_a_name_with_an_alias_counts_before_an_equal_one() -> None:
    assert _names(["orders"], ["orders", "eu.orders"]) == [("orders", "eu.orders", "eu")]


def test_an_equal_name_is_a_mirror_if_there_is_no_other() -> None:
    assert _names(["orders", "alone"], ["orders"]) == [("orders", "orders", None)]


def test_the_longest_topic_is_the_original() -> None:
    assert _names(["orders", "b.orders"], ["a.b.orders", "c.orders"]) == [
        ("b.orders", "a.b.orders", "a"),
        ("orders", "c.orders", "c"),
    ]


def test_internal_topics_are_no_mirrors() -> None:
    internal = ["__consumer_offsets", "heartbeats", "mm2-offsets.eu.internal", "eu.checkpoints.internal"]
    assert _names(internal, internal) == []


def test_only_topics_of_offset_syncs_have_an_alias() -> None:
    assert [sync_alias(name) for name in ("mm2-offset-syncs.a.b.internal", "mm2-offsets.a.internal")] == ["a.b", None]
