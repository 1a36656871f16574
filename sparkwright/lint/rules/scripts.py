"""Rules about shell scripts: lines that do not continue, files that no shell reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import At, Document, Kind
from sparkwright.lint.registry import file_rule

WARN, BLOCK = Verdict.WARN, Verdict.BLOCK
_MEANT = re.compile(r"\\\s+(#.*)?$")
_SHELL = frozenset({Kind.SCRIPT, Kind.COMMAND_RECIPE})


@file_rule(BLOCK)
def broken_continuation(doc: Document, ctx: Context) -> Iterator[Found]:
    r"""A command line that ends early: a space or a comment behind the backslash.

    Only a backslash at the very end joins two lines. With `\ # why` the command starts without the
    rest of its flags, and the next line is a command of its own that does not exist.

    Bad:
        vllm serve /srv/m \  # the model
          --port 8000

    Good:
        vllm serve /srv/m \
          --port 8000

    Source: bash manual, "Escape Character"
    """
    if doc.kind not in _SHELL:
        return
    for command in doc.commands:
        first = command.argv[0] if command.argv else None
        if first is None or not re.match(r"--?[A-Za-z][\w-]+", first.text or ""):
            continue
        if command.wrapped or first.raw != first.text:
            continue
        before = doc.lines[command.at.line - 2].strip() if command.at.line > 1 else ""
        if "guide" in doc.facts and not _MEANT.search(doc.lines[command.at.line - 2]):
            continue  # a list of flags to add somewhere
        yield Found(
            command.at,
            f"{first.text} begins a command of its own: the line before does not continue",
            "end the line before with a backslash and nothing behind it; move comments above",
            sees=before[-60:] or (first.text or ""),
        )


@file_rule(BLOCK)
def windows_line_ends(doc: Document, ctx: Context) -> Iterator[Found]:
    r"""A shell script with Windows line ends.

    bash takes the carriage return as part of each last word: `--port 8000\r`, and a program named
    `bash\r` is not found.

    Bad:
        printf '#!/bin/bash\r\nvllm serve /srv/m\r\n'

    Good:
        printf '#!/bin/bash\nvllm serve /srv/m\n'

    Source: bash manual, "Shell Syntax"
    """
    if doc.kind is Kind.SCRIPT and doc.crlf and "embedded" not in doc.facts:
        yield Found(
            At(doc.path, 1),
            "the script has Windows line ends (CRLF): each last word gets a carriage return",
            "convert it: sed -i 's/\\r$//' FILE",
            sees=doc.lines[0][:40] + "\r",
        )


@file_rule(BLOCK)
def script_byte_order_mark(doc: Document, ctx: Context) -> Iterator[Found]:
    """A byte order mark before `#!`: the kernel does not see the interpreter line.

    Bad:
        "\\xef\\xbb\\xbf#!/bin/bash"

    Good:
        "#!/bin/bash"

    Source: execve(2), "Interpreter scripts"
    """
    if doc.kind is Kind.SCRIPT and doc.bom and "embedded" not in doc.facts:
        yield Found(
            At(doc.path, 1),
            "the file begins with a byte order mark, so #! is not seen and line 1 fails",
            "save it as UTF-8 without BOM",
            sees="\ufeff" + doc.lines[0][:40],
        )
