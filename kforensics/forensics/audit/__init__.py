"""Evaluate partitions, and what several partitions show together: clusters, copies of partitions, keys of topics.

``forensics.checks`` defines the checks. This package selects the partitions for each of them and collects the results,
in one process or in tasks on several machines.
"""
