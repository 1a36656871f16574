"""A recipe as frozen values: one served model and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """Where model files come from, and which of them."""

    repo: str
    revision: str
    license: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    gated: bool


@dataclass(frozen=True)
class Acceptance:
    """The question asked after a start, and what must come back.

    + system, system_expect: a system message, and the text that an answer under it must contain
    + long_question: asked for a long answer, in which nothing may repeat itself without end
    """

    question: str
    expect: str
    max_tokens: int
    finish_reason: str
    log_must: tuple[str, ...]
    log_must_not: tuple[str, ...]
    system: str | None = None
    system_expect: str | None = None
    long_question: str | None = None


@dataclass(frozen=True)
class Container:
    """What a recipe of engine container says beside the rest.

    + image: name of an artifact of kind image
    + serves: vllm, openai (another server of the OpenAI API) or web (no API: health counts)
    + command: entry point and words before the flags; empty takes the image's own
    + port: inside the container; 0 when the server takes the recipe's port itself
    + volumes: path below the recipe's cache directory -> path inside
    + health: path that answers 200 when it serves
    """

    image: str
    serves: str
    command: tuple[str, ...]
    port: int
    volumes: Mapping[str, str]
    health: str


@dataclass(frozen=True)
class Spread:
    """How many machines serve the model together, and how.

    + tensor_parallel: machines that share every layer; sparks / tensor_parallel is the pipeline
    + distributed: "mp" or "ray" (vLLM), "rpc" (llama.cpp), None for one machine
    """

    sparks: int = 1
    tensor_parallel: int = 1
    distributed: str | None = None


@dataclass(frozen=True)
class Recipe:
    """One served model and how.

    + memory_gib: everything it holds while serving, GiB
    + context: tokens; llama.cpp shares them over all slots, vLLM allows them to each request
    + weights: None for a container without a model
    + flags: the engine's own long option names without dashes; True is a bare flag
    + load_timeout_s: seconds from start to the first 200 of its health path
    + profile: vLLM's venv; None takes the machine's `vllm_profile`
    + kernels: number format whose backend is chosen for the installed build (vllm_backends.py)
    + spread: how many machines serve it together
    """

    name: str
    engine: str
    description: str
    served_name: str
    port: int
    memory_gib: float
    context: int
    weights: Weights | None
    flags: Mapping[str, str | int | float | bool]
    env: Mapping[str, str]
    load_timeout_s: int
    acceptance: Acceptance
    profile: str | None = None
    kernels: str | None = None
    container: Container | None = None
    spread: Spread = Spread()

    @property
    def runs_vllm(self) -> bool:
        """Is vLLM what answers, from a venv or inside a container?"""
        inside = self.container is not None and self.container.serves == "vllm"
        return self.engine == "vllm" or inside
