"""The man pages say what ``--help`` says, and roff reads them without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kforensics.cli import COMMANDS, app
from scripts.man_pages import main, man_pages

PAGES = man_pages()
GROFF = shutil.which("groff")
ROFF = {"\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ti": "~", "\\(ha": "^", "\\e": "\\", "\\&": ""}
needs_groff = pytest.mark.skipif(GROFF is None, reason="groff is not installed")


def plain(page: str) -> str:
    """Return a page without the escapes of roff."""
    text = re.sub(r"\\f[BIR]", "", page)
    text = re.sub(r"\\\[u([0-9A-F]{4})\]", lambda found: chr(int(found[1], 16)), text)
    return re.sub("|".join(map(re.escape, ROFF)), lambda found: ROFF[found[0]], text)


def test_there_is_a_page_for_each_command(tmp_path: Path) -> None:
    main(tmp_path / "man")
    expected = {"kforensics.1", *(f"kforensics-{command}.1" for command in COMMANDS)}
    assert {file.name for file in (tmp_path / "man").iterdir()} == expected
    assert all(f"kforensics-{command}(1)" in plain(PAGES["kforensics"]) for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_every_text_of_the_help(command: str) -> None:
    group: Any = get_command(app)
    page = plain(PAGES[f"kforensics-{command}"])
    declared = group.commands[command]
    shown = [one for one in declared.params if not getattr(one, "hidden", False)]
    options = [one for one in shown if one.param_type_name == "option"]
    assert [one.help for one in shown if one.help not in page] == []
    assert [word for one in options for word in (*one.opts, *one.secondary_opts) if word not in page] == []
    examples = re.findall(r"^  (kforensics .*)$", declared.epilog, re.MULTILINE)
    assert examples
    assert [line for line in examples if f"\n{line}\n" not in page] == []
    assert re.findall(r"^\.SH (NAME|SYNOPSIS|EXAMPLES|EXIT STATUS|SEE ALSO)$", page, re.MULTILINE) == [
        "NAME",
        "SYNOPSIS",
        "EXAMPLES",
        "EXIT STATUS",
        "SEE ALSO",
    ]


@needs_groff
@pytest.mark.parametrize("name", PAGES)
def test_roff_has_no_warning(name: str) -> None:
    command = [str(GROFF), "-man", "-Tutf8", "-ww", "-z"]
    done = subprocess.run(command, input=PAGES[name], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@needs_groff
def test_a_page_as_a_reader_sees_it() -> None:
    command = [str(GROFF), "-man", "-Tutf8", "-P-c", "-P-b", "-P-u"]
    done = subprocess.run(command, input=PAGES["kforensics-lso"], capture_output=True, text=True, check=True)
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert shown[0].startswith("KFORENSICS-LSO(1)")
    assert "kforensics lso --history orders-0" in shown
    assert "--bootstrap-server HOST:PORT" in shown
    assert any(line.startswith("kforensics-lso - Show where the last stable offset is") for line in shown)
