"""Attacks kforensics with damaged and hostile input: ``python -m lab.fuzz --minutes 10 --seed 1``.

Every input follows from the seed, the name of the attack and a number, so a failure can be repeated. Each attack is a
function of dice and of a folder for its inputs, and raises :class:`lab.fuzz.attack.Weakness` or anything else if
kforensics does not withstand it.
"""
