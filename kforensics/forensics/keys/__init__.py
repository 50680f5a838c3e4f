"""Where the keys of a topic lie, and whether its producers put them where Kafka's default partitioner would."""
