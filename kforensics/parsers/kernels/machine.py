"""What kernels need of the machine: unaligned loads and stores at addresses, copies, calls, the CRC instruction.

Addresses and values are int64 throughout, because numba makes a float of an int64 and a uint64 together. Nothing here
checks a bound: a kernel looks at its limits before it loads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "big16",
    "big32",
    "big64",
    "bit_length",
    "call_lz4",
    "call_zstd_at_once",
    "call_zstd_context",
    "call_zstd_create",
    "call_zstd_stream",
    "copy",
    "crc32c_byte",
    "crc32c_word",
    "load8",
    "load16",
    "load32",
    "load64",
    "shift_right",
    "signed8",
    "store8",
    "store16",
    "store32",
    "store64",
    "trailing_zeros",
    "unsigned32",
]

Load = Callable[[int], int]
Store = Callable[[int, int], None]
BYTE, WORD = ir.IntType(8), ir.IntType(64)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _loader(bits: int, *, swap: bool, signed: bool) -> Load:
    """Return an intrinsic that loads ``bits`` bits at an address as int64."""
    kind = ir.IntType(bits)

    def load(_typing: Any, _address: Any) -> Any:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(_pointer(builder, arguments[0], kind))
            value.align = 1
            if swap:
                value = builder.bswap(value)
            if bits == WORD.width:
                return value
            return (builder.sext if signed else builder.zext)(value, WORD)

        return types.int64(types.int64), code

    made: Load = intrinsic(load)
    return made


load8 = _loader(8, swap=False, signed=False)
load16 = _loader(16, swap=False, signed=False)
load32 = _loader(32, swap=False, signed=False)
load64 = _loader(64, swap=False, signed=True)
signed8 = _loader(8, swap=False, signed=True)
big16 = _loader(16, swap=True, signed=True)
big32 = _loader(32, swap=True, signed=True)
big64 = _loader(64, swap=True, signed=True)
unsigned32 = _loader(32, swap=True, signed=False)


def _storer(bits: int) -> Store:
    """Return an intrinsic that stores the low ``bits`` bits of an int64, in the order of the machine."""
    kind = ir.IntType(bits)

    def store(_typing: Any, _address: Any, _value: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = arguments[1] if bits == WORD.width else builder.trunc(arguments[1], kind)
            builder.store(value, _pointer(builder, arguments[0], kind)).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    made: Store = intrinsic(store)
    return made


store8 = _storer(8)
store16 = _storer(16)
store32 = _storer(32)
store64 = _storer(64)


def _copy(_typing: Any, _target: Any, _source: Any, _length: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place, flag = BYTE.as_pointer(), ir.IntType(1)
        kind = ir.FunctionType(ir.VoidType(), [place, place, WORD, flag])
        function = builder.module.declare_intrinsic("llvm.memcpy", (place, place, WORD), kind)
        target, source = (builder.inttoptr(address, place) for address in arguments[:2])
        builder.call(function, [target, source, arguments[2], flag(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


copy: Callable[[int, int, int], None] = intrinsic(_copy)
"""Copy bytes from one address to another; the two ranges do not overlap."""


def _crc32c_word(_typing: Any, _checksum: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(WORD, [WORD, WORD])
        return builder.call(builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind), arguments)

    return types.int64(types.int64, types.int64), code


crc32c_word: Callable[[int, int], int] = intrinsic(_crc32c_word)
"""Take eight bytes into a CRC-32C, with the instruction of SSE4.2."""


def _crc32c_byte(_typing: Any, _checksum: Any, _byte: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        half = ir.IntType(32)
        kind = ir.FunctionType(half, [half, BYTE])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.32.8", (), kind)
        narrow = [builder.trunc(arguments[0], half), builder.trunc(arguments[1], BYTE)]
        return builder.zext(builder.call(function, narrow), WORD)

    return types.int64(types.int64, types.int64), code


crc32c_byte: Callable[[int, int], int] = intrinsic(_crc32c_byte)
"""Take one byte into a CRC-32C, with the instruction of SSE4.2."""


def _shift_right(_typing: Any, _value: Any, _bits: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(arguments[0], arguments[1])

    return types.int64(types.int64, types.int64), code


shift_right: Callable[[int, int], int] = intrinsic(_shift_right)
"""Shift the 64 bits of a value right, zeros coming in."""


def _trailing_zeros(_typing: Any, _value: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), code


trailing_zeros: Callable[[int], int] = intrinsic(_trailing_zeros)
"""Count the zero bits below the lowest one; the value is not 0."""


def _call_lz4(_typing: Any, _function: Any, _source: Any, _target: Any, _length: Any, _room: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        half = ir.IntType(32)
        kind = ir.FunctionType(half, [WORD, WORD, half, half])
        given = [*arguments[1:3], *(builder.trunc(number, half) for number in arguments[3:])]
        return builder.sext(builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), given), WORD)

    return types.int64(*[types.int64] * 5), code


call_lz4: Callable[[int, int, int, int, int], int] = intrinsic(_call_lz4)
"""Call ``int LZ4_decompress_safe(source, target, length, room)`` at an address."""


def _call_words(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    kind = ir.FunctionType(WORD, [WORD] * (len(arguments) - 1))
    return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])


def _call_zstd_create(_typing: Any, _function: Any) -> Any:
    return types.int64(types.int64), _call_words


call_zstd_create: Callable[[int], int] = intrinsic(_call_zstd_create)
"""Call ``ZSTD_DCtx* ZSTD_createDCtx()`` at an address."""


def _call_zstd_context(_typing: Any, _function: Any, _context: Any) -> Any:
    return types.int64(types.int64, types.int64), _call_words


call_zstd_context: Callable[[int, int], int] = intrinsic(_call_zstd_context)
"""Call ``size_t ZSTD_initDStream(context)`` or ``size_t ZSTD_freeDCtx(context)`` at an address."""


def _call_zstd_at_once(
    _typing: Any, _function: Any, _context: Any, _target: Any, _room: Any, _source: Any, _length: Any
) -> Any:
    return types.int64(*[types.int64] * 6), _call_words


call_zstd_at_once: Callable[[int, int, int, int, int, int], int] = intrinsic(_call_zstd_at_once)
"""Call ``size_t ZSTD_decompressDCtx(context, target, room, source, length)`` at an address."""


def _call_zstd_stream(_typing: Any, _function: Any, _context: Any, _output: Any, _input: Any) -> Any:
    return types.int64(*[types.int64] * 4), _call_words


call_zstd_stream: Callable[[int, int, int, int], int] = intrinsic(_call_zstd_stream)
"""Call ``size_t ZSTD_decompressStream(context, output, input)`` at an address."""


def _bit_length(_typing: Any, _value: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sub(WORD(WORD.width), builder.ctlz(arguments[0], ir.IntType(1)(0)))

    return types.int64(types.int64), code


bit_length: Callable[[int], int] = intrinsic(_bit_length)
"""Count the bits up to the highest one that is set; 0 for 0."""
