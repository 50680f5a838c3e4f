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

# Where the first page has the pictures, which `on_files` makes.
PICTURES = "<!-- pictures -->\n"
TERMINAL = (
    '<img src="pictures/terminal.svg" alt="An audit in a terminal: two critical incidents, each with its remedy">'
)
REPORT = """<a href="pictures/report.html">\
<img src="pictures/report.png" alt="The report of the same audit in a browser"></a>"""

log = logging.getLogger("mkdocs.kforensics")


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures of the first page, and the report that one of them shows."""
    from mkdocs.structure.files import File

    from scripts import site_pictures

    report = site_pictures.report()
    made: dict[str, str | bytes] = {"terminal.svg": site_pictures.terminal(), "report.html": report}
    if picture := site_pictures.screenshot(report):
        made["report.png"] = picture
    else:
        log.info("There is no Chromium, so the first page has no picture of a report.")
    for name, content in made.items():
        files.append(File.generated(config, f"pictures/{name}", content=content))
    return files


def on_page_markdown(markdown: str, files: Any = (), **_: Any) -> str:
    """Return a page with pictures, without comments for cog, and links out of the documents as plain text."""
    shown = [TERMINAL, *(REPORT for file in files if file.src_uri == "pictures/report.png")]
    pictures = f'<p class="pictures">{"".join(shown)}</p>\n'
    return OUTSIDE.sub(r"\1", GENERATOR.sub("", markdown.replace(PICTURES, pictures)))


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
