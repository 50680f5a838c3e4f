"""What the metadata log of the cluster records about topics and leader elections."""
