"""Checks across the partitions of a topic."""
