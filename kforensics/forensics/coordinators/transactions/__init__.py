"""The logs of transaction coordinators (``__transaction_state``) and their join with transaction markers."""
