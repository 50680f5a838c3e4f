"""Decoded messages as JSON, byte for byte as Kafka's generated `JsonConverter` classes and Jackson print them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from kforensics.parsers.messages.codec import default_of
from kforensics.parsers.messages.doubles import double_text
from kforensics.parsers.messages.releases import NEWEST
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version, layout

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def to_json(message: MessageSchema, value: Mapping[str, Any], version: int, release: str = NEWEST) -> str:
    """Return a decoded message as JSON.

    Args:
        message: The schema of the message.
        value: The decoded fields.
        version: The version to print, which may differ from the version that was read.
        release: The release whose schema gives the names and the order of the fields.
    """
    return json_text(json_tree(message, value, version, release))


def json_tree(message: MessageSchema, value: Mapping[str, Any], version: int, release: str = NEWEST) -> dict[str, Any]:
    """Return what `to_json` prints as a tree: without other versions' fields and tagged fields with default values."""
    return _tree(layout(message, release).fields, value, version)


def _tree(fields: tuple[Field, ...], value: Mapping[str, Any], version: int) -> dict[str, Any]:
    tree = {}
    for field in fields:
        if not has_version(field.versions, version):
            continue
        default = default_of(field)
        field_value = value[field.name] if field.name in value else default()
        if field.tag is None or field_value != default():
            tree[field.name] = _branch(field, field_value, version)
    return tree


def _branch(field: Field, value: Any, version: int) -> Any:
    if not field.fields or value is None:
        return value
    if field.is_array:
        return [_tree(field.fields, element, version) for element in value]
    return _tree(field.fields, value, version)


def json_string(text: str) -> str:
    r"""Return a string as Jackson quotes it.

    >>> print(json_string('a/"é\x01\n'))
    "a/\"é\u0001\n"
    """
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def json_text(tree: Any) -> str:
    """Return a tree of dicts, lists and values as Jackson prints it, without white space."""
    if isinstance(tree, str):
        return json_string(tree)
    if isinstance(tree, dict):
        return "{" + ",".join(f"{json_string(name)}:{json_text(branch)}" for name, branch in tree.items()) + "}"
    if isinstance(tree, (list, tuple)):
        return "[" + ",".join(map(json_text, tree)) + "]"
    if isinstance(tree, bytes):
        return f'"{base64.b64encode(tree).decode("ascii")}"'
    if isinstance(tree, float):
        text = double_text(tree)
        return text if text[-1].isdigit() else f'"{text}"'
    return {None: "null", True: "true", False: "false"}[tree] if tree is None or isinstance(tree, bool) else str(tree)
