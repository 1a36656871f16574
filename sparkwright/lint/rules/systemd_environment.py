"""Environment= lines and what reaches the process of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Assignment, Directive, Document, How
from sparkwright.lint.parse.systemd import Piece, env_words
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_reading import SYSTEMD, assignments

_ASSIGNED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_LITERAL: Final = frozenset({How.UNIT, How.ENVFILE, How.DOCKER_FILE})
# The hub client expands both itself (huggingface_hub 2.4.0, constants.py).
_EXPANDED: Final = frozenset({"HF_HOME", "HF_HUB_CACHE", "HF_ASSETS_CACHE", "HF_TOKEN_PATH"})
_NO_TILDE: Final = re.compile(
    r"(PATH|HOME|LD_LIBRARY_PATH|TRITON_PTXAS_PATH|CUDA_HOME|CUDACXX|TIKTOKEN_\w+|XDG_\w+)"
)
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _lines(doc: Document) -> Iterator[Directive]:
    if doc.kind in SYSTEMD:
        yield from (d for d in doc.directives if d.key == "Environment" and d.section == "Service")


@file_rule(Verdict.BLOCK, Verdict.WARN)
def environment_words(doc: Document, ctx: Context) -> Iterator[Found]:
    """A value of Environment= ends at the first blank outside of quotes.

    The words after it are "Invalid environment assignment, ignoring", and `systemd-analyze verify`
    exits 0. A comment behind the value is passed over in the same way.

    Bad:
        Environment=VLLM_EXTRA=--max-model-len 32768

    Good:
        Environment="VLLM_EXTRA=--max-model-len 32768"

    Source: systemd.exec(5) Environment=; edgehero/pi-dispatch#392 (tried: systemd 252, 257)
    """
    for line in _lines(doc):
        words = env_words(line).words
        wrong = next((i for i, w in enumerate(words) if not _ASSIGNED.match(w.text)), None)
        if wrong is None:
            continue
        first = words[wrong]
        rest = line.value[first.start :]
        if line.value[first.start] == "#":
            yield Found(
                line.place(first.start), "the comment's words are passed over one by one",
                "put the comment on a line of its own", verdict=Verdict.WARN,
                sees=" ".join(w.text for w in words[:wrong]),
            )  # fmt: skip
            continue
        yield Found(
            line.place(first.start), f"{rest} is no assignment: systemd passes over it",
            _joined(line, words, wrong), sees=" ".join(w.text for w in words[:wrong]),
        )  # fmt: skip


def _joined(line: Directive, words: tuple[Piece, ...], wrong: int) -> str:
    if wrong == 0:
        name = words[0].text.rstrip("=")
        if name == "export" and len(words) > 1:
            return f"write Environment={line.value[words[1].start :]}"
        value = " ".join(word.text for word in words[1:] if word.text != "=")
        return f'write Environment="{name}={value}"'
    end = next((i for i in range(wrong, len(words)) if _ASSIGNED.match(words[i].text)), len(words))
    text = " ".join(word.text for word in words[wrong - 1 : end])
    return 'write Environment="' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@file_rule(Verdict.BLOCK)
def environment_dropped(doc: Document, ctx: Context) -> Iterator[Found]:
    """An open quote or an escape that systemd does not know drops the rest of an Environment= line.

    "Invalid syntax, ignoring", and the assignments from that one on are not there; those before it
    on the line are. Backslashes of a pattern or a Windows path are the usual reason.

    Bad:
        Environment="PATTERN=\\d+" "B=1"

    Good:
        Environment="PATTERN=\\\\d+" "B=1"

    Source: systemd.exec(5) Environment=; systemd.syntax(7) (tried: systemd 252, 257)
    """
    for line in _lines(doc):
        parts = env_words(line)
        if not parts.trouble:
            continue
        fix = 'write Environment="NAME=value" with both quotes'
        if line.value[parts.at] == "\\":
            fix = f"double the backslash: \\{line.value[parts.at : parts.at + 2]}"
        yield Found(
            line.place(parts.at), f"{parts.trouble}: systemd passes over the rest of the line",
            fix, sees=" ".join(word.text for word in parts.words),
        )  # fmt: skip


def _literal(doc: Document) -> Iterator[tuple[Assignment, str]]:
    """Assignments of files in which neither `$` nor `~` means anything."""
    for item in assignments(doc):
        if item.how in _LITERAL and item.value and item.name not in _EXPANDED:
            yield item, item.value


@file_rule(Verdict.BLOCK)
def environment_dollar(doc: Document, ctx: Context) -> Iterator[Found]:
    """`$NAME` in Environment= and in an EnvironmentFile is no variable.

    The process gets the text as it stands: `/x:$LD_LIBRARY_PATH` is a search path with a folder
    of that name. Docker's --env-file does the same.

    Bad:
        Environment=LD_LIBRARY_PATH=/opt/x/lib:$LD_LIBRARY_PATH

    Good:
        Environment=LD_LIBRARY_PATH=/opt/x/lib

    Source: systemd.exec(5) Environment=; aws-samples/appmod-blueprints#635 (tried: 252, 257)
    """
    for item, value in _literal(doc):
        match = re.search(r"\$(\{[A-Za-z_]\w*[^}]*\}|[A-Z_][A-Z0-9_]+)", value)
        if match is None:
            continue
        name = match[1].strip("{}")
        fix = f"write the value itself in place of {match[0]}"
        if name == item.name:
            rest = value.replace(match[0], "").strip(":")
            rest = f"{rest}:{_SYSTEM_PATH}" if name == "PATH" else rest
            fix = f"write {item.name}={rest}"
        yield Found(item.at, f"{match[0]} is not replaced in {item.name}", fix, sees=value)


@file_rule(Verdict.WARN, Verdict.BLOCK)
def environment_tilde(doc: Document, ctx: Context) -> Iterator[Found]:
    """`~` in Environment= and in an EnvironmentFile is no home directory.

    Some programs expand it themselves; harmony, Triton and the dynamic linker do not.

    Bad:
        Environment=TIKTOKEN_ENCODINGS_BASE=~/tk

    Good:
        Environment=TIKTOKEN_ENCODINGS_BASE=/srv/tk

    Source: systemd.exec(5) Environment=; triton-lang/triton#8539 (tried: openai-harmony 0.0.8)
    """
    for item, value in _literal(doc):
        if re.search(r"(^|:)~", value):
            sure = _NO_TILDE.fullmatch(item.name) is not None
            yield Found(
                item.at, f"~ in {item.name} stays as it is", "write the absolute path",
                sees=value, verdict=Verdict.BLOCK if sure else Verdict.WARN,
            )  # fmt: skip
