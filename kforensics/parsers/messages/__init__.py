"""Kafka's schema-generated messages: the bytes of internal topics, metadata and control records, and what they say."""
