"""The documents name only things that exist: links, targets, commands, settings, messages."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from sparkwright.cli import COMMANDS, main
from sparkwright.drift_metrics import GAUGES
from sparkwright.fleet import load_fleet
from sparkwright.fleet_artifacts import WORDS
from sparkwright.fleet_settings import settings_defaults

PROJECT = Path(__file__).resolve().parents[2]
DOCS = [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted((PROJECT / "docs").glob("*.md"))]
TROUBLE = PROJECT / "docs" / "troubleshooting.md"
AIR_GAP = PROJECT / "docs" / "air-gap.md"
SETTINGS = settings_defaults(PROJECT / "group_data/all.py")
GONE = "\N{HORIZONTAL ELLIPSIS}"  # stands for a name or number in a quoted message

each_document = pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)


def spans(text: str) -> list[str]:
    """Inline code of a document, fenced blocks left out."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def code(text: str) -> str:
    """Fenced and indented blocks and inline code: everything that a reader may type."""
    fenced = re.findall(r"^```.*?\n(.*?)^```", text, flags=re.M | re.S)
    indented = re.findall(r"^    .*$", text, flags=re.M)
    return "\n".join([*fenced, *indented, *spans(text)])


def docstrings(tree: ast.AST) -> set[int]:
    """Ids of the nodes that only describe the code; nobody prints them."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def template(node: ast.AST) -> str:
    """A string as the program would print it, with an ellipsis for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(value) for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else GONE


@cache
def templates() -> tuple[str, ...]:
    """Every string in the programs that print for users."""
    found = []
    places = ("sparkwright", "tasks", "files/opt/sparkwright/lib", "tests/lab")
    for path in (file for place in places for file in sorted((PROJECT / place).glob("*.py"))):
        tree = ast.parse(path.read_text())
        silent = docstrings(tree)
        texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant | ast.JoinedStr)]
        found += [template(node) for node in texts if id(node) not in silent]
    return tuple(found)


def printed(message: str) -> bool:
    """Whether one string of the code holds the parts of a quoted message, in their order."""
    parts = [re.escape(part) for part in message.split(GONE) if part.strip()]
    wanted = re.compile(".*?".join(parts), re.S)
    return bool(parts) and any(wanted.search(text) for text in templates())


def symptoms() -> list[str]:
    """First cells of the tables in docs/troubleshooting.md."""
    rows = [line for line in TROUBLE.read_text().splitlines() if line.startswith("| ")]
    cells = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    return [cell for cell in cells if cell not in ("What you see", "---")]


def messages() -> list[str]:
    """Quoted messages: longer than a word, so that names of files do not count."""
    return [span for cell in symptoms() for span in spans(cell) if " " in span]


@each_document
def test_relative_links_resolve(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text())
    local = [link.split("#")[0] for link in links if "://" not in link]
    missing = [link for link in local if link and not (path.parent / link).exists()]
    assert missing == []


@each_document
def test_make_targets_exist(path: Path) -> None:
    rules = (PROJECT / "Makefile").read_text() + (PROJECT / "tests/lab/lab.mk").read_text()
    known = {name for line in re.findall(r"^([a-z -]+):", rules, re.M) for name in line.split()}
    named = set(re.findall(r"\bmake ([a-z-]+)", code(path.read_text())))
    assert named - known == set()


@each_document
def test_settings_exist(path: Path) -> None:
    text = path.read_text()
    named = set(re.findall(r"--data ([a-z_]+)=", text))
    for block in re.findall(r"settings: \{(.+?)\}", text, re.S):
        named |= set(re.findall(r"([a-z_]+):", block))
    assert named - set(SETTINGS) == set()


def words_of(value: object) -> set[str]:
    """Every key in a YAML document, however deep."""
    if isinstance(value, dict):
        return {str(key) for key in value}.union(*(words_of(item) for item in value.values()))
    return set().union(*(words_of(item) for item in value)) if isinstance(value, list) else set()


def known_words() -> set[str]:
    """Names with an underscore that a document may use: settings, keys of our files, modules."""
    example = (PROJECT / "sparks.example.yaml").read_text()
    examples = sorted((PROJECT / "recipes").glob("_example*.yaml"))
    keys = set().union(*(words_of(yaml.safe_load(path.read_text())) for path in examples))
    keys |= words_of(yaml.safe_load((PROJECT / "artifacts.lock.yaml").read_text()))
    keys |= set(re.findall(r"([a-z_]+):", example))
    modules = {p.stem for place in ("tasks", "sparkwright") for p in (PROJECT / place).glob("*.py")}
    return keys | modules | set(SETTINGS) | set(GAUGES)


