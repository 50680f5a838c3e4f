"""Decoded messages as JSON, byte for byte as Kafka's generated `JsonConverter` classes and Jackson print them."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kforensics.parsers.messages.codec import default_of
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


# Doubles are a port of `jdk.internal.math.FloatingDecimal.BinaryToASCIIBuffer` up to JDK 18, which does not always
# print the shortest form. The names follow the original: the number is B / S, and M is half the distance to its
# neighbor; all three are scaled to integers.
_EXP_SHIFT: Final = 52
_EXP_BIAS: Final = 1023
_HIDDEN_BIT: Final = 1 << _EXP_SHIFT
_POWERS_OF_5: Final = 27
_SMALL_BINARY_EXPONENTS: Final = range(-21, 63)


@dataclass(slots=True)
class _Digits:
    """Decimal digits after the point, multiplied by ten to the power of the exponent."""

    digits: list[int]
    exponent: int

    def round_up(self) -> None:
        """Add one to the last digit; nines that overflow become zeros and are kept, as in Java."""
        index = len(self.digits) - 1
        while self.digits[index] == 9 and index > 0:
            self.digits[index] = 0
            index -= 1
        if self.digits[index] == 9:
            self.exponent += 1
            self.digits[index] = 1
        else:
            self.digits[index] += 1


def double_text(number: float) -> str:
    """Return what `Double.toString` returns; Kafka's tools print client quotas with it.

    >>> [double_text(n) for n in (1.0, 1048576.0, 1e7, 9.999e-4, -0.0, 2e-3)]
    ['1.0', '1048576.0', '1.0E7', '9.999E-4', '-0.0', '0.002']
    """
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    return f"{sign}0.0" if number == 0 else sign + _layout(_digits_of(abs(number)))


def _layout(decimal: _Digits) -> str:
    digits, exponent = "".join(map(str, decimal.digits)), decimal.exponent
    if 0 < exponent < 8:
        whole = digits[:exponent].ljust(exponent, "0")
        return f"{whole}.{digits[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"0.{'0' * -exponent}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits_of(number: float) -> _Digits:
    bits = int.from_bytes(struct.pack(">d", number), "big")
    exponent, fraction = bits >> _EXP_SHIFT, bits & (_HIDDEN_BIT - 1)
    significant = _EXP_SHIFT + 1
    if exponent == 0:
        significant = fraction.bit_length()
        shift = _EXP_SHIFT + 1 - significant
        fraction, exponent = fraction << shift, 1 - shift
    else:
        fraction |= _HIDDEN_BIT
    exponent -= _EXP_BIAS
    tail_zeros = (fraction & -fraction).bit_length() - 1
    fraction_bits = _EXP_SHIFT + 1 - tail_zeros
    tiny_bits = max(0, fraction_bits - exponent - 1)
    # The easy case in Java: an integer that fits a long.
    if tiny_bits == 0 and exponent in _SMALL_BINARY_EXPONENTS and fraction_bits < 64:
        return _integer(fraction, exponent, significant)
    return _quotient(fraction, exponent, significant, tail_zeros)


def _integer(fraction: int, exponent: int, significant: int) -> _Digits:
    """Return the digits of an integer, without those that 53 bits cannot represent."""
    beyond = exponent - significant - 1
    insignificant = int(beyond * math.log10(2)) if beyond > 1 else 0
    whole = fraction << exponent - _EXP_SHIFT if exponent >= _EXP_SHIFT else fraction >> _EXP_SHIFT - exponent
    if insignificant:
        power = 10**insignificant
        whole, residue = divmod(whole, power)
        whole += residue >= power >> 1
    text = str(whole)
    return _Digits([int(digit) for digit in text.rstrip("0")], len(text) + insignificant)


def _estimate(fraction: int, exponent: int) -> int:
    """Return the decimal exponent, or one more."""
    mantissa: float = struct.unpack(
        ">d", ((_EXP_BIAS << _EXP_SHIFT) | fraction & (_HIDDEN_BIT - 1)).to_bytes(8, "big")
    )[0]
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _bits_of_power_of_5(power: int) -> int:
    if power >= _POWERS_OF_5:
        return power * 3
    return (5**power).bit_length() if power else 0


def _quotient(fraction: int, exponent: int, significant: int, tail_zeros: int) -> _Digits:
    """Return the digits of B / S, up to where the rest is smaller than M."""
    fraction_bits = _EXP_SHIFT + 1 - tail_zeros
    tiny_bits = max(0, fraction_bits - exponent - 1)
    decimal = _estimate(fraction, exponent)
    b5, s5 = max(0, -decimal), max(0, decimal)
    b2, s2 = b5 + tiny_bits + exponent, s5 + tiny_bits
    m2 = b2 - significant
    b2 -= fraction_bits - 1
    common = min(b2, s2)
    # A power of two has its lower neighbor at half the distance.
    b2, s2, m2 = b2 - common, s2 - common, m2 - common - (fraction_bits == 1)
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    b_bits = fraction_bits + b2 + _bits_of_power_of_5(b5)
    ten_s_bits = s2 + 1 + _bits_of_power_of_5(s5 + 1)
    width = next((bits for bits in (32, 64) if b_bits < bits and ten_s_bits < bits), None)
    b = (fraction >> tail_zeros) * 5**b5 << b2
    return _generate(b, 5**s5 << s2, 5**b5 << m2, decimal, width)


def _wrap(number: int, width: int | None) -> int:
    if width is None:
        return number
    number &= (1 << width) - 1
    return number - (1 << width) if number >> width - 1 else number


def _generate(b: int, s: int, m: int, decimal: int, width: int | None) -> _Digits:
    """Return the digits of B / S from a division digit by digit.

    Java divides ints, longs or big integers, with small differences: for ints and longs the upper comparison is strict
    and M may overflow.
    """
    tens = s * 10
    digits: list[int] = []
    first = True
    low = high = False
    while first or not (low or high):
        digit, rest = divmod(b, s)
        b, m = rest * 10, _wrap(m * 10, width)
        # The sum overflows in Java too, and is compared as it is.
        upper = _wrap(b + m, width)
        low, high = (b < m, upper > tens if width else upper >= tens) if m > 0 else (True, True)
        if first and digit == 0 and not high:
            decimal -= 1
        else:
            digits.append(digit)
        # The form with an exponent has at least one digit after the point.
        if first and not -3 <= decimal < 8:
            low = high = False
        first = False
    result = _Digits(digits, decimal + 1)
    tie = _wrap(_wrap(2 * b, width) - tens, width)
    if high and (not low or tie > 0 or (tie == 0 and digits[-1] % 2)):
        result.round_up()
    return result
