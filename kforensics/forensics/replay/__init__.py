"""The replay of a partition: producers, transactions and the last stable offset, from batches in any pieces."""
