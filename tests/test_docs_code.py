"""All code in the documents is run or, where it needs machines that are not here, read as they would read it."""

import ast
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from typer.main import get_command

import kforensics
from kforensics.cli import app
from kforensics.errors import PUBLISHED
from scripts import documented
from scripts.install_lines import WHEEL
from tests.command import run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What cog runs, and what it wrote the last time.
CALCULATED = re.compile(r"^<!-- \[\[\[cog (.*?) \]\]\] -->\n(.*?)^<!-- \[\[\[end\]\]\] -->$", re.MULTILINE | re.DOTALL)
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]  # typer names no class for a group
# Programs of other machines, which are not run here.
ELSEWHERE = ("du", "git", "grep", "kubectl", "python3", "rsync", "scp", "sort", "ssh", "zstd")
# What sets up completion: tests/cli/test_completion.py does.
COMPLETION = (["--install-completion"], [">"])
# What is too large to be run for a page: other tests hold these against what they print.
OF_MAKE = {"make demo", "make test", "make demo-spark"}


def _code(page: Path, language: str) -> list[str]:
    return [code for found, code in FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def _id(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_code_is_in_a_language_that_a_test_runs_or_reads(page: Path) -> None:
    """What has no language is a drawing, and ``text`` an output: of ``py`` above it, which needs Spark, or of cog."""
    text = page.read_text(encoding="utf-8")
    of_spark = ("py", "text") if page.stem == "spark" else ()
    languages = {language for language, _ in FENCE.findall(CALCULATED.sub("", text))}
    assert languages <= {"", "console", "python", "sh", "sql", "toml", "yaml", *of_spark}


@pytest.mark.parametrize("page", [page for page in PAGES if _code(page, "toml")], ids=_id)
def test_configuration_files_are_accepted(page: Path, tmp_path: Path) -> None:
    for code in _code(page, "toml"):
        (tmp_path / "kforensics.toml").write_text(code, "utf-8")
        logs = ROOT / "sample_logs" / "cluster-metadata"
        for words in (["lso", "--topic", "kept"], ["audit"], ["settings"]):
            ended = run(*words, "--config", tmp_path / "kforensics.toml", logs)
            assert ended.code < 2, ended.err


@pytest.mark.parametrize("page", [page for page in PAGES if _code(page, "yaml")], ids=_id)
def test_manifests_run_commands_that_there_are(page: Path) -> None:
    yaml = pytest.importorskip("yaml")
    documents = [document for code in _code(page, "yaml") for document in yaml.safe_load_all(code)]
    containers = [
        container
        for document in documents
        if document.get("kind") == "Job"
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    assert containers
    for container in containers:
        _parse(container["args"][0], container["args"][1:])


@pytest.mark.parametrize("page", [page for page in PAGES if _code(page, "yaml")], ids=_id)
def test_manifests_mount_evidence_read_only(page: Path) -> None:
    yaml = pytest.importorskip("yaml")
    mounts = re.findall(r"^ *- (\{.*mountPath: /evidence.*\})$", "\n".join(_code(page, "yaml")), re.MULTILINE)
    assert mounts
    assert all(yaml.safe_load(mount)["readOnly"] for mount in mounts)


def test_the_example_of_compose_reads_only() -> None:
    yaml = pytest.importorskip("yaml")
    service = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["kforensics"]
    assert service["read_only"]
    assert [volume for volume in service["volumes"] if volume.startswith("kafka-data:")] == ["kafka-data:/evidence:ro"]


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_console_blocks_show_what_is_run(page: Path) -> None:
    commands = [command for block in documented.blocks(page) for command, _ in block]
    strange = {command for command in commands if not command.startswith(documented.RUNNABLE)}
    assert strange <= (OF_MAKE if page.name == "README.md" else set())


def _lines(page: Path) -> Iterator[list[str]]:
    for code in _code(page, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            # Not shlex's comments: it takes the # inside a word for one too.
            words = shlex.split(re.sub(r"(^|\s)#.*", "", line))
            starts = [0, *(number + 1 for number, word in enumerate(words) if word == "|")]
            for start, stop in zip(starts, [*(number - 1 for number in starts[1:]), len(words)], strict=True):
                if words[start:stop]:
                    yield words[start:stop]


@pytest.mark.parametrize(
    "words",
    [pytest.param(words, id=f"{page.stem}-{number}") for page in PAGES for number, words in enumerate(_lines(page))],
)
def test_commands_for_other_machines_are_such_as_there_are(words: list[str]) -> None:
    match _without_settings(words):
        case ["kubectl", "debug", *rest]:
            start = rest.index("--") + 1
            assert rest[start] == "kforensics"
            _parse(rest[start + 1], rest[start + 2 :])
        case [tool, *rest] if tool in ELSEWHERE or rest[:1] in COMPLETION:
            pass
        case ["kforensics", command, *arguments]:
            _parse(command, arguments)
        case ["spark-submit", *rest]:
            script = next(number for number, word in enumerate(rest) if word.endswith("cli.py"))
            _parse(rest[script + 1], rest[script + 2 :])
        case ["pip" | "%pip", "install", what]:
            _installable(what)
        case ["kafka-transactions.sh", *_]:
            assert " ".join(words).replace("broker:9092", '"$BOOTSTRAP"') in (ROOT / "docs/tutorial.md").read_text(
                "utf-8"
            )
        case ["docker", "run" | "compose", *rest]:
            start = rest.index("kforensics") + 1
            _parse(rest[start], rest[start + 1 :])
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        case ["docker", "build", *_]:
            assert (ROOT / "Dockerfile").exists()
        case other:
            pytest.fail(f"no test reads {other}")


def _without_settings(words: list[str]) -> list[str]:
    return words[1:] if re.match("[A-Z_]+=", words[0]) else words


def _parse(command: str, arguments: list[str]) -> None:
    with COMMANDS[command].make_context(command, list(arguments)) as context:
        assert context.params["store" if command == "report" else "paths"]


def _installable(what: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    if extra := re.fullmatch(rf"(?:\.|{PUBLISHED})\[(\w+)\]", what):
        assert extra[1] in extras
    else:
        # The repository has no address yet: the reader names one.
        assert what in (".", PUBLISHED, "git+$REPOSITORY") or Path(what).name == WHEEL


def test_calls_for_other_machines_have_arguments_that_there_are() -> None:
    """Code for Databricks cannot run here; a call without such a parameter is seen nevertheless."""
    calls = [
        node
        for page in PAGES
        for code in _code(page, "py")
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
    ]
    ours = [
        (call.func.attr, call)
        for call in calls
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "kforensics"
    ]
    assert ours
    for name, call in ours:
        keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
        inspect.signature(getattr(kforensics, name)).bind(*call.args, **keywords)


@pytest.mark.parametrize("page", [page for page in PAGES if _code(page, "sql")], ids=_id)
def test_queries_give_rows(page: Path, tmp_path: Path) -> None:
    kforensics.audit(ROOT / "sample_logs/transactions-v2", output=tmp_path / "evidence", as_of=1795266000000)
    for query in _code(page, "sql"):
        assert "/tmp/evidence" in query  # noqa: S108  # the page's place, not ours
        rows = duckdb.execute(query.replace("/tmp/evidence", str(tmp_path / "evidence")))  # noqa: S108  # the page's place, not ours
        assert rows.fetchall()
