"""The site: it has every page, and shows nothing that only a checkout can follow or only a network can bring."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

import kforensics
import kforensics.plots
from kforensics.cli import app
from scripts import site_pages, site_pictures

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
# The background of code in Material's dark scheme, hsl(225, 15%, 18%).
DARK_CODE = "#272a35"
COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]  # typer names no class for a group


def test_every_page_is_in_the_nav_once() -> None:
    """A strict build demands it too, but the tests need no MkDocs."""
    (nav,) = re.findall(r"^nav:\n(.*?)(?=^\S|\Z)", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^ +- [^:\n]+: (\S+)$", nav, re.MULTILINE)
    assert sorted(listed) == sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_page_says_when_to_ask_a_command(command: str) -> None:
    assert f"| [`{command}`]({command}.md) |" in (ROOT / "docs/index.md").read_text("utf-8")


def test_a_page_of_the_site_has_no_generator_and_no_link_out_of_the_documents() -> None:
    page = """See [`tables.py`](../kforensics/parsers/tables/schemas.py) and [findings](findings.md#damage).

<!-- [[[cog import scripts.documented as made; cog.out(made.tables()) ]]] -->

A [benchmark](../benchmarks/README.md#scale).

<!-- [[[end]]] -->
"""
    shown = site_pages.on_page_markdown(page)
    assert shown == "See `tables.py` and [findings](findings.md#damage).\n\n\nA benchmark.\n\n"


def test_the_first_page_has_pictures() -> None:
    """Where no browser can make one of a report, the terminal is alone."""
    page = (ROOT / "docs/index.md").read_text("utf-8")
    shown = site_pages.on_page_markdown(page, files=[SimpleNamespace(src_uri="pictures/report.png")])
    assert re.findall(r'<img src="(\S+)"', shown) == ["pictures/terminal.svg", "pictures/report.png"]
    assert re.findall(r'<img src="(\S+)"', site_pages.on_page_markdown(page)) == ["pictures/terminal.svg"]


def test_the_picture_of_a_terminal_fetches_nothing_and_is_always_the_same() -> None:
    picture = site_pictures.terminal()
    assert re.findall(r"(?:url\(|href=)[\"']?(?!#)[^)\s]*", picture) == []
    assert "stuck-transaction" in picture
    assert picture == site_pictures.terminal()


@pytest.mark.parametrize(
    ("html", "addresses"),
    [
        ('<script src="https://a.example/x.js"></script>', ["https://a.example/x.js"]),
        ("<img alt='' src=//a.example/x.png>", ["//a.example/x.png"]),
        ('<link rel="stylesheet" href="https://a.example/x.css">', ["https://a.example/x.css"]),
        ('<link href="https://a.example/x.css" rel="stylesheet">', ["https://a.example/x.css"]),
        ('<script src="assets/x.js"></script><link rel="stylesheet" href="assets/x.css">', []),
        ('<a href="https://a.example/">there</a> <code>&lt;img src="https://a.example/"&gt;</code>', []),
    ],
    ids=["script", "image", "style", "style-first", "local", "link"],
)
def test_what_a_page_fetches_from_other_hosts_is_seen(html: str, addresses: list[str]) -> None:
    assert site_pages.fetched(html) == addresses


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs/api.md").read_text("utf-8")
    shown = set(re.findall(r"^::: kforensics\.(\S+)$", page, re.MULTILINE))
    missing = {*kforensics.__all__, *(f"plots.{name}" for name in kforensics.plots.__all__)} - shown
    assert missing == {"__version__", "plots", "plots.MAX_MARKS", "plots.Plot"}
    assert shown <= {"analyses.settings.Evaluation", "api.explanation.Explanation"} | {
        *kforensics.__all__,
        *(f"plots.{name}" for name in kforensics.plots.__all__),
    }


def test_a_docstring_has_no_roles_in_the_site() -> None:
    shown = site_pages.on_page_content("<p>see :class:<code>Evaluation</code>: <code>:class:</code></p>", page=None)
    assert shown == "<p>see <code>Evaluation</code>: <code>:class:</code></p>"


def test_colors_of_code_are_readable_in_the_dark() -> None:
    """A contrast of 4.5 is what AA of the guidelines for accessible pages asks for."""
    style = (ROOT / "docs/site.css").read_text("utf-8")
    (dark,) = re.findall(r'^\[data-md-color-scheme="slate"\] \{(.*?)^\}', style, re.MULTILINE | re.DOTALL)
    colors = re.findall(r"--md-code-hl-(?:number|constant)-color: (#\w{6});", dark)
    assert len(colors) == 2
    assert min(_contrast(color, DARK_CODE) for color in colors) >= 4.5


def _contrast(color: str, background: str) -> float:
    darker, lighter = sorted((_luminance(color), _luminance(background)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
