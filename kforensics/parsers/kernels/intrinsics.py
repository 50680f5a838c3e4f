"""Memory and machine operations for kernels: unaligned loads and stores, slots, copies, C calls, the CRC instruction.

Addresses and values are int64 throughout, because numba turns an int64 combined with a uint64 into a float. Nothing
here checks bounds: a kernel checks its limits before it loads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.target import CRC_INSTRUCTION, this_processor

Load = Callable[[int], int]
Store = Callable[[int, int], None]
Operation = Callable[[int, int], int]
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

    loader: Load = intrinsic(load)
    return loader


load8 = _loader(8, swap=False, signed=False)
load16 = _loader(16, swap=False, signed=False)
load32 = _loader(32, swap=False, signed=False)
load64 = _loader(64, swap=False, signed=True)
big16 = _loader(16, swap=True, signed=True)
big32 = _loader(32, swap=True, signed=True)
big64 = _loader(64, swap=True, signed=True)
unsigned32 = _loader(32, swap=True, signed=False)


def _storer(bits: int) -> Store:
    """Return an intrinsic that stores the low ``bits`` bits of an int64 in the machine's byte order."""
    kind = ir.IntType(bits)

    def store(_typing: Any, _address: Any, _value: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = arguments[1] if bits == WORD.width else builder.trunc(arguments[1], kind)
            builder.store(value, _pointer(builder, arguments[0], kind)).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    storer: Store = intrinsic(store)
    return storer


store8 = _storer(8)
store16 = _storer(16)
store32 = _storer(32)
store64 = _storer(64)


@inlined
def get_slot(request: int, index: int) -> int:
    """Return the value of a slot of the request at an address."""
    return load64(request + 8 * index)


@inlined
def set_slot(request: int, index: int, number: int) -> None:
    """Set a slot of the request at an address."""
    store64(request + 8 * index, number)


def _wrapping(name: str) -> Operation:
    """Return an intrinsic for an LLVM instruction without the flags that numba sets.

    numba promises LLVM that its own ``+`` and ``*`` never overflow, and LLVM relies on that.
    """

    def operate(_typing: Any, _left: Any, _right: Any) -> Any:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments)

        return types.int64(types.int64, types.int64), code

    operation: Operation = intrinsic(operate)
    return operation


wrapping_add = _wrapping("add")
wrapping_multiply = _wrapping("mul")


