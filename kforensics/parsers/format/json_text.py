"""JSON in files that anyone may have written: one object, or why it is none."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["parse_object"]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


DECODER = json.JSONDecoder(parse_constant=_no_constant)


def parse_object(text: str) -> dict[str, Any] | str:
    """Return the object at the start of a text, or a sentence why there is none; Kafka ignores what follows it."""
    try:
        value, _ = DECODER.raw_decode(text.lstrip())
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    return value if isinstance(value, dict) else "the JSON is not an object"
