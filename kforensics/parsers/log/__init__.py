"""Segments: record batches, records, and resynchronisation after damage."""
