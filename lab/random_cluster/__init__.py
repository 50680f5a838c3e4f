"""Clusters under random load: copies of their files, hot and cold, what was provoked, and what the brokers say."""
