"""The keys of a topic: the partitions they are in, and whether these match Kafka's default partitioner."""
