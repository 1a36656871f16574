"""What a service of a built engine needs at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine
from sparkwright.lint.registry import files_rule
from sparkwright.lint.rules.systemd_reading import whole_units


@files_rule(Verdict.WARN)
def path_of_venv(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A vLLM service without Environment=PATH.

    FlashInfer and Triton compile while the engine warms up: they look for ninja and nvcc in PATH.
    In an activated venv they are there; systemd's PATH has neither, and the engine dies.

    Bad:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m

    Good:
        Environment=PATH=/opt/vllm/bin:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin
        Environment=CUDA_HOME=/usr/local/cuda
        ExecStart=/opt/vllm/bin/vllm serve /srv/m

    Source: flashinfer-ai/flashinfer#3386, vllm-project/vllm#49497
    """
    for unit in whole_units(docs):
        for launch in unit.launches:
            inside = launch.image is not None or launch.engine is not Engine.VLLM
            if inside or launch.where != "ExecStart" or launch.env_unknown or launch.get("PATH"):
                continue
            program = launch.argv[0].text or ""
            folder = program.rpartition("/")[0] or "/opt/vllm/bin"
            yield Found(
                launch.at, "FlashInfer and Triton find neither ninja nor nvcc in systemd's PATH",
                f"add Environment=PATH={folder}:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin",
                sees="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
            )  # fmt: skip
