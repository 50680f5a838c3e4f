"""What the tests of the decoders share."""

import pytest

from tests.parsers.twins import PLAIN, REFERENCE, Decoder


@pytest.fixture(params=[PLAIN, REFERENCE], ids=lambda decoder: decoder.name)
def decode(request: pytest.FixtureRequest) -> Decoder:
    """Return each of the twins in turn."""
    decoder: Decoder = request.param
    return decoder
