"""The optimized decoder: numba kernels over raw bytes, compiled once per machine and loaded without numba.

Kernels decode only batches that pass every check and stop before anything else. The pure Python decoder handles the
rest, because it can describe what is wrong.

``request`` is the interface between Python and a kernel. The entry points are in ``batch_ends``, ``line_kernel``,
``column_kernels`` and ``hash_kernel``. ``policy`` decides whether kernels pay off for an input, ``library`` compiles
and loads them, ``engine`` runs them over a log and switches to pure Python and back.
"""
