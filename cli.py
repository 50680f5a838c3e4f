#!/usr/bin/env python3
"""Runs the command line from a checkout without an installation. It is also the file to pass to spark-submit."""

from kforensics.cli import main

if __name__ == "__main__":
    main()