@each_document
def test_names_with_an_underscore_are_settings_keys_or_modules(path: Path) -> None:
    text = code(path.read_text())
    named = set(re.findall(r"(?<![\w./-])[a-z]+(?:_[a-z0-9]+)+(?![\w./(=-])", text))
    elsewhere = {
        "known_hosts",
        "ssh_host_ed25519_key",
        "id_ed25519",
        "tool_calls",
        "key_file",
        "sarif_file",
        "require_serial",
        "ib_write_bw",
    }
    assert named - known_words() - elsewhere == set()


@each_document
def test_paths_of_the_project_exist(path: Path) -> None:
    tops = (
        "deploy.py|inventory.py|(?:scripts|tests|tasks|recipes|files|group_data|docs|sparkwright)/"
    )
    named = set(re.findall(rf"(?<![\w./-])((?:{tops})[\w./-]*)", code(path.read_text())))
    # The air gap's page and a reader's own recipe are named before they exist.
    coming = {"docs/air-gap.md", "recipes/my-model.yaml", "recipes/"}
    assert {name for name in named - coming if not (PROJECT / name).exists()} == set()


@each_document
def test_sparkwright_commands_and_their_options_exist(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = code(path.read_text())
    typed = r"^(?:.*&& |[A-Z_]+=\S+ )?sparkwright ([a-z]+)([^\n`&#]*)"
    for command, rest in re.findall(typed, text, re.M):
        assert command in COMMANDS
        with pytest.raises(SystemExit):
            main([command, "--help"])
        shown = capsys.readouterr().out
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in shown


def test_the_readme_fits_its_budget() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 200


def test_troubleshooting_has_enough_rows() -> None:
    assert len(symptoms()) >= 25
    assert len(messages()) >= 25


@pytest.mark.parametrize("message", messages())
def test_a_quoted_message_is_in_the_code(message: str) -> None:
    assert printed(message)


def air_gap_messages() -> list[str]:
    """Messages in the last table of the air gap's page."""
    table = AIR_GAP.read_text().split("## When something is wrong")[1]
    return re.findall(r"^\| `([^`]+)` \|", table, re.M)


@pytest.mark.parametrize("message", air_gap_messages())
def test_a_quoted_message_of_the_air_gap_is_in_the_code(message: str) -> None:
    assert printed(message)


def test_the_air_gaps_examples_are_taken(tmp_path: Path) -> None:
    """Each `artifacts: {…}` of the page, as a reader copies it."""
    examples = re.findall(r"^artifacts: .*$", AIR_GAP.read_text(), re.M)
    assert len(examples) >= 3
    for text in examples:
        path = tmp_path / "sparks.yaml"
        path.write_text(f"{text}\nsparks: {{a: {{address: 192.0.2.1}}}}\n")
        found = load_fleet(path, SETTINGS).artifacts
        assert found.source in ("mirror", "bundle")
        assert found.url or found.path


def test_the_air_gaps_page_has_its_parts() -> None:
    text = AIR_GAP.read_text()
    for word in WORDS:
        assert re.search(rf"^`from: {word}`.*?^    laptop", text, re.M | re.S), word
    for part in ("Sizes to expect for gpt-oss-120b", "Update a site later", "Add a model later"):
        assert f"\n## {part}\n" in text
    for command in ("lock --fleet", "bundle /", "bundle verify /", "converge"):
        assert f"sparkwright {command}" in text


@each_document
def test_programs_of_the_machine_exist(path: Path) -> None:
    named = set(re.findall(r"/opt/sparkwright/lib/([a-z_]+\.py)", code(path.read_text())))
    here = PROJECT / "files/opt/sparkwright/lib"
    assert {name for name in named if not (here / name).exists()} == set()


def test_a_message_that_nobody_prints_is_noticed() -> None:
    assert not printed(f"no recipe named {GONE} anywhere at all")
    assert not printed("Why this is not one hop, or None")  # a docstring


@pytest.mark.parametrize("script", [".ci/run", "scripts/setup.sh"])
def test_scripts_can_be_started(script: str) -> None:
    assert (PROJECT / script).stat().st_mode & 0o111


def test_the_ci_runs_the_command_of_the_readme() -> None:
    assert "make --no-print-directory test" in (PROJECT / ".ci/run").read_text()
    assert "`make test`" in (PROJECT / "README.md").read_text()
