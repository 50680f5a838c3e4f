"""Runs first in the file of `make onefile`, whose libraries are for one release of Python."""

import sys

RELEASE = "@RELEASE@"  # filled in by pack_onefile.sh

if f"{sys.version_info[0]}.{sys.version_info[1]}" != RELEASE:
    sys.exit(
        f"kforensics: this file is for Python {RELEASE} and {sys.executable} is {sys.version.split()[0]}; "
        f"run it with python{RELEASE}, or build one for this release: make onefile PYTHON={sys.executable}"
    )
