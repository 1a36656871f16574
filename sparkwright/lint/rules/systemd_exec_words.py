"""What is left of shell syntax and JSON in an Exec line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Directive, Document
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_reading import exec_words

_OPERATOR: Final = re.compile(r"\|\|?|&&?|\|&|(\d|&)?>>?(&\d|&-|[\w/.]*)|<<?|<\(.*")
_INSIDE: Final = re.compile(r"(?<!\$)(?:\$\$)*(\$[A-Za-z_]\w*)")


@file_rule(Verdict.BLOCK)
def exec_shell_syntax(doc: Document, ctx: Context) -> Iterator[Found]:
    """Pipes, redirections and `&&` in an Exec line are plain arguments.

    systemd starts the program itself, without a shell, and hands it these words.

    Bad:
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf >> /var/log/llm.log 2>&1

    Good:
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf
        StandardOutput=append:/var/log/llm.log
        StandardError=inherit

    Source: systemd.service(5) "Command lines"
    """
    seen = set()
    for word in exec_words(doc):
        if word.number == 0 or not _OPERATOR.fullmatch(word.raw) or word.directive.at in seen:
            continue
        seen.add(word.directive.at)
        to_file = ">" in word.raw
        fix = "StandardOutput=append:/var/log/…" if to_file else "/bin/sh -c 'exec …'"
        yield Found(
            word.at, f"{word.raw} reaches {word.program} as an argument: no shell reads this line",
            f"use {fix} instead", sees=word.piece.text,
        )  # fmt: skip


@file_rule(Verdict.BLOCK)
def exec_shell_expansion(doc: Document, ctx: Context) -> Iterator[Found]:
    """Only `${NAME}`, and `$NAME` as a whole word, are replaced in an Exec line.

    `--port=$PORT`, `$(nproc)` inside a word and `${PORT:-8000}` stay as they are. A word that
    begins with `$` and is not a name (`$HOME/m`, `$(nproc)`) disappears altogether.

    Bad:
        ExecStart=/opt/llama/llama-server --port=$PORT -t $(nproc)

    Good:
        ExecStart=/opt/llama/llama-server --port=${PORT} -t 20

    Source: systemd.service(5) "Command lines"; systemd src/basic/env-util.c, replace_env_argv, v255
    """
    for word in exec_words(doc):
        if word.number == 0 or ":" in word.prefixes or (word.script and word.raw[:2] != "$("):
            continue
        text = word.piece.text
        trouble = _expansion(text) if "$" in text or "`" in text else ""
        if trouble:
            gone = re.match(r"\$(?![{$])", text) is not None
            sees = "" if gone else text
            ends = "the word disappears" if gone else "it stays as it is"
            yield Found(
                word.at, f"systemd does not replace {trouble} in {text}: {ends}",
                _expansion_fix(text, trouble), sees=sees,
            )  # fmt: skip


def _expansion(text: str) -> str:
    """What in a word looks as if a shell would replace it, "" when systemd does or nothing is."""
    if re.fullmatch(r"\$[A-Za-z_]\w*", text):
        return ""
    # In JSON a pair of backquotes is text of a prompt, not a command.
    command = r"`\w[^`]*`" if text[:1] not in ("{", "[") else r"(?!)"
    for pattern in (r"\$\([^$]*\)?", command, r"\$\{\w+:[^}]*\}?"):
        match = re.search(r"(?<!\$)" + pattern, text)
        if match:
            return match[0]
    match = _INSIDE.search(text)
    return match[1] if match else ""


def _expansion_fix(text: str, trouble: str) -> str:
    if re.fullmatch(r"\$\w+", trouble):
        return "write " + text.replace(trouble, "${" + trouble[1:] + "}", 1)
    if trouble.startswith("${"):
        name, _, rest = trouble[2:].rstrip("}").partition(":")
        value = rest.lstrip("-=+?")
        return f"write ${{{name}}} and give it a value: Environment={name}={value}"
    return "write the value itself, or start it by /bin/sh -c 'exec …'"


@file_rule(Verdict.BLOCK, Verdict.WARN)
def exec_options_in_one_word(doc: Document, ctx: Context) -> Iterator[Found]:
    """`${NAME}` is one word, however many options are in the variable.

    `$NAME` without braces is split at spaces. With braces the program gets all of it as a single
    argument, and an empty variable as an empty argument.

    Bad:
        Environment="EXTRA_ARGS=--jinja --metrics"
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf ${EXTRA_ARGS}

    Good:
        Environment="EXTRA_ARGS=--jinja --metrics"
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf $EXTRA_ARGS

    Source: systemd.service(5) "Command lines"
    """
    values = {a.name: a.value for a in doc.assignments}
    for word in exec_words(doc):
        match = re.fullmatch(r"\$\{(\w+)\}", word.piece.text)
        if match is None or word.number == 0 or word.script:
            continue
        value = values.get(match[1])
        many = value is not None and re.match(r"-\S*\s+\S", value.strip()) is not None
        if not many and (value or not re.search(r"(ARGS|OPTS|OPTIONS|FLAGS)$", match[1])):
            continue
        yield Found(
            word.at, f"{word.piece.text} is one argument, also when it holds several options",
            f"write ${match[1]}, which is split at spaces", sees=value or "",
            verdict=Verdict.BLOCK if many else Verdict.WARN,
        )  # fmt: skip


@file_rule(Verdict.BLOCK)
def exec_json(doc: Document, ctx: Context) -> Iterator[Found]:
    """JSON in an Exec line loses its quotes.

    systemd takes quotes away as a shell does. Without single quotes around it, the program gets
    `{method:mtp}` in place of `{"method":"mtp"}`.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m --speculative-config {"method":"mtp"}

    Good:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m --speculative-config '{"method":"mtp"}'

    Source: systemd.syntax(7) "Quoting"; eugr/spark-vllm-docker README (tried: systemd 252, 257)
    """
    told: tuple[Directive | None, int] = (None, 0)  # the last JSON text ends there
    for word in exec_words(doc):
        head = None
        if "{" in word.raw or "[" in word.raw:
            head = re.match(r"(?:--?[\w-]+=)?(?=[{\[])", word.raw)
        inside = word.directive is told[0] and word.piece.start < told[1]
        if word.number == 0 or word.script or head is None or inside:
            continue
        meant = _json_at(word.directive.value, word.piece.start + head.end())
        given = word.piece.text[head.end() :]
        if meant is None or _is_json(given):
            continue
        told = (word.directive, word.piece.start + head.end() + len(meant))
        quoted = meant.replace("'", "\\'").replace("%", "%%")
        yield Found(
            word.at, f"{word.program} gets {given}, which is no JSON",
            f"put single quotes around it: {head[0]}'{quoted}'", sees=word.piece.text,
        )  # fmt: skip


def _json_at(value: str, start: int) -> str | None:
    """The JSON text that begins there in the file's own bytes."""
    try:
        _, end = json.JSONDecoder().raw_decode(value, start)
    except (ValueError, RecursionError):
        return None
    return value[start:end]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
