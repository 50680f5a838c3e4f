"""Progress lines, on stderr."""

import sys
import time

_started = time.monotonic()


def say(text: str) -> None:
    """Print one progress line with the seconds since the lab began."""
    print(f"[lab {time.monotonic() - _started:6.1f}s] {text}", file=sys.stderr, flush=True)
