"""Table schemas, and any file as rows of its table."""
