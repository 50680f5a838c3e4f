"""Compiles the kernels into one object file: ``python -m kforensics.parsers.kernels.build > FILE``.

This runs in a process of its own, so that the process that reads logs spends neither time nor memory on numba.
"""

from __future__ import annotations

import os
import sys
import zlib
from typing import Any

# All functions are optimised together at the end, so numba need not optimise each of them.
os.environ["NUMBA_OPT"] = "0"

import llvmlite.binding as llvm
from numba import cfunc, types

from kforensics.parsers.kernels.batch_ends import batch_headers, whole_batches, whole_records
from kforensics.parsers.kernels.column_kernels import batch_columns, record_columns
from kforensics.parsers.kernels.hash_kernel import record_hashes
from kforensics.parsers.kernels.library import PREFIX
from kforensics.parsers.kernels.line_kernel import lines
from kforensics.parsers.kernels.target import CPU, FEATURES

ENTRY_POINTS = (whole_batches, batch_headers, whole_records, lines, batch_columns, record_columns, record_hashes)
# Functions of the C library, which every process has.
LIBRARY_FUNCTIONS = {"memcpy", "memmove", "memset"}


def object_file() -> bytes:
    """Return the compiled kernels, each under its own name, taking the address of a request and returning 0.

    Raises:
        RuntimeError: a kernel calls a function that only numba has, because it can raise an exception or allocates.
    """
    linked = llvm.parse_assembly("")
    for entry_point in ENTRY_POINTS:
        linked.link_in(_module(entry_point))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=CPU, features=FEATURES, opt=3, reloc="pic", codemodel="small"
    )
    _optimise(linked, machine)
    external = {function.name for function in linked.functions if function.is_declaration}
    external = {name for name in external if not name.startswith("llvm.")} - LIBRARY_FUNCTIONS
    if external:
        raise RuntimeError(f"kernels cannot call {', '.join(sorted(external))}")
    code: bytes = machine.emit_object(linked)
    return code


def _optimise(module: Any, machine: Any) -> None:
    """Optimise across functions, which shows that no kernel raises."""
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(PREFIX):
            function.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    # After the first pass has inlined functions, the second one sees which are never called.
    for _ in range(2):
        builder.getModulePassManager().run(module, builder)


def _module(entry_point: Any) -> Any:
    kernel = cfunc(types.int64(types.int64), nopython=True, error_model="numpy")(entry_point)
    module = llvm.parse_assembly(kernel.inspect_llvm())
    module.get_function(kernel.native_name).name = f"{PREFIX}{entry_point.__name__}"
    return module


if __name__ == "__main__":
    compiled = object_file()
    # A full disk may pass unnoticed here, so the reader verifies the checksum.
    sys.stdout.buffer.write(zlib.crc32(compiled).to_bytes(4) + compiled)
    sys.stdout.buffer.flush()
