"""Table schemas, rows of any file, and Arrow conversion."""
