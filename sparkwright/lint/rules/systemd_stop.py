"""How a service ends, gives way to another, and who dies first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine
from sparkwright.lint.registry import files_rule
from sparkwright.lint.rules.systemd_reading import units, whole_units


@files_rule(Verdict.WARN)
def kill_mode(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """KillMode=process and none leave vLLM's engine behind with its memory.

    vLLM is several processes. With these modes systemd ends the API server at most; an engine
    that does not notice keeps its GPU memory and its port, and the next start fails.

    Bad:
        KillMode=process

    Good:
        KillMode=mixed

    Source: systemd.kill(5) KillMode=
    """
    for unit in units(docs):
        directive = unit.last("KillMode")
        if directive is not None and directive.value in ("process", "none") and unit.engines():
            yield Found(
                directive.at, f"KillMode={directive.value} leaves the engine's processes behind",
                "write KillMode=mixed", sees=directive.value,
            )  # fmt: skip


@files_rule(Verdict.WARN)
def conflicts_order(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """Conflicts= stops the other service and gives no order.

    Both jobs run at the same time: the new engine takes memory while the old one still holds it.
    With After= on the same unit the stop comes first.

    Bad:
        Conflicts=ollama.service

    Good:
        Conflicts=ollama.service
        After=ollama.service

    Source: systemd.unit(5) Conflicts=
    """
    for unit in whole_units(docs):
        ordered = {
            name
            for key in ("After", "Before")
            for directive in unit.all(key, "Unit")
            for name in directive.value.split()
        }
        for directive in unit.all("Conflicts", "Unit") if unit.engines() else ():
            loose = [n for n in directive.value.split() if n not in ordered]
            loose = [name for name in loose if not name.endswith(".target")]
            if loose:
                names = " ".join(loose)
                yield Found(
                    directive.at, f"{names} is stopped while this one starts: no order is given",
                    f"add After={names}", sees=directive.value,
                )  # fmt: skip


@files_rule(Verdict.WARN)
def oom_score(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A negative OOMScoreAdjust= on an engine sacrifices sshd before it.

    The engine holds the memory. When others are killed first, the machine no longer answers.

    Bad:
        OOMScoreAdjust=-900

    Good:
        OOMScoreAdjust=800

    Source: systemd.exec(5) OOMScoreAdjust=; NVIDIA/open-gpu-kernel-modules#1358
    """
    for unit in units(docs):
        directive = unit.last("OOMScoreAdjust")
        if directive is not None and directive.value.startswith("-") and unit.engines():
            yield Found(
                directive.at, "everything else is killed before the engine, sshd too",
                "write OOMScoreAdjust=800", sees=directive.value,
            )  # fmt: skip


@files_rule(Verdict.WARN)
def mlock_limit(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """--mlock needs LimitMEMLOCK=infinity; a service may lock 8 MB.

    mlock then fails in the service only, while it works by hand.

    Bad:
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf --mlock

    Good:
        LimitMEMLOCK=infinity
        ExecStart=/opt/llama/llama-server -m /srv/m.gguf --mlock

    Source: systemd.exec(5) "Process Properties"; jschmied/dgx-spark-setup-guide
    """
    for unit in whole_units(docs):
        for launch in unit.launches:
            option = ctx.option(launch, "mlock", "load-mode")
            if launch.engine is not Engine.LLAMA or option is None or unit.all("LimitMEMLOCK"):
                continue
            if launch.image is None and (option.name == "mlock" or "mlock" in (option.text or "")):
                yield Found(
                    option.spelled.at, "the service may lock 8 MB only",
                    "add LimitMEMLOCK=infinity", sees=option.spelled.text or "",
                )  # fmt: skip
