import pytest

from kforensics.parsers.messages import group, metadata
from kforensics.parsers.messages.releases import in_releases, release_key
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version, layout, version_range
from tests.parsers.messages.tables import MESSAGES


def test_a_layout_has_the_fields_of_its_release() -> None:
    names = {
        release: [field.name for field in layout(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, release).fields]
        for release in ("3.7.2", "4.4")
    }
    assert "assignors" in names["3.7.2"]
    assert "assignors" not in names["4.4"]
    assert names["4.4"][-1] == "classicMemberMetadata"


def test_a_layout_has_the_highest_version_of_its_release() -> None:
    highest = {
        release: layout(metadata.REGISTER_BROKER_RECORD, release).highest_version for release in ("2.8", "3.6", "4.4")
    }
    assert highest == {"2.8": 0, "3.6": 2, "4.4": 4}


def test_the_preview_of_kraft_had_no_flexible_encoding() -> None:
    assert layout(metadata.TOPIC_RECORD, "2.8.2").flexible is None
    assert layout(metadata.TOPIC_RECORD, "3.0").flexible == "0+"


def test_a_release_that_does_not_know_a_message_has_the_layout_of_the_last_that_did() -> None:
    assert layout(metadata.QUOTA_RECORD, "4.4").fields == layout(metadata.QUOTA_RECORD, "2.8").fields


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1,2"])
def test_a_version_range_is_checked(text: str) -> None:
    with pytest.raises(ValueError, match="not a version range"):
        version_range(text)


def test_releases_compare_as_numbers() -> None:
    assert release_key("3.9") < release_key("3.10")
    assert in_releases("4.0.1", "4.0", "4.0")
    assert not in_releases("3.9", "3.10", None)


def test_all_versions_include_versions_below_zero() -> None:
    assert has_version("0+", -1)
    assert not has_version("1+", -1)
    assert not has_version(None, 0)


@pytest.mark.parametrize("message", MESSAGES, ids=[message.name for message in MESSAGES])
def test_no_release_has_two_fields_of_one_name_or_tag(message: MessageSchema) -> None:
    for release in ("2.7", "2.8", "3.0", "3.7", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4"):
        _check(layout(message, release).fields)


def _check(fields: tuple[Field, ...]) -> None:
    names = [field.name for field in fields]
    tags = [field.tag for field in fields if field.tag is not None]
    assert len(set(names)) == len(names)
    assert len(set(tags)) == len(tags)
    for field in fields:
        assert bool(field.fields) == field.element_type[0].isupper()
        _check(field.fields)
