"""The logs of group coordinators (``__consumer_offsets``)."""
