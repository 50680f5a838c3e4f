"""Batches and records of a log as columns, NumPy arrays or Arrow, without a Python object per row."""
