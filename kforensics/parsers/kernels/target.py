"""The processors that kernels are compiled for."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any, NamedTuple

import llvmlite.binding as llvm

__all__ = ["CRC_INSTRUCTION", "HAS_CRC_INSTRUCTION", "Target", "this_processor"]

# Use only the instructions that every processor of the architecture has. For tests, and for processors that report
# features they lack.
PORTABLE = "KFORENSICS_PORTABLE_KERNELS"
# The byte in memory that tells kernels whether the processor computes CRC-32C by an instruction.
CRC_INSTRUCTION = "kforensics_crc_instruction"


class Target(NamedTuple):
    """A kind of processor.

    Attributes:
        cpu: LLVM's name of it.
        features: LLVM's names of its features.
        has_crc_instruction: whether it has the instruction of SSE4.2 for CRC-32C.
    """

    cpu: str
    features: str
    has_crc_instruction: bool


def this_processor() -> Target:
    """Return the processor of this machine."""
    if os.environ.get(PORTABLE):
        return Target("", "", has_crc_instruction=False)
    features: Any = llvm.get_host_cpu_features()
    has_crc_instruction = platform.machine() in ("x86_64", "AMD64") and bool(features.get("sse4.2"))
    return Target(llvm.get_host_cpu_name(), features.flatten(), has_crc_instruction)


HAS_CRC_INSTRUCTION = this_processor().has_crc_instruction
# For functions that numba compiles one by one, as tests do.
_FLAG = ctypes.c_uint8(HAS_CRC_INSTRUCTION)
llvm.add_symbol(CRC_INSTRUCTION, ctypes.addressof(_FLAG))
