"""``python -m lab.every_record``."""

from lab.every_record import make_every_record

make_every_record()
