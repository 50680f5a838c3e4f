"""Finds duplicates: batches with repeated sequences, and records of equal content."""
