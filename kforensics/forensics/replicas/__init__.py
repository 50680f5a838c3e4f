"""Compares the replicas of one partition: batches, records, keys and transactions that differ, and lost records."""
