"""Notebook views of tables and batches."""
