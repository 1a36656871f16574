"""Programs and words of Exec lines: systemd is no shell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document
from sparkwright.lint.registry import file_rule, files_rule
from sparkwright.lint.rules.systemd_reading import exec_words, of_a_user, units

_HOME: Final = "/home/…"
# Found in /usr on no machine unless somebody put a link there: they live in venvs and builds.
_OURS: Final = frozenset({"vllm", "llama-server", "hf", "sglang", "ray", "trtllm-serve"})


@file_rule(Verdict.BLOCK)
def exec_tilde(doc: Document, ctx: Context) -> Iterator[Found]:
    """`~` in an Exec line is no home directory.

    systemd expands no tilde. As the program it stops the unit ("Neither a valid executable name
    nor an absolute path"); as an argument the program gets the two characters `~/`.

    Bad:
        ExecStart=~/llama.cpp/build/bin/llama-server --port 8080

    Good:
        ExecStart=/home/llm/llama.cpp/build/bin/llama-server --port 8080

    Source: systemd.service(5) "Command lines"; systemd/systemd#34197 (tried: systemd 252, 257)
    """
    for word in exec_words(doc):
        text = word.piece.text
        match = re.search(r"(?:^|=)(~[\w-]*)(/|$)", text) if "~" in text else None
        if match is None or word.script:
            continue
        user = next((d.value for d in doc.all("User") if d.value), "")
        home = "/root" if user in ("root", "0") else f"/home/{user}" if user else _HOME
        fixed = word.piece.text[: match.start(1)] + home + word.piece.text[match.end(1) :]
        ends = "the unit is not started" if word.number == 0 else "the program gets it as it stands"
        yield Found(
            word.at, f"systemd does not expand {match[1]}: {ends}",
            f"write the absolute path: {fixed}", sees=word.piece.text,
        )  # fmt: skip


@file_rule(Verdict.BLOCK)
def exec_program(doc: Document, ctx: Context) -> Iterator[Found]:
    """The program of an Exec line is neither an absolute path nor a plain name.

    Variables are not replaced in the first word, and paths are not taken relative to
    WorkingDirectory=: the unit has a fatal error and is not started.

    Bad:
        ExecStart=$HOME/venv/bin/vllm serve /srv/m

    Good:
        ExecStart=/opt/venv/bin/vllm serve /srv/m

    Source: systemd.service(5) "Command lines"; aws-samples/appmod-blueprints#635 (tried: 252, 257)
    """
    for word in exec_words(doc):
        text = word.piece.text
        if word.number or text.startswith(("/", "~", "%")) or "@" in word.prefixes:
            continue
        variable = re.search(r"\$\{?[A-Za-z_]", text)
        if variable is None and "/" not in text:
            continue
        rest = re.sub(r"^(\./)+|^\$\{?\w+\}?/", "", text)
        why = "variables are not replaced in it" if variable else "it is a relative path"
        yield Found(
            word.at, f"the program is {text}: {why}, and the unit is not started",
            f"write its absolute path, such as /opt/{rest}", sees=text,
        )  # fmt: skip


@file_rule(Verdict.WARN)
def exec_bare_name(doc: Document, ctx: Context) -> Iterator[Found]:
    """A program without a path is looked up in systemd's own list, not in Environment=PATH.

    The list is fixed when systemd is built (/usr/local/sbin to /bin). A venv in Environment=PATH
    does not count; ExecSearchPath= does.

    Bad:
        Environment=PATH=/opt/venv/bin:/usr/bin
        ExecStart=vllm serve /srv/m

    Good:
        Environment=PATH=/opt/venv/bin:/usr/bin
        ExecStart=/opt/venv/bin/vllm serve /srv/m

    Source: systemd.service(5) "Command lines"; systemd.exec(5) ExecSearchPath= (tried: 252, 257)
    """
    if doc.last("ExecSearchPath"):
        return
    paths = [a.value for a in doc.assignments if a.name == "PATH" and a.value]
    folder = paths[-1].split(":")[0] if paths else "/opt/venv/bin"
    for word in exec_words(doc):
        name = word.piece.text
        if word.number != 0:
            continue
        if "/" not in name and (name in _OURS or paths):
            if name not in _OURS and re.fullmatch(r"(sh|bash|docker|podman|sleep|env)", name):
                continue
            yield Found(
                word.at, f"{name} is looked up in systemd's own path, not in Environment=PATH",
                f"write {folder}/{name}", sees=name,
            )  # fmt: skip


@file_rule(Verdict.BLOCK)
def exec_comment(doc: Document, ctx: Context) -> Iterator[Found]:
    """A comment behind a command is passed to the program.

    `#` begins a comment only at the start of a line (whole comment lines between continuation
    lines are fine). Elsewhere it and the words after it are arguments, at which the engine stops.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m --port 8000 # api

    Good:
        # api
        ExecStart=/opt/vllm/bin/vllm serve /srv/m --port 8000

    Source: systemd.syntax(7) (tried: systemd 252, 257)
    """
    seen = set()
    for word in exec_words(doc):
        if word.number == 0 or not word.raw.startswith("#"):
            continue
        line = (word.at.line, word.directive.at)
        if line not in seen:
            seen.add(line)
            rest = word.directive.value[word.piece.start :]
            yield Found(
                word.at, f"{word.raw!r} and what follows are arguments, not a comment",
                "put the comment on a line of its own above the command",
                sees=" ".join(rest.split()),
            )  # fmt: skip


_OF_ROOT: Final = {"%h": "/root", "%u": "root", "%U": "0", "%g": "root", "%G": "0"}


@files_rule(Verdict.BLOCK)
def user_specifier(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """%h, %u and their relatives mean root in a system unit, whatever User= says.

    They tell about the user who runs the service manager. In /etc/systemd/system that is root, so
    `%h` is /root also for a unit with User=.

    Bad:
        User=llm
        ExecStart=%h/venv/bin/vllm serve /srv/m

    Good:
        User=llm
        ExecStart=/home/llm/venv/bin/vllm serve /srv/m

    Source: systemd.unit(5) "Specifiers"; voglster/lumbergh#22, abraunegg/onedrive#478
    """
    for unit in units(docs):
        if not unit.user:
            continue
        for doc in unit.docs:
            for directive in () if of_a_user(doc) else doc.directives:
                pairs = re.finditer(r"%%|%[huUgG]", directive.value)
                for match in pairs if "%" in directive.value else ():
                    if match[0] != "%%" and directive.section == "Service":
                        means = _OF_ROOT[match[0]]
                        instead = {"%h": f"/home/{unit.user}", "%u": unit.user}
                        yield Found(
                            directive.place(match.start()),
                            f"{match[0]} is {means} in a system unit, not {unit.user}'s",
                            f"write it out: {instead.get(match[0], 'the number or name')}",
                            sees=means,
                        )  # fmt: skip
