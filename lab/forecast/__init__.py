"""What a start does to a log directory: doctored copies of real ones, each started on a real broker.

``python -m lab.forecast`` starts the cases of one base after the other and writes ``tests/data/forecast/``.
"""
