"""What only root may do, secrets that everybody may read, and processes tied to a login."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import At, Document, How, Kind
from sparkwright.lint.registry import file_rule, files_rule
from sparkwright.lint.rules.systemd_known import true
from sparkwright.lint.rules.systemd_reading import assignments, units

_ROOT_WORK: Final = re.compile(
    r">>?\s*/(proc/sys|sys)/|\bsysctl\s+(-\w+\s+)*-w\b|\btee\s+(-a\s+)?/(proc/sys|sys)/"
    r"|nvidia-smi\s+(-pm|-lgc|-pl|-rgc)\b"
)


@files_rule(Verdict.BLOCK, Verdict.WARN)
def root_work_as_user(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """Writes to /proc/sys as a normal user, without `+` before the command.

    Dropping caches needs root. With User= the line fails, and a failing ExecStartPre= keeps the
    service from starting.

    Bad:
        User=llm
        ExecStartPre=/bin/sh -c 'echo 3 > /proc/sys/vm/drop_caches'

    Good:
        User=llm
        ExecStartPre=+/bin/sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'

    Source: systemd.service(5) "Command lines", prefix +; sovgrid.org, systemd article
    """
    for unit in units(docs):
        if not unit.mentions("/sys/", "sysctl", "nvidia-smi"):
            continue
        lines: dict[At, list[str]] = {}
        for word in unit.words() if unit.user else ():
            if not word.privileged:
                lines.setdefault(word.directive.at, []).append(word.piece.text)
        for word in unit.words() if unit.user else ():
            text = " ".join(lines.get(word.directive.at, ()))
            if word.number == 0 and _ROOT_WORK.search(text) and "sudo" not in text:
                yield Found(
                    word.at, f"{unit.user} may not do this, and the service does not start",
                    f"write {word.directive.key}=+{word.directive.value.lstrip('-')}", sees=text,
                    verdict=Verdict.WARN if "-" in word.prefixes else None,
                )  # fmt: skip


_SECRET: Final = re.compile(
    r"(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[\w-]{20,}|gh[pousr]_[A-Za-z0-9]{30,})"
)
_NAMES: Final = re.compile(
    r"HF_TOKEN|HUGGING_FACE_HUB_TOKEN|VLLM_API_KEY|LLAMA_API_KEY|\w*_API_KEY"
)
_STAND_IN: Final = re.compile(
    r"(?i)[<>$*{}…]|\.\.\.|xxx|your|\bmy\b|token|key|here|change|replace|insert|example|placeholder"
    r"|secret|dummy|none|null|empty|local|test"
)


@file_rule(Verdict.WARN)
def secret_in_file(doc: Document, ctx: Context) -> Iterator[Found]:
    """A token or an API key in a unit, a script or a recipe.

    Units can be read by every user of the machine, and scripts end up in repositories and in
    /tmp.

    Bad:
        Environment=HF_TOKEN=hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345

    Good:
        EnvironmentFile=/etc/llm/secret.env

    Source: pyinfra-dev/pyinfra#1085; systemd.exec(5) Environment=
    """
    own_file = "put it into a file of root's with mode 0600, named by EnvironmentFile="
    if doc.kind is Kind.ENVFILE:
        return
    for item in assignments(doc):
        value = item.value or ""
        named = _NAMES.fullmatch(item.name) and not _STAND_IN.search(value) and len(value) > 7
        if item.how not in (How.ENVFILE, How.DOCKER_FILE) and (_SECRET.search(value) or named):
            yield Found(item.at, f"the value of {item.name} stands in the file", own_file)


@file_rule(Verdict.BLOCK)
def sudo_without_privileges(doc: Document, ctx: Context) -> Iterator[Found]:
    """sudo in a unit with NoNewPrivileges=yes is refused.

    Bad:
        NoNewPrivileges=yes
        ExecStartPre=/usr/bin/sudo sysctl -w vm.drop_caches=3

    Good:
        NoNewPrivileges=yes
        ExecStartPre=+/usr/sbin/sysctl -w vm.drop_caches=3

    Source: systemd.exec(5) NoNewPrivileges=
    """
    barred = doc.last("NoNewPrivileges")
    for command in doc.commands if barred is not None and true(barred.value) else ():
        if "sudo" in command.wrapped and "+" not in command.wrapped:
            yield Found(
                command.at, "NoNewPrivileges=yes: sudo refuses to run",
                "take sudo away and write + before the program", sees="sudo",
            )  # fmt: skip


_BEHIND: Final = re.compile(r"\bnohup\b|&\s*$|\bsetsid\b|\btmux\b|\bscreen\b|&\s*['\"]?\s*$")
_ENGINE: Final = re.compile(r"\bvllm\s+serve\b|\bray\s+start\b|\bllama-server\b|\brpc-server\b")


@file_rule(Verdict.WARN)
def rank_in_ssh_session(doc: Document, ctx: Context) -> Iterator[Found]:
    """A rank that is started through SSH loses its semaphores when the session ends.

    logind's RemoveIPC=yes removes them with the user's last session unless the user lingers. The
    worker dies and the head waits for ever at graph capture; it looks like a deadlock.

    Bad:
        ssh spark2 'nohup vllm serve /srv/m --headless > /tmp/rank1.log 2>&1 &'

    Good:
        ssh spark2 sudo systemctl start llm-rank@1.service

    Source: eugr/spark-vllm-docker#352; logind.conf(5) RemoveIPC=
    """
    for command in doc.commands:
        text = " ".join(word.shape for word in command.argv[1:])
        if command.name == "ssh" and _ENGINE.search(text) and _BEHIND.search(text):
            if "docker" in text or "systemd-run" in text:
                continue
            yield Found(
                command.at, "the engine is a child of the SSH session, which takes its semaphores",
                "start a system unit there: ssh … sudo systemctl start …", sees=text,
            )  # fmt: skip
