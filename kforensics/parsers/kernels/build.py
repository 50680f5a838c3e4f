"""Compiles the kernels into one object file: ``python -m kforensics.parsers.kernels.build > FILE``.

With an operating system, a machine and a folder, ``build linux x86_64 FOLDER``, it writes the libraries there that a
wheel for them contains. The C compiler of this machine links them or, for another platform, ``ziglang``.

This runs in a process of its own, so that the process that reads logs spends neither time nor memory on numba.
"""

from __future__ import annotations

import gc
import os
import platform
import shutil
import subprocess  # nosec B404  # for the linker, without a shell
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

# All functions are optimized together at the end, so numba need not optimize each of them.
os.environ["NUMBA_OPT"] = "0"

import llvmlite.binding as llvm
from numba import cfunc, types
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target

from kforensics.parsers.kernels.batch_ends import batch_headers, whole_batches, whole_records
from kforensics.parsers.kernels.column_kernels import batch_columns, record_columns
from kforensics.parsers.kernels.hash_kernel import record_hashes
from kforensics.parsers.kernels.library import PREFIX
from kforensics.parsers.kernels.line_kernel import lines
from kforensics.parsers.kernels.payload_kernel import payload_texts
from kforensics.parsers.kernels.target import CRC_INSTRUCTION, TARGETS, Target, this_processor

ENTRY_POINTS = (
    *(whole_batches, batch_headers, whole_records),
    *(lines, batch_columns, record_columns, record_hashes, payload_texts),
)
# Functions of the C library, which every process has.
LIBRARY_FUNCTIONS = {"memcpy", "memmove", "memset"}


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba shows mypy no types
    """The code of one function. numba would link it with that of its callees and compile it, each time."""

    texts: list[str] = []  # of all functions  # noqa: RUF012

    def add_ir_module(self, ir_module: Any) -> None:
        self.texts.append(normalize_ir_text(str(ir_module)))

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        """Return an address that nothing calls."""
        return 1


def kernel_code() -> str:
    """Return the code of all kernels, each under its own name, for any processor, not optimized."""
    gc.disable()  # numba creates millions of objects and drops few
    context = cpu_target.target_context
    context.codegen()._library_class = _Library  # noqa: SLF001
    context.codegen().set_env = context.create_cpython_wrapper = _nothing
    names = {_native_name(entry_point): f"{PREFIX}{entry_point.__name__}" for entry_point in ENTRY_POINTS}
    linked = llvm.parse_assembly("")
    for text in _Library.texts:
        linked.link_in(llvm.parse_assembly(text))
    for native_name, name in names.items():
        linked.get_function(native_name).name = name
    for symbol in (*linked.functions, *linked.global_variables):
        if not symbol.is_declaration and not symbol.name.startswith(PREFIX):
            symbol.linkage = "internal"
    return str(linked)


def _nothing(*_arguments: Any, **_named: Any) -> None:
    """Prepare nothing for calls from Python."""


def _native_name(entry_point: Any) -> str:
    kernel = cfunc(types.int64(types.int64), nopython=True, error_model="numpy")(entry_point)
    name: str = kernel.native_name
    return name


def object_file(code: str, target: Target) -> bytes:
    """Return the kernels compiled for a processor, each taking the address of a request and returning 0.

    Raises:
        RuntimeError: a kernel calls a function that only numba has, because it can raise an exception or allocates.
    """
    module = llvm.parse_assembly(code)
    flag = int(target.has_crc_instruction)
    module.link_in(llvm.parse_assembly(f"@{CRC_INSTRUCTION} = constant i8 {flag}"))
    module.get_global_variable(CRC_INSTRUCTION).linkage = "internal"
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = target.triple or llvm.get_default_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small"
    )
    module.triple, module.data_layout = triple, str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    # Optimizing across functions shows that no kernel raises. After the first pass has inlined functions, the second
    # one sees which are never called.
    for _ in range(2):
        builder.getModulePassManager().run(module, builder)
    external = {function.name for function in module.functions if function.is_declaration}
    external = {name for name in external if not name.startswith("llvm.")} - LIBRARY_FUNCTIONS
    if external:
        raise RuntimeError(f"kernels cannot call {', '.join(sorted(external))}")
    compiled: bytes = machine.emit_object(module)
    return compiled


def _link(code: bytes, library: Path, system: str, machine: str) -> None:
    """Write a library that contains an object file.

    Raises:
        RuntimeError: there is no linker, or it fails.
    """
    own = shutil.which("cc") if (system, machine) == (sys.platform, platform.machine()) else None
    other = f"{'aarch64' if machine == 'arm64' else machine}-{'macos' if system == 'darwin' else 'linux-gnu'}"
    driver = [own] if own else [sys.executable, "-P", "-m", "ziglang", "cc", "-target", other]
    options = ["-shared", "-nostdlib", "-s", "-Wl,-z,relro,-z,now,-z,noexecstack"]
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(code)
        file.flush()
        words = [*driver, *(["-dynamiclib"] if system == "darwin" else options), "-o", str(library), file.name]
        done = subprocess.run(  # noqa: S603  # nosec B603  # a compiler, without a shell
            words, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"linking failed: {(done.stderr.splitlines() or ['no reason given'])[-1]}")


def main() -> None:
    """Write what the arguments ask for, see above."""
    code = kernel_code()
    if len(sys.argv) > 1:
        system, machine, folder = sys.argv[1:]
        for name, target in TARGETS[system, machine].items():
            _link(object_file(code, target), Path(folder, name), system, machine)
        return
    compiled = object_file(code, this_processor())
    # A full disk may pass unnoticed here, so the reader verifies the checksum.
    sys.stdout.buffer.write(zlib.crc32(compiled).to_bytes(4) + compiled)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
