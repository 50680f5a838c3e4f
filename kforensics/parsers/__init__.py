"""Bytes to tables: decodes every file that a broker writes to a log directory, without interpreting the content."""
