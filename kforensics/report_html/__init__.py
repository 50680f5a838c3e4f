"""Writes an evidence store as one self-contained HTML report."""
