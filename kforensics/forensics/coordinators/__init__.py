"""What the coordinators of transactions decided, and whether the partitions of the data say the same.

A partition alone is judged by ``forensics.checks``; here stands what needs ``__transaction_state`` or several
partitions.
"""
