"""Directories that a sandbox empties or makes read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document
from sparkwright.lint.registry import files_rule
from sparkwright.lint.rules.systemd_known import true
from sparkwright.lint.rules.systemd_paths import below, needed, of_variables
from sparkwright.lint.rules.systemd_reading import Unit, units

# Options whose file must be there when the engine starts.
_INPUTS: Final = re.compile(
    r"-m|--(model|models-\w+|hf-file|mmproj|lora\w*|chat-template\w*|config)"
)


@files_rule(Verdict.BLOCK, Verdict.WARN)
def private_tmp(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """PrivateTmp=yes gives the service a /tmp of its own, empty at each start.

    A model or template that was put into /tmp is not there; a cache in /tmp is built anew each
    time.

    Bad:
        PrivateTmp=yes
        ExecStart=/opt/llama/llama-server --model /tmp/m.gguf

    Good:
        PrivateTmp=yes
        ExecStart=/opt/llama/llama-server --model /srv/models/m.gguf

    Source: systemd.exec(5) PrivateTmp=
    """
    for unit in units(docs):
        if not unit.mentions("/tmp") or not true(unit.text("PrivateTmp")):  # noqa: S108
            continue
        for need in needed(unit):
            folder = below(need.path, "/tmp", "/var/tmp")  # noqa: S108
            if not folder:
                continue
            wanted = need.what == "the program" or _INPUTS.fullmatch(need.what) is not None
            where = "/srv" if wanted else "/var/cache"
            yield Found(
                need.at, f"PrivateTmp=yes: {need.path} ({need.what}) is in an empty {folder}",
                f"use {where}{need.path.removeprefix(folder)}", sees="no such file or directory",
                verdict=Verdict.BLOCK if wanted else Verdict.WARN,
            )  # fmt: skip


_CACHES: Final = frozenset(
    ("HOME", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR",
     "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH", "FLASHINFER_WORKSPACE_BASE", "LLAMA_CACHE")
)  # fmt: skip


@files_rule(Verdict.WARN)
def protect_system(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """ProtectSystem=strict makes everything read-only but what ReadWritePaths= and the like name.

    vLLM, Triton and FlashInfer write caches while they start, and die at the first one.

    Bad:
        ProtectSystem=strict
        Environment=VLLM_CACHE_ROOT=/srv/cache/vllm

    Good:
        ProtectSystem=strict
        ReadWritePaths=/srv/cache
        Environment=VLLM_CACHE_ROOT=/srv/cache/vllm

    Source: systemd.exec(5) ProtectSystem=, ReadWritePaths=, CacheDirectory=
    """
    for unit in units(docs):
        if unit.text("ProtectSystem") != "strict":
            continue
        open_to = list(_writable(unit))
        for need in of_variables(unit):
            if need.what in _CACHES and not below(need.path, *open_to):
                yield Found(
                    need.at, f"ProtectSystem=strict: {need.what} cannot be written",
                    f"add ReadWritePaths={need.path}", sees="read-only file system",
                )  # fmt: skip


def _writable(unit: Unit) -> Iterator[str]:
    yield from ("/dev", "/proc", "/sys")
    if true(unit.text("PrivateTmp")):
        yield from ("/tmp", "/var/tmp")  # noqa: S108
    for key in ("ReadWritePaths", "BindPaths", "TemporaryFileSystem"):
        for directive in unit.all(key):
            yield from (p.split(":")[-1].lstrip("-+") for p in directive.value.split())
    made = {
        "StateDirectory": "/var/lib",
        "CacheDirectory": "/var/cache",
        "RuntimeDirectory": "/run",
    }
    for key, parent in {**made, "LogsDirectory": "/var/log"}.items():
        for directive in unit.all(key):
            yield from (f"{parent}/{name.split(':')[0]}" for name in directive.value.split())
