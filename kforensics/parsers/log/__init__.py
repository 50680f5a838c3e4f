"""Log segments: record batches, records, and resynchronization after damage."""
