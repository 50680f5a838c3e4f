"""Every table that the package states has its section on some page."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import kforensics
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.tables.schemas import TABLES, Table
from scripts import documented

PACKAGE = Path(kforensics.__file__).parent
DOCS = Path(__file__).resolve().parent.parent / "docs"


def _stated_tables() -> Iterator[Table]:
    for path in sorted({*PACKAGE.rglob("*tables.py"), *PACKAGE.rglob("schemas.py")}):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, Mapping):
                yield from (each for each in value.values() if isinstance(each, Table))


def test_every_table_of_the_package_has_its_section_on_some_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    stated = {each.name: each for each in _stated_tables()}
    assert {*TABLES, *RESULTS} < set(stated)
    assert [name for name, each in stated.items() if documented.section(each) not in text] == []
