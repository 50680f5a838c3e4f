"""Makes the install lines of the documents. `PUBLISHED` in `kforensics/errors.py` decides which; `make docs` calls it.

`tests/test_first_answer.py` runs the lines as they are on the pages.
"""

from kforensics.errors import PUBLISHED
from kforensics.version import __version__

WHEEL = f"kforensics-{__version__}-py3-none-manylinux_2_17_x86_64.whl"


def install_lines() -> str:
    """Return a block with a line for each place to install from."""
    package, place = (PUBLISHED, "") if PUBLISHED else (".", ", in a checkout")
    lines = (
        (f"pip install {package}", f"the toolkit{place}"),
        (f"pip install '{package}[notebook]'", "and what the notebooks need"),
        (f"pip install '{package}[spark]'", "and what Spark needs"),
        (f"pip install '{package}[query]'", "and what SQL needs"),
        ('pip install "git+$REPOSITORY"', "without a checkout: REPOSITORY is the address you would clone"),
        (f"pip install {WHEEL}", "a wheel that `make build` put into dist/, with compiled kernels"),
    )
    return "\n".join(["", "```sh", *(f"{line:<28} # {what}" for line, what in lines), "```", "", ""])


def install_extra(extra: str, before: str, after: str = ".") -> str:
    """Return a sentence with the line that installs an extra.

    Args:
        extra: its name.
        before: the words before the line.
        after: what follows.
    """
    place = "" if PUBLISHED else " in a checkout"
    return f"\n{before} `pip install '{PUBLISHED or '.'}[{extra}]'`{place}{after}\n\n"
