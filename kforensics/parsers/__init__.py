"""Bytes to tables: every file a broker leaves in a log directory, decoded without judgement."""
