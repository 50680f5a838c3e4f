"""``python -m kforensics.parsers.kernels``: compile the kernels now, as an image or an installation may want to."""

import sys

from kforensics.parsers.kernels.library import kernels


def main() -> int:
    """Compile what is not compiled yet; 1 if that cannot be done."""
    return int(kernels(lambda sentence: sys.stderr.write(f"{sentence}\n")) is None)


if __name__ == "__main__":
    sys.exit(main())
