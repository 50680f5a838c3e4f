"""Fixtures of the decoder tests."""

import pytest

from tests.parsers.decoders import OPTIMIZED, REFERENCE, Decoder


@pytest.fixture(params=[OPTIMIZED, REFERENCE], ids=lambda decoder: decoder.name)
def decode(request: pytest.FixtureRequest) -> Decoder:
    """Return each decoder in turn."""
    decoder: Decoder = request.param
    return decoder
