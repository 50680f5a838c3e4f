"""What is to be said of what stands in several partitions of a topic."""
