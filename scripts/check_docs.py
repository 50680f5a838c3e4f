"""Checks that every relative link of the documents has a target, headings included.

Exit 1 with one line per broken link, exit 0 otherwise.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("*.md", "docs/**/*.md", "benchmarks/*.md", "lab/README.md", "notebooks/*.md", "sample_logs/*.md")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:", re.IGNORECASE)


def main() -> int:
    """Print the broken links; returns the exit code."""
    documents = sorted({document for place in PLACES for document in ROOT.glob(place)})
    broken = [line for document in documents for line in broken_links(document)]
    print("\n".join(broken) if broken else f"Every link in {len(documents)} documents leads somewhere.")
    return 1 if broken else 0


def broken_links(document: Path) -> Iterator[str]:
    """Yield a line for every broken link of the document."""
    for target in LINK.findall(prose(document, keep_code=False)):
        path, _, fragment = unquote(target).partition("#")
        aim = (document.parent / path).resolve() if path else document
        if ELSEWHERE.match(target):
            continue
        if not aim.exists():
            yield f"{document.relative_to(ROOT)}: there is no {path}"
        elif fragment and aim.suffix == ".md" and fragment not in anchors(aim):
            yield f"{document.relative_to(ROOT)}: {path} has no heading #{fragment}"


def prose(document: Path, *, keep_code: bool) -> str:
    """Return the text without fenced blocks, and without inline code unless ``keep_code`` is set."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    return text if keep_code else CODE.sub("", text)


def anchors(document: Path) -> set[str]:
    """Return the fragments that link to the headings."""
    return {anchor(heading) for heading in HEADING.findall(prose(document, keep_code=True))}


def anchor(heading: str) -> str:
    """Return the fragment of a heading, formed as common hosts form it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main())
