"""The fast twin: numba kernels over raw bytes, compiled once per machine and loaded without numba.

``machine`` gives loads, stores and the checksum instruction; ``crc``, ``varints``, ``headers``, ``records`` and
``codecs`` build on it; ``library`` compiles and loads. Only ``library`` may be imported without paying for numba.
Kernels take what no reader could doubt, batch by batch, and stop in front of everything else: that is for the readers
in plain Python, which know all the words for it.
"""
