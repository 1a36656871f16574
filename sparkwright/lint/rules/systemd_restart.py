"""Restarts: on one pool of memory each failed start makes the machine worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import GPU_ENGINES, At, Document, Engine, Kind, Launch
from sparkwright.lint.registry import file_rule, files_rule
from sparkwright.lint.rules.systemd_known import seconds
from sparkwright.lint.rules.systemd_reading import Unit, whole_units

# Seconds that a start of an engine lasts at least before it can fail: imports alone take this long.
_FAILING: Final = 20
_FROM: Final = ("always", "on-failure", "on-abnormal", "on-abort", "on-success")


def _loads(unit: Unit, ctx: Context) -> Launch | None:
    """The launch that loads a model at its start; Ollama and llama-server's router load later."""
    for launch in unit.engines(Engine.OLLAMA):
        if launch.where == "ExecStart" and not _router(launch, ctx):
            return launch
    return None


def _router(launch: Launch, ctx: Context) -> bool:
    return (
        launch.engine is Engine.LLAMA
        and ctx.option(launch, "models-preset", "models-dir") is not None
        and ctx.model(launch) is None
    )


def _limit(unit: Unit) -> tuple[float, float, float]:
    """(interval, burst, seconds between starts) as systemd counts; what it passes over is not."""
    interval = unit.text("StartLimitIntervalSec", "Unit") or unit.text("StartLimitInterval", "Unit")
    interval = interval or unit.text("StartLimitInterval")
    burst = unit.text("StartLimitBurst", "Unit") or unit.text("StartLimitBurst")
    pause = seconds(unit.text("RestartSec")) if unit.text("RestartSec") else 0.1
    window = seconds(interval) if interval else 10.0
    return (
        10.0 if window is None else window,
        float(burst) if burst.isdigit() else 5.0,
        0.1 if pause is None else pause,
    )


@files_rule(Verdict.BLOCK, Verdict.WARN)
def restart_storm(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """Restarts of a GPU service without a limit that can be reached.

    systemd gives up after StartLimitBurst= starts within StartLimitIntervalSec= (5 in 10 s), both
    in [Unit]. An engine needs longer than that to fail, so it restarts for ever: 35 times in one
    report, until sshd no longer answered and the box was reset by hand.

    Bad:
        [Service]
        Restart=always
        RestartSec=5
        StartLimitIntervalSec=600

    Good:
        [Unit]
        StartLimitIntervalSec=1h
        StartLimitBurst=3
        [Service]
        Restart=on-failure
        RestartSec=60

    Source: eugr/spark-vllm-docker#257; systemd.unit(5) StartLimitIntervalSec=
    """
    for unit in whole_units(docs):
        directive = unit.last("Restart")
        started = [x for x in unit.engines(Engine.OLLAMA) if x.where == "ExecStart"]
        interval, burst, pause = _limit(unit)
        works = 0 < burst * (pause + _FAILING) <= interval
        if directive is None or directive.value not in _FROM or not started or works:
            continue
        loads = _loads(unit, ctx)
        bad = loads is not None and directive.value == "always"
        yield Found(
            directive.at,
            f"Restart={directive.value} never ends: {burst:g} starts do not fit in {interval:g} s "
            f"with {pause:g} s between them",
            "write Restart=on-failure and RestartSec=60, and in [Unit] StartLimitIntervalSec=1h "
            "and StartLimitBurst=3",
            sees=directive.value, verdict=Verdict.BLOCK if bad else Verdict.WARN,
        )  # fmt: skip


@files_rule(Verdict.WARN)
def restart_soon(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A restart before the memory is back.

    After a crash about 30 GB stay reserved for tens of seconds to minutes. A start in that time
    fails, or takes the machine with it.

    Bad:
        Restart=on-failure
        RestartSec=5

    Good:
        Restart=on-failure
        RestartSec=60
        ExecStartPre=/opt/llm/wait-for-memory --gib 90

    Source: MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193, vllm-project/vllm#45179
    """
    for unit in whole_units(docs):
        directive, pause = unit.last("Restart"), unit.last("RestartSec")
        if directive is None or directive.value not in _FROM or _loads(unit, ctx) is None:
            continue
        wait = _limit(unit)[2]
        if wait < 30:
            yield Found(
                (pause or directive).at, f"a restart after {wait:g} s: memory comes back later",
                "write RestartSec=60, and wait for MemAvailable in ExecStartPre=",
                sees=pause.value if pause else "100ms",
            )  # fmt: skip


@file_rule(Verdict.WARN)
def container_restart(doc: Document, ctx: Context) -> Iterator[Found]:
    """A container that restarts without end, or beside the unit that starts it.

    Docker's `always` and `unless-stopped` have no limit, also not after a reboot. Inside of a unit
    both docker and systemd restart it.

    Bad:
        docker run --restart unless-stopped --gpus all vllm/vllm-openai --model /srv/m

    Good:
        docker run --restart on-failure:3 --gpus all vllm/vllm-openai --model /srv/m

    Source: eugr/spark-vllm-docker#257; docker run reference, "--restart"
    """
    for launch in doc.launches:
        found = _policy(launch, doc) if launch.engine in GPU_ENGINES else None
        if found is None or launch.engine is Engine.OLLAMA:
            continue
        at, policy = found
        if doc.kind in (Kind.UNIT, Kind.DROPIN):
            yield Found(
                at, f"docker restarts it ({policy}) and the unit does too",
                "leave --restart out and let the unit restart it", sees=policy,
            )  # fmt: skip
        elif policy in ("always", "unless-stopped"):
            key = "restart: on-failure:3" if doc.kind is Kind.COMPOSE else "--restart on-failure:3"
            yield Found(
                at, f"{policy} has no limit: each failed start leaves less memory",
                f"write {key}", sees=policy,
            )  # fmt: skip


def _policy(launch: Launch, doc: Document) -> tuple[At, str] | None:
    words = launch.container
    for at, word in enumerate(words):
        text = word.text or ""
        if text.startswith("--restart="):
            return word.at, text.partition("=")[2]
        if text == "--restart" and at + 1 < len(words):
            return words[at + 1].at, words[at + 1].text or ""
    for key in doc.keys if doc.kind is Kind.COMPOSE else ():
        if key.path == f"services/{launch.where}/restart" and key.value:
            return key.at, key.value
    return None
