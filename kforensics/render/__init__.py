"""Writes results as text for people and as rows in every format, and writes the evidence store."""
