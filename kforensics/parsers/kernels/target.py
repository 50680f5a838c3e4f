"""The processor that kernels are compiled for."""

from __future__ import annotations

import os
import platform
from typing import Any

import llvmlite.binding as llvm

# Use only the instructions that every processor of the architecture has. For tests, and for processors that report
# features they lack.
PORTABLE = bool(os.environ.get("KFORENSICS_PORTABLE_KERNELS"))
_HOST: Any = {} if PORTABLE else llvm.get_host_cpu_features()
CPU = "" if PORTABLE else llvm.get_host_cpu_name()
FEATURES = "" if PORTABLE else _HOST.flatten()
HAS_CRC_INSTRUCTION = platform.machine() in ("x86_64", "AMD64") and bool(_HOST.get("sse4.2"))
