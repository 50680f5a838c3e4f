"""Makes pages of the site from the documents, where what is right in a checkout is not right in a site.

`mkdocs.yml` names this file; MkDocs calls the functions for each page, and a warning ends a strict build.
"""

import logging
import re
from typing import Any

# What tells cog how to make the next block.
GENERATOR = re.compile(r"^<!-- \[\[\[.*?\]\]\] -->\n", re.MULTILINE)
# A link to a file of the checkout that is not among the documents: in the site there is no such page.
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
# Something that a browser would fetch by itself from another host.
FETCHED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"' >]*)""")
FETCHED_LINK = re.compile(
    r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preconnect))[^>]*\bhref=["']?(https?://[^"' >]*)"""
)

log = logging.getLogger("mkdocs.kforensics")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page without what is for cog, and with the mere text of links that lead out of the documents."""
    return OUTSIDE.sub(r"\1", GENERATOR.sub("", markdown))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Return a page as it is, warning of what it would fetch from elsewhere: it is read on hosts without a network."""
    for address in fetched(output):
        log.warning("%s fetches %s", page.file.src_uri, address)
    return output


def fetched(html: str) -> list[str]:
    """Return the addresses on other hosts that a browser asks for what the page shows."""
    return [*FETCHED.findall(html), *FETCHED_LINK.findall(html)]
