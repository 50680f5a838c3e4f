"""The scale run: the audit on Spark and in process, and far more partitions than fit on this machine's disk."""
