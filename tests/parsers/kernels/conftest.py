"""Without the compiler, as where a wheel was installed, kernels are tested as they are shipped, not their parts."""

import importlib.util

_PARTS = ("batch_checks", "batch_payload", "crc", "line_kernel", "record_parser")
collect_ignore = [] if importlib.util.find_spec("numba") else [f"test_{name}.py" for name in _PARTS]
