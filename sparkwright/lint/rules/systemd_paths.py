"""Paths that a service cannot reach: of another user, or hidden by its sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import At, Document, How
from sparkwright.lint.registry import files_rule
from sparkwright.lint.rules.systemd_known import true
from sparkwright.lint.rules.systemd_reading import Unit, of_a_user, units

_PATH: Final = re.compile(r"(?:^|=|:|,)((?:/[^/\s:,=\"']+)+)")
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
# Options whose file must be there when the engine starts.
_INPUTS: Final = re.compile(
    r"-m|--(model|models-\w+|hf-file|mmproj|lora\w*|chat-template\w*|config)"
)


@dataclass(frozen=True)
class Needed:
    """A path that the service uses.

    + what: "the program", "--model", "WorkingDirectory=", "HF_HOME"
    + cache: made by the service itself when it is not there
    """

    path: str
    at: At
    what: str
    cache: bool = False


def needed(unit: Unit) -> Iterator[Needed]:
    """Paths of the process itself: what systemd or docker opens as root is left out."""
    before = ""
    for word in unit.words():
        if word.privileged or word.program in _CONTAINERS:
            continue
        what = "the program" if word.number == 0 else before if before[:1] == "-" else "an argument"
        for match in _PATH.finditer(word.piece.text):
            yield Needed(match[1], word.at, what)
        before = word.piece.text
    for directive in unit.all("WorkingDirectory"):
        yield Needed(directive.value.lstrip("-"), directive.at, "WorkingDirectory=")
    yield from of_variables(unit)


def of_variables(unit: Unit) -> Iterator[Needed]:
    """Paths in the values of its variables."""
    for doc in unit.docs:
        for item in doc.assignments:
            if item.how in (How.UNIT, How.ENVFILE) and "/" in (item.value or ""):
                cache = re.search(r"CACHE|HOME|WORKSPACE|TMPDIR", item.name) is not None
                for match in _PATH.finditer(item.value or ""):
                    yield Needed(match[1], item.at, item.name, cache)


def below(path: str, *folders: str) -> str:
    """Which of the folders a path lies in, "" for none."""
    return next((f for f in folders if f"{path}/".startswith(f"{f}/")), "")


@files_rule(Verdict.BLOCK)
def root_directory(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A service with User= that uses paths below /root.

    /root is 0700 on most machines: status 200/CHDIR or 203/EXEC. It works on one host and not on
    the next. (EnvironmentFile= is read by systemd as root and may stand there.)

    Bad:
        User=llm
        WorkingDirectory=/root/stack

    Good:
        User=llm
        WorkingDirectory=/srv/stack

    Source: Sunderrrr/dgx-spark-llm-platform:systemd/vllm-runner.service; systemd.exec(5)
    """
    for unit in units(docs):
        for need in needed(unit) if unit.mentions("/root") and unit.user else ():
            if below(need.path, "/root"):
                moved = "/srv" + need.path.removeprefix("/root")
                yield Found(
                    need.at, f"{unit.user} cannot enter /root: {need.what} is {need.path}",
                    f"move it, to {moved} for instance", sees=need.path,
                )  # fmt: skip


@files_rule(Verdict.BLOCK, Verdict.WARN)
def protect_home(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """ProtectHome= hides /home, /root and /run/user from the service.

    With yes or tmpfs models in a home are not there ("permission denied" on a mkdir); with
    read-only no cache can be written there. ReadWritePaths= does not open what is hidden.

    Bad:
        ProtectHome=yes
        ExecStart=/opt/llama/llama-server --model /home/u/m.gguf

    Good:
        ProtectHome=yes
        ExecStart=/opt/llama/llama-server --model /srv/models/m.gguf

    Source: systemd.exec(5) ProtectHome=; ollama/ollama#2701
    """
    for unit in units(docs):
        directive = unit.last("ProtectHome")
        there = unit.mentions("/home", "/root", "/run/user")
        if directive is None or not there or any(of_a_user(doc) for doc in unit.docs):
            continue
        tmpfs, hidden = directive.value == "tmpfs", true(directive.value)
        bound = [d.value for key in ("BindPaths", "BindReadOnlyPaths") for d in unit.all(key)]
        bound = [path.split(":")[-1].lstrip("-") for text in bound for path in text.split()]
        writable = [p for d in unit.all("ReadWritePaths") for p in d.value.split()]
        for need in needed(unit):
            home = below(need.path, "/home", "/root", "/run/user")
            if not home or (tmpfs and below(need.path, *bound)):
                continue
            if hidden or tmpfs:
                message = f"ProtectHome={directive.value} hides {need.path} ({need.what})"
                yield Found(need.at, message, _out_of(need.path, home), sees="permission denied")
            elif need.cache and not below(need.path, *writable):
                yield Found(
                    need.at, f"{need.what} cannot be written below {home}",
                    f"add ReadWritePaths={need.path}, or move it to /var/cache",
                    sees="read-only file system", verdict=Verdict.WARN,
                )  # fmt: skip


def _out_of(path: str, home: str) -> str:
    rest = path.removeprefix(home).strip("/").split("/")
    kept = "/".join(rest[1:] if home == "/home" else rest)
    return f"move it out of the homes, to /srv/{kept} for instance"
