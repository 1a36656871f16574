"""Which assignments of a file are for vLLM, and for which build."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkwright.lint.context import Build, Context
from sparkwright.lint.model import Assignment, Document, Engine, How, Kind, Launch
from sparkwright.lint.settings import ALSO_READ, KUBERNETES

# Variables that an engine or one of its libraries reads, by their beginning.
ENGINE_NAMES = re.compile(
    r"(VLLM|HF|TRANSFORMERS|HUGGING_FACE|TIKTOKEN|NCCL|TORCH|PYTORCH|TRITON|FLASHINFER|CUDA|GLOO"
    r"|LLAMA_ARG|GGML|OLLAMA|SAFETENSORS|OMP|UCX|RAY|TORCHINDUCTOR|XDG_CACHE)_?[A-Z0-9_]*"
)
_ALONE = frozenset({Kind.ENVFILE, Kind.DROPIN, Kind.DOCKERFILE})


def of_vllm(doc: Document, ctx: Context) -> Iterator[tuple[Assignment, Launch | None, Build]]:
    """Every VLLM_* assignment that a vLLM sees, each once, with the launch and the build.

    A file that starts nothing itself (an EnvironmentFile, a drop-in, an image) is judged as if a
    vLLM read it.
    """
    seen: set[tuple[str, object]] = set()
    for launch in doc.launches:
        build = ctx.build(launch) if launch.engine is Engine.VLLM else None
        for item in launch.env if build else ():
            if build and _is_setting(item) and (item.name, item.at) not in seen:
                seen.add((item.name, item.at))
                yield item, launch, build
    if doc.kind in _ALONE and not doc.launches:
        for item in doc.assignments:
            if _is_setting(item) and (item.name, item.at) not in seen:
                seen.add((item.name, item.at))
                yield item, None, ctx.vllm


def _is_setting(item: Assignment) -> bool:
    name = item.name
    return name.startswith("VLLM_") and not KUBERNETES.fullmatch(name) and name not in ALSO_READ


def used_by_file(doc: Document, item: Assignment) -> bool:
    """Whether the file itself uses the variable: then it is the script's, not vLLM's."""
    if item.how not in (How.EXPORT, How.SHELL, How.ENVFILE, How.UNIT, How.IMAGE):
        return False
    return item.name in doc.expanded
