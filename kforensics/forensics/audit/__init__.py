"""What an audit judges across partitions: which belong to one cluster, what each adds, and what follows from all.

``forensics.cluster`` and ``forensics.replicas`` know what to look for; here stands how an audit comes to ask them, in
one process or in tasks anywhere.
"""
