"""Families of findings on the replicas of a partition, each a module with ``CODES`` and ``findings``."""
