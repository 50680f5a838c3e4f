"""Compiles the kernels into one object file: ``python -m kforensics.parsers.kernels.build > FILE``.

A process of its own does it, so that the one that reads logs needs neither numba's time nor its memory.
"""

from __future__ import annotations

import os
import sys
from typing import Any

# All functions are optimised together at the end; numba need not do it with each.
os.environ["NUMBA_OPT"] = "0"

import llvmlite.binding as llvm
from numba import cfunc, types

from kforensics.parsers.kernels.batch_ends import whole_batches
from kforensics.parsers.kernels.column_kernels import batch_columns, record_columns
from kforensics.parsers.kernels.hash_kernel import record_hashes
from kforensics.parsers.kernels.library import PREFIX
from kforensics.parsers.kernels.line_kernel import lines
from kforensics.parsers.kernels.target import CPU, FEATURES

__all__ = ["ENTRIES", "object_file"]

ENTRIES = (whole_batches, lines, batch_columns, record_columns, record_hashes)
# Of the C library, which every process has.
LIBRARY = {"memcpy", "memmove", "memset"}


def object_file() -> bytes:
    """Return all entries compiled, each under its own name, taking the address of a request and returning 0.

    Raises:
        RuntimeError: the code calls what only numba has; a kernel can raise an exception, or allocates.
    """
    whole = llvm.parse_assembly("")
    for entry in ENTRIES:
        whole.link_in(_module(entry))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=CPU, features=FEATURES, opt=3, reloc="pic", codemodel="small"
    )
    _optimise(whole, machine)
    foreign = {function.name for function in whole.functions if function.is_declaration}
    foreign = {name for name in foreign if not name.startswith("llvm.")} - LIBRARY
    if foreign:
        raise RuntimeError(f"kernels cannot call {', '.join(sorted(foreign))}")
    code: bytes = machine.emit_object(whole)
    return code


def _optimise(module: Any, machine: Any) -> None:
    """Optimise over the borders of functions: that no kernel raises shows once all of them are seen together."""
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(PREFIX):
            function.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    # What the first pass inlines shows the second what is never called.
    for _ in range(2):
        builder.getModulePassManager().run(module, builder)


def _module(entry: Any) -> Any:
    compiled = cfunc(types.int64(types.int64), nopython=True, error_model="numpy")(entry)
    module = llvm.parse_assembly(compiled.inspect_llvm())
    module.get_function(compiled.native_name).name = f"{PREFIX}{entry.__name__}"
    return module


if __name__ == "__main__":
    sys.stdout.buffer.write(object_file())
