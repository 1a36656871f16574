"""How a unit starts: one command, the right Type=, time enough."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Directive, Document, Kind, Launch
from sparkwright.lint.registry import file_rule, files_rule
from sparkwright.lint.rules.systemd_known import seconds
from sparkwright.lint.rules.systemd_reading import Unit, units, whole_units, words_of

# Seconds from start to serving: vLLM with a 120B model took 8 to 15 minutes.
_LOAD: Final = 900


@files_rule(Verdict.BLOCK)
def second_exec_start(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A service has one ExecStart=; a drop-in adds to it unless an empty one comes first.

    "Service has more than one ExecStart= setting, which is only allowed for Type=oneshot services.
    Refusing."

    Bad:
        [Service]
        ExecStart=/opt/new/llama-server -m /srv/m.gguf

    Good:
        [Service]
        ExecStart=
        ExecStart=/opt/new/llama-server -m /srv/m.gguf

    Source: systemd.service(5) ExecStart= (tried: systemd 252, 257)
    """
    for unit in units(docs):
        found = unit.all("ExecStart")
        if unit.text("Type") == "oneshot" or not unit.name.endswith((".service", ".conf")):
            continue
        alone = unit.main is None and bool(found) and not _resets(unit)
        for directive in found[0 if alone else 1 :]:
            yield Found(
                directive.at, "a second ExecStart=: the service is refused",
                "write an empty line ExecStart= before it", sees=directive.value,
            )  # fmt: skip
        for directive in found:
            if sum(word.number == 0 for word in words_of(directive)) > 1:
                yield Found(
                    directive.at, "; starts a second command, which only Type=oneshot may have",
                    "write one command, the others as ExecStartPre=", sees=directive.value,
                )  # fmt: skip


def _resets(unit: Unit) -> bool:
    return any(d.value == "" for doc in unit.docs for d in doc.all("ExecStart"))


@files_rule(Verdict.BLOCK)
def service_type(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """vLLM and llama-server stay in the foreground and send no readiness message.

    With Type=notify the start waits for a message that never comes, with Type=forking for a fork:
    systemd kills the engine after TimeoutStartSec=. Type=oneshot never becomes active.

    Bad:
        Type=notify
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf

    Good:
        Type=exec
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf

    Source: systemd.service(5) Type=; llama.cpp and vLLM have no sd_notify call
    """
    for unit in units(docs):
        directive = unit.last("Type")
        started = [x for x in unit.engines() if x.where == "ExecStart" and not _detached(x)]
        if directive is None or not started or "podman" in _program(unit):
            continue
        ends = {
            "notify": "no message ever says that it is ready",
            "notify-reload": "no message ever says that it is ready",
            "forking": "it does not fork",
            "oneshot": "it does not end, so the unit never becomes active",
        }.get(directive.value)
        if ends:
            yield Found(
                directive.at, f"Type={directive.value} with {started[0].engine.value}: {ends}",
                "write Type=exec and wait for /health in ExecStartPost=", sees=directive.value,
            )  # fmt: skip


def _program(unit: Unit) -> str:
    return " ".join(d.value.split(" ")[0] for d in unit.all("ExecStart"))


def _detached(launch: Launch) -> bool:
    return any(word.text in ("-d", "--detach", "--detach=true") for word in launch.container)


@files_rule(Verdict.BLOCK)
def detached_container(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """`docker run -d` returns at once: the unit ends, or starts over and over.

    systemd watches the docker client, which is gone. With Restart=always each try finds the name
    in use.

    Bad:
        ExecStart=/usr/bin/docker run -d --name llm vllm/vllm-openai --model /srv/m

    Good:
        ExecStart=/usr/bin/docker run --rm --name llm vllm/vllm-openai --model /srv/m

    Source: systemd.service(5) Type=; docker run reference, "--detach"
    """
    for unit in units(docs):
        once = unit.text("Type") == "oneshot" and unit.text("RemainAfterExit") in ("yes", "true")
        for launch in unit.launches:
            if launch.where == "ExecStart" and _detached(launch) and not once:
                word = next(w for w in launch.container if (w.text or "").startswith(("-d", "--d")))
                yield Found(
                    word.at, "docker run returns at once: the unit no longer sees its service",
                    f"leave {word.text} out and add --rm", sees=word.text or "",
                )  # fmt: skip


@files_rule(Verdict.WARN)
def start_timeout(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """TimeoutStartSec= covers the wait for readiness as well; the default is 90 s.

    ExecStartPre=, the start and ExecStartPost= share it. A 120B model takes vLLM 8 to 15 minutes;
    when the time is up the service is stopped in the middle of loading.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m
        ExecStartPost=/bin/sh -c 'until curl -sf localhost:8000/health; do sleep 5; done'

    Good:
        TimeoutStartSec=30min
        ExecStart=/opt/vllm/bin/vllm serve /srv/m
        ExecStartPost=/bin/sh -c 'until curl -sf localhost:8000/health; do sleep 5; done'

    Source: systemd.service(5) TimeoutStartSec=; vLLM's own load times on Sparks
    """
    for unit in whole_units(docs):
        waits = [d for d in unit.all("ExecStartPost") if _WAITS.search(d.value)]
        set_to = unit.last("TimeoutStartSec") or unit.last("TimeoutSec")
        allowed = seconds(set_to.value) if set_to else 90
        if not unit.engines() or not waits or allowed is None or allowed == 0 or allowed >= _LOAD:
            continue
        at: Directive = set_to or waits[0]
        yield Found(
            at.at, f"the start, readiness included, may take {allowed:g} s",
            "write TimeoutStartSec=30min", sees=set_to.value if set_to else "90s",
        )  # fmt: skip


_WAITS: Final = re.compile(r"health|curl|until|/v1/models")


@file_rule(Verdict.NOTE)
def online_not_wanted(doc: Document, ctx: Context) -> Iterator[Found]:
    """After=network-online.target alone waits for nothing.

    It is an order, and the target is reached only when some unit wants it.

    Bad:
        After=network-online.target

    Good:
        Wants=network-online.target
        After=network-online.target

    Source: systemd.special(7), network-online.target
    """
    after = [d for d in doc.all("After", "Unit") if "network-online.target" in d.value.split()]
    wants = [d for key in ("Wants", "Requires", "BindsTo") for d in doc.all(key, "Unit")]
    if doc.kind is Kind.UNIT and after and not any("network-online" in d.value for d in wants):
        yield Found(
            after[0].at, "no line wants network-online.target: the order alone waits for nothing",
            "add Wants=network-online.target", sees=after[0].value,
        )  # fmt: skip
