"""Reports words that make this project hard to read, in documents, docstrings, comments and messages.

Exit 1 with one line per word, exit 0 otherwise. A line that needs one of them, because it quotes Kafka or uses
the literal meaning, is listed in ALLOWED.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
DOCUMENTS = ("*.md", "docs/**/*.md", "benchmarks/*.md", "notebooks/*.md")
PYTHON = ("kforensics", "scripts")
INSTEAD = {
    r"behind": "after",
    r"stands|stood": "is, was",
    r"tells|told|telling": "shows, reports",
    r"nobody|somebody|anybody": "name the actor",
    r"who(?:ever)? (?:reads|writes|asks|calls|wants|knows|judges|gets)": "code that, callers",
    r"of which": "whose",
    r"on hand": "available",
    r"anew": "again",
    r"as above|likewise": "say it",
    r"is there twice": "is a duplicate",
    r"holds it": "blocks",
    r"the plain way": "fallback to pure Python",
    r"holes?": "offset gap",
    r"thinned": "partially compacted",
    r"strikes?": "matches",
    r"seams?": "chunk boundary",
}
PATTERNS = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): instead for words, instead in INSTEAD.items()}
# Substrings of lines that are exempt.
ALLOWED = (
    "missing, behind, before-start",  # a value of a column
    "bytes, of which",  # the detail of damage, which stores contain
)


def main() -> int:
    """Print the words; returns the exit code."""
    documents = sorted({path for place in DOCUMENTS for path in ROOT.glob(place)} - {ROOT / "CHANGELOG.md"})
    modules = sorted(path for folder in PYTHON for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))
    lines = [line for path in documents for line in words_in(path, document_lines(path))]
    lines += [line for path in modules for line in words_in(path, python_lines(path))]
    print("\n".join(lines) if lines else f"No words to avoid in {len(documents)} documents and {len(modules)} modules.")
    return 1 if lines else 0


def words_in(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Yield a line for each word to avoid."""
    for number, line in lines:
        if any(part in line for part in ALLOWED):
            continue
        for pattern, instead in PATTERNS.items():
            for match in pattern.finditer(line):
                yield f'{path.relative_to(ROOT)}:{number}: "{match.group()}": write {instead}'


def document_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a document with their numbers, without code."""
    text = FENCE.sub(lambda block: "\n" * block.group().count("\n"), path.read_text(encoding="utf-8"))
    yield from enumerate(CODE.sub("", text).splitlines(), 1)


def python_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings, comments and strings of a module with their numbers."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from enumerate(CODE.sub("", node.value).splitlines(), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], CODE.sub("", token.string)


if __name__ == "__main__":
    sys.exit(main())
