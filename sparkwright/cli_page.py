"""docs/cli.md out of the commands' own options: `python -m sparkwright.cli_page >docs/cli.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from sparkwright.cli import COMMANDS
from sparkwright.completion import parser_of

HEAD = """# Commands

Every command of `sparkwright` with its options, as `sparkwright COMMAND --help` prints them. This
page is made from them (`make cli-docs`); do not edit it. [operate.md](operate.md) says what the
commands that look at running machines are for.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, text in COMMANDS.items():
        parts.append("\n".join(section(parser_of(name), text)))
        if name == "bundle":
            from sparkwright import cli_bundle

            parts.append("\n".join(section(cli_bundle.parser(verifying=True), "prove one")))
    return "\n".join(parts)


def section(parser: argparse.ArgumentParser, text: str) -> list[str]:
    """One command.

    + text: what the list of commands says of it
    """
    lines = [f"## {parser.prog}", "", f"{text[0].upper()}{text[1:]}.", ""]
    if parser.description:
        lines += [" ".join(parser.description.split()), ""]
    lines += [f"    {usage(parser)}", "", "| | |", "|---|---|"]
    lines += rows(parser)
    if parser.epilog:
        lines += ["", *(f"    {line}".rstrip() for line in parser.epilog.splitlines())]
    return [*lines, ""]


def usage(parser: argparse.ArgumentParser) -> str:
    """One line: what must be given, and that there are options."""
    words = [parser.prog]
    for action in _shown(parser):
        if not action.option_strings:
            many = "…" if action.nargs in ("*", "+") else ""
            must = action.nargs not in ("?", "*")
            name = _name(action)
            words.append(f"{name}{many}" if must else f"[{name}{many}]")
    return " ".join([*words, "[options]"])


def rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A line of the table for each option; not argparse's own text, which differs by release."""
    for action in _shown(parser):
        words = ", ".join(action.option_strings) or _name(action)
        value = f" {_name(action)}" if action.option_strings and action.nargs != 0 else ""
        told = (action.help or "").replace("|", "\\|").replace("%%", "%")
        yield f"| `{words}{value}` | {told} |"


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Its options without -h; argparse has no public list of them (argcomplete reads this too)."""
    return [action for action in parser._actions if action.dest != "help"]


def _name(action: argparse.Action) -> str:
    if action.metavar:
        return str(action.metavar)
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


if __name__ == "__main__":
    sys.stdout.write(page())
