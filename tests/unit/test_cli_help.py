"""Help, completion and the page of all commands: one source, with examples that work."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from sparkwright import cli_page, completion
from sparkwright.cli import COMMANDS, main
from sparkwright.paths import PROJECT
from tests.e2e.support import PROGRAM

SPARKS = """sparks:
  spark-1: {address: 10.0.0.1, groups: [rack-a], serve: []}
  spark-2: {address: 10.0.0.2, groups: [rack-a], serve: []}
"""


def parsers() -> list[argparse.ArgumentParser]:
    from sparkwright import cli_bundle

    return [*map(completion.parser_of, COMMANDS), cli_bundle.parser(verifying=True)]


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.prog)
def test_every_help_shows_an_example_that_its_own_parser_takes(
    parser: argparse.ArgumentParser,
) -> None:
    found = re.search(rf"^example: {parser.prog}(.*)$", parser.epilog or "", re.M)
    assert found, parser.prog
    parser.parse_args(shlex.split(found[1]))
    assert found[0] in parser.format_help().splitlines()
    assert all(len(line) <= 100 for line in parser.epilog.splitlines())  # type: ignore[union-attr]


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.prog)
def test_every_option_is_described(parser: argparse.ArgumentParser) -> None:
    bare = [a.dest for a in parser._actions if not a.help]
    # What a command works on is said by its description.
    assert [name for name in bare if name not in ("directory", "recipe", "files")] == []


def test_help_of_a_command_is_its_parsers(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out == completion.parser_of(name).format_help()


def test_the_page_is_current() -> None:
    """After a change of an option: make cli-docs."""
    assert (PROJECT / "docs/cli.md").read_text() == cli_page.page()


# --- completion, in a real bash ---


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "sparks.yaml"
    path.write_text(SPARKS)
    return path


def completed(fleet: Path, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    script = f"""
PATH={Path(PROGRAM).parent}:$PATH
eval "$(sparkwright completion bash)"
function=$(complete -p sparkwright | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMPREPLY=()
read -ra COMP_WORDS <<<"$COMP_LINE"; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$function sparkwright
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    env = {"SPARKS_FILE": str(fleet), "PATH": "/usr/bin:/bin", "HOME": "/"}
    words = ["bash", "-c", script]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return [word.strip() for word in done.stdout.splitlines() if word.strip()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sparkwright weig", ["weights"]),
        ("sparkwright weights pr", ["prune"]),
        ("sparkwright weights --ap", ["--apply"]),
        ("sparkwright status --limit rack", ["rack-a"]),
        ("sparkwright status --limit spark-", ["spark-1", "spark-2"]),
        ("sparkwright logs gpt-oss-120b-ll", ["gpt-oss-120b-llamacpp"]),
        ("sparkwright nonsense --", ["--help"]),
    ],
)
def test_bash_completes(fleet: Path, line: str, offered: list[str]) -> None:
    assert completed(fleet, line) == offered


def test_a_fleet_file_that_is_wrong_offers_no_machine(fleet: Path) -> None:
    fleet.write_text("sparks: 5\n")
    assert completed(fleet, "sparkwright status --limit spark-") == []
    assert completed(fleet, "sparkwright fit gpt-oss-120b-l") == ["gpt-oss-120b-llamacpp"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_gets_a_function(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "sparkwright" in text
    assert {"bash": "COMPREPLY", "zsh": "compdef", "fish": "complete --command"}[shell] in text
