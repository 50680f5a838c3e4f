"""Use cases without a terminal: finding partitions, one module for each question, and the process pool."""
