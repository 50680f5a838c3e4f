"""One partition read once: its files, chunks, summary, transactions, timeline and last stable offset."""
