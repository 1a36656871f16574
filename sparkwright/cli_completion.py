"""`sparkwright completion SHELL`: what a shell needs to complete these commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sparkwright.completion import SHELLS

EPILOG = """bash: echo 'eval "$(sparkwright completion bash)"' >>~/.bashrc
zsh:  echo 'eval "$(sparkwright completion zsh)"' >>~/.zshrc     (after compinit)
fish: sparkwright completion fish >~/.config/fish/completions/sparkwright.fish
example: sparkwright completion bash"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="sparkwright completion",
        description="Print what a shell needs to complete commands, options, recipes and sparks.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return made


def main(argv: Sequence[str]) -> int:
    """Print the shell's function."""
    options = parser().parse_args(list(argv))
    import argcomplete

    print(argcomplete.shellcode(["sparkwright"], shell=options.shell))
    return 0
