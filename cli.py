#!/usr/bin/env python3
"""Runs kforensics from a checkout, without an install; also the file that spark-submit is given."""

from kforensics.cli import main

if __name__ == "__main__":
    main()
