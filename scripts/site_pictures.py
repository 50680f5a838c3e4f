"""Makes the pictures of the first page of the site: an audit in a terminal, and its report in a browser.

None of them is in the checkout: `make site` makes them of samples.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from scripts import documented

ROOT = documented.ROOT
AUDIT = "kforensics audit --as-of 2026-11-21T13:00 --fail-on never sample_logs/transactions-v2"
LINES, COLUMNS = 16, 100
SIZE = (1200, 800)
# Rich takes a font from another host.
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def terminal() -> str:
    """Return the picture of an audit in a terminal, as SVG."""
    (output,) = documented.run((f"{AUDIT} --color always",))
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="standard")
    console.print(Text(documented.PROMPT + AUDIT))
    for line in [*output[:LINES], documented.LEFT_OUT]:
        console.print(Text.from_ansi(line), overflow="ellipsis", no_wrap=True)
    # Its red has a contrast of 4.6, that of the usual theme 3.7.
    return FONT.sub("", console.export_svg(title="kforensics audit", theme=MONOKAI, unique_id="terminal"))


def report() -> str:
    """Return the report of the same audit, as HTML."""
    with tempfile.TemporaryDirectory() as folder:
        lines = (
            f"{AUDIT} --quiet --output {folder}/store",
            f"kforensics report {folder}/store --output {folder}/r.html",
        )
        documented.run(lines)
        return Path(folder, "r.html").read_text(encoding="utf-8")


def screenshot(html: str) -> bytes | None:
    """Return the picture of a page in a browser, as PNG; none where there is no browser."""
    script = ["/bin/sh", str(ROOT / "scripts" / "chromium.sh"), sys.executable]
    browser = subprocess.run(script, capture_output=True, text=True, check=False).stdout.strip()
    if not browser:
        return None
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder, "report.html"), Path(folder, "report.png")
        page.write_text(html, encoding="utf-8")
        size = ",".join(map(str, SIZE))
        # Containers have no namespaces for the sandbox, and nothing but our own page is opened.
        options = [
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--window-size={size}",
            f"--screenshot={picture}",
        ]
        subprocess.run([browser, *options, page.as_uri()], capture_output=True, check=False, timeout=120)
        return picture.read_bytes() if picture.exists() else None
