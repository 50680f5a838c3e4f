"""``python -m lab.damage``."""

from lab.damage import make_damaged

make_damaged()
