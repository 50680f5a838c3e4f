"""Checksums against crcmod and the published check values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.checksums import crc32, crc32c, reference_crc32, reference_crc32c

# Check values from the catalogue of CRC algorithms and from iSCSI (RFC 3720, B.4).
DIGITS = b"123456789"


def test_check_values() -> None:
    assert crc32c(DIGITS) == reference_crc32c()(DIGITS) == 0xE3069283
    assert crc32(DIGITS) == reference_crc32()(DIGITS) == 0xCBF43926
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


@given(data=st.binary(max_size=700))
def test_both_equal_crcmod(data: bytes) -> None:
    assert crc32c(data) == reference_crc32c()(data)
    assert crc32(data) == reference_crc32()(data)


@given(data=st.binary(max_size=200), cut=st.integers(0, 200))
def test_a_checksum_can_be_continued(data: bytes, cut: int) -> None:
    assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)
    assert crc32(data[cut:], crc32(data[:cut])) == crc32(data)
