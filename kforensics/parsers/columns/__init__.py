"""Batches and records as columns (NumPy and Arrow)."""
