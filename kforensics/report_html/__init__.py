"""The report: an evidence store as one HTML file that needs nothing else."""