def _copy(_typing: Any, _target: Any, _source: Any, _length: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, flag = BYTE.as_pointer(), ir.IntType(1)
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, WORD, flag])
        function = builder.module.declare_intrinsic("llvm.memcpy", (pointer, pointer, WORD), kind)
        target, source = (builder.inttoptr(address, pointer) for address in arguments[:2])
        builder.call(function, [target, source, arguments[2], flag(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


copy: Callable[[int, int, int], None] = intrinsic(_copy)
"""Copy bytes to a target address from a source address; the ranges must not overlap."""


def _crc32c_word(_typing: Any, _checksum: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(WORD, [WORD, WORD])
        return builder.call(builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind), arguments)

    return types.int64(types.int64, types.int64), code


crc32c_word: Callable[[int, int], int] = intrinsic(_crc32c_word)
"""Update a CRC-32C with eight bytes, using the SSE4.2 instruction."""


def _crc32c_byte(_typing: Any, _checksum: Any, _byte: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        half = ir.IntType(32)
        kind = ir.FunctionType(half, [half, BYTE])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.32.8", (), kind)
        narrow = [builder.trunc(arguments[0], half), builder.trunc(arguments[1], BYTE)]
        return builder.zext(builder.call(function, narrow), WORD)

    return types.int64(types.int64, types.int64), code


crc32c_byte: Callable[[int, int], int] = intrinsic(_crc32c_byte)
"""Update a CRC-32C with one byte, using the SSE4.2 instruction."""


def _has_crc_instruction(_typing: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        flag = builder.module.globals.get(CRC_INSTRUCTION) or ir.GlobalVariable(builder.module, BYTE, CRC_INSTRUCTION)
        return builder.trunc(builder.load(flag), ir.IntType(1))

    return types.boolean(), code


has_crc_instruction: Callable[[], bool] = intrinsic(_has_crc_instruction)
"""Return whether the processor has the instruction; a constant once the kernels are compiled for a processor."""

# For functions that numba compiles one by one, as tests do.
_FLAG = ctypes.c_uint8(this_processor().has_crc_instruction)
binding.add_symbol(CRC_INSTRUCTION, ctypes.addressof(_FLAG))


def _shift_right(_typing: Any, _value: Any, _bits: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(arguments[0], arguments[1])

    return types.int64(types.int64, types.int64), code


shift_right: Callable[[int, int], int] = intrinsic(_shift_right)
"""Shift the 64 bits of a value right and fill with zeros."""


def _trailing_zeros(_typing: Any, _value: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), code


trailing_zeros: Callable[[int], int] = intrinsic(_trailing_zeros)
"""Count the zero bits below the lowest set bit; the value must not be 0."""


def _bit_length(_typing: Any, _value: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sub(WORD(WORD.width), builder.ctlz(arguments[0], ir.IntType(1)(0)))

    return types.int64(types.int64), code


bit_length: Callable[[int], int] = intrinsic(_bit_length)
"""Count the bits up to the highest set bit; 0 for 0."""


def _call_lz4(_typing: Any, _function: Any, _source: Any, _target: Any, _length: Any, _capacity: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        half = ir.IntType(32)
        kind = ir.FunctionType(half, [WORD, WORD, half, half])
        narrowed = [*arguments[1:3], *(builder.trunc(number, half) for number in arguments[3:])]
        return builder.sext(builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), narrowed), WORD)

    return types.int64(*[types.int64] * 5), code


call_lz4: Callable[[int, int, int, int, int], int] = intrinsic(_call_lz4)
"""Call ``int LZ4_decompress_safe(source, target, length, capacity)`` at an address."""


def _call_words(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    kind = ir.FunctionType(WORD, [WORD] * (len(arguments) - 1))
    return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])


def _call_key_filter(_typing: Any, _function: Any, _address: Any, _size: Any) -> Any:
    return types.int64(*[types.int64] * 3), _call_words


call_key_filter: Callable[[int, int, int], int] = intrinsic(_call_key_filter)
"""Call ``int64_t matches(address, size)`` of the host at an address."""


def _call_zstd_create(_typing: Any, _function: Any) -> Any:
    return types.int64(types.int64), _call_words


call_zstd_create: Callable[[int], int] = intrinsic(_call_zstd_create)
"""Call ``ZSTD_DCtx* ZSTD_createDCtx()`` at an address."""


def _call_zstd_context(_typing: Any, _function: Any, _context: Any) -> Any:
    return types.int64(types.int64, types.int64), _call_words


call_zstd_context: Callable[[int, int], int] = intrinsic(_call_zstd_context)
"""Call ``size_t ZSTD_initDStream(context)`` or ``size_t ZSTD_freeDCtx(context)`` at an address."""


def _call_zstd_at_once(
    _typing: Any, _function: Any, _context: Any, _target: Any, _capacity: Any, _source: Any, _length: Any
) -> Any:
    return types.int64(*[types.int64] * 6), _call_words


call_zstd_at_once: Callable[[int, int, int, int, int, int], int] = intrinsic(_call_zstd_at_once)
"""Call ``size_t ZSTD_decompressDCtx(context, target, capacity, source, length)`` at an address."""


def _call_zstd_stream(_typing: Any, _function: Any, _context: Any, _output: Any, _input: Any) -> Any:
    return types.int64(*[types.int64] * 4), _call_words


call_zstd_stream: Callable[[int, int, int, int], int] = intrinsic(_call_zstd_stream)
"""Call ``size_t ZSTD_decompressStream(context, output, input)`` at an address."""
