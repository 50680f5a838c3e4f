"""The same partition from several brokers, held side by side."""
