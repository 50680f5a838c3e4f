"""What the cluster's metadata log says of topics and leaders."""
