"""What is there twice: batches by their sequences, records by their contents."""
