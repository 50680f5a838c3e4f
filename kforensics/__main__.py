"""Runs the command line as ``python -m kforensics``."""

from kforensics.cli import main

if __name__ == "__main__":
    main()
