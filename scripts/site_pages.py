"""Adapts the documents for the site, where links and comments differ from those of a checkout.

`mkdocs.yml` names this file; MkDocs calls the functions for each page, and a warning fails a strict build.
"""

import logging
import re
from typing import Any

# The comment from which cog generates the next block.
GENERATOR = re.compile(r"^<!-- \[\[\[.*?\]\]\] -->\n", re.MULTILINE)
# A link to a file of the checkout outside of the documents: the site has no such page.
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
# A role of reStructuredText before a name in a docstring; the site shows the name.
ROLE = re.compile(r":(?:class|func|meth):(?=<code>)")
# Elements that make a browser fetch something from another host.
FETCHED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"' >]*)""")
FETCHED_LINK = re.compile(
    r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preconnect))[^>]*\bhref=["']?(https?://[^"' >]*)"""
)

log = logging.getLogger("mkdocs.kforensics")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page without the comments for cog, and with links to files outside of the documents as plain text."""
    return OUTSIDE.sub(r"\1", GENERATOR.sub("", markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Return a page whose docstrings have no roles before names."""
    return ROLE.sub("", html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Return a page unchanged; warn about external resources, because it is read on hosts without a network."""
    for address in fetched(output):
        log.warning("%s fetches %s", page.file.src_uri, address)
    return output


def fetched(html: str) -> list[str]:
    """Return the addresses on other hosts from which a browser would load parts of the page."""
    return [*FETCHED.findall(html), *FETCHED_LINK.findall(html)]
