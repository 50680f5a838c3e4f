"""``python -m kforensics.parsers.kernels``: compile the kernels now, for example while building a container image."""

import sys

from kforensics.parsers.kernels.library import load_kernels


def main() -> int:
    """Compile the kernels unless they are cached; return 1 if that fails."""
    return int(load_kernels(lambda sentence: sys.stderr.write(f"{sentence}\n")) is None)


if __name__ == "__main__":
    sys.exit(main())
