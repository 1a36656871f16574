"""Commands over several lines: where they end before they should, and where they do not end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_known import known_keys
from sparkwright.lint.rules.systemd_lines import judged
from sparkwright.lint.rules.systemd_reading import EXEC


@file_rule(Verdict.BLOCK)
def line_without_meaning(doc: Document, ctx: Context) -> Iterator[Found]:
    """A line that is neither assignment, comment nor header is passed over.

    Often the rest of a command whose line before it does not end with a backslash.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m
            --port 8000

    Good:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m \\
            --port 8000

    Source: systemd.syntax(7) (tried: systemd 252, 257)
    """
    for at, text, why in doc.passed_over if judged(doc) else ():
        fix = "write Key=value, or # before it"
        if text.startswith("-"):
            fix = "end the line above with a backslash, with nothing behind it"
        yield Found(at, f"systemd passes over this line: {why}", fix, sees="")


@file_rule(Verdict.BLOCK)
def blank_behind_backslash(doc: Document, ctx: Context) -> Iterator[Found]:
    """A blank behind the backslash ends the command there.

    A line goes on in the next one only when the backslash is its last character. Otherwise the
    program gets a lone backslash, and systemd passes over the lines that follow.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m \\␠
            --port 8000

    Good:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m \\
            --port 8000

    Source: systemd.syntax(7) (tried: systemd 252, 257)
    """
    for directive in doc.directives if judged(doc) else ():
        value = directive.value
        if (len(value) - len(value.rstrip("\\"))) % 2 == 1:
            yield Found(
                directive.place(len(value) - 1), "blanks follow the backslash: the line ends here",
                "remove them: the backslash must be the last character", sees="\\",
            )  # fmt: skip


_BEGINS: Final = re.compile(r"\s*(?:([A-Z][A-Za-z]+)=|\[(Unit|Service|Install)\])")


@file_rule(Verdict.BLOCK)
def swallowed_line(doc: Document, ctx: Context) -> Iterator[Found]:
    """A backslash at the end of a command's last line makes the next assignment part of it.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m \\
            --port 8000 \\
        Restart=on-failure

    Good:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m \\
            --port 8000
        Restart=on-failure

    Source: systemd.syntax(7) (tried: systemd 252, 257)
    """
    for directive in doc.directives if judged(doc) else ():
        keys = known_keys().get(directive.section, {})
        for offset, _ in directive.spots if len(directive.spots) > 1 else ():
            rest = directive.value[offset:]
            match = _BEGINS.match(rest)
            if offset and match and (match[2] or match[1] in keys):
                text = rest.strip().split(" ")[0]
                what = "an argument" if directive.key in EXEC else "part of the value"
                yield Found(
                    directive.place(offset + len(rest) - len(rest.lstrip())),
                    f"{text} is {what} of {directive.key}=: the line above ends with a backslash",
                    "remove the backslash at the end of the line above", sees=text,
                )  # fmt: skip
