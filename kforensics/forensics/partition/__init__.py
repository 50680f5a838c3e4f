"""One partition, read once: its files, log chunks, summary, transactions, timeline and last stable offset."""
