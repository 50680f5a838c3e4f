"""Findings about a cluster; one module per family, as in ``forensics.checks``.

A family has ``CODES`` and ``findings(cluster)``, which yields each finding with the partition it speaks of.
"""
