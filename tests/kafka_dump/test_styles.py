import dataclasses

import pytest

from kforensics.kafka_dump.decoders import class_decoder
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import PLAIN_STYLE, STYLES, DumpStyle
from lab.golden.tools import TOOLS, DumpTool

PACKAGES = ("org.apache.kafka.tools.api", "kafka.serializer")


def _loads(class_name: str, style: DumpStyle) -> bool:
    try:
        class_decoder(class_name, style.name)
    except JavaError:
        return False
    return True


def test_a_style_for_every_tool() -> None:
    """The newest tool comes first, and each style has the release that it imitates."""
    assert [(style.name, style.release) for style in STYLES.values()] == [
        (tool.version.rpartition(".")[0], tool.version) for tool in TOOLS
    ]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.version)
def test_options(tool: DumpTool) -> None:
    """Options and decoder classes are those that the lab found in the released tool."""
    style = next(style for style in STYLES.values() if style.release == tool.version)
    assert {f"--{name}" for name in style.options if name.endswith("-decoder")} == tool.decoders
    assert {package for package in PACKAGES if _loads(f"{package}.StringDecoder", style)} == set(tool.class_decoders)
    assert ("max-bytes" in style.options) == style.reads_checkpoints == tool.limits_bytes
    assert ("skip-record-metadata" in style.options) == tool.skips_metadata


def test_every_field_is_described() -> None:
    """The docstring has a sentence for each field."""
    described = [line.split(":")[0].strip() for line in (DumpStyle.__doc__ or "").splitlines() if ": " in line]
    assert {field.name for field in dataclasses.fields(DumpStyle)} == set(described)


def test_plain_is_4_3_without_its_bugs() -> None:
    """Nothing else differs."""
    newest = STYLES["4.3"]
    names = {
        field.name
        for field in dataclasses.fields(DumpStyle)
        if getattr(PLAIN_STYLE, field.name) != getattr(newest, field.name)
    }
    assert names == {"name", "release", "first_gap_from_minus_one", "reads_log_to_end"}
