"""Engine vllm: `vllm serve` out of the venv of a profile that tasks/vllm.py installed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkwright import vllm_backends, vllm_server
from sparkwright.engine_facts import EngineFacts, read_facts, refused
from sparkwright.engines import Installed, Launch, Place
from sparkwright.errors import SparkwrightError
from sparkwright.resources import Spec, State
from sparkwright.site import Planned, need

FACTS = ".introspect.json"
CUDA_HOME = "/usr/local/cuda"


def probes(item: Planned, place: Place) -> list[Spec]:
    """Which venv is current for the profile, and what it says of itself."""
    current = f"{place.prefix}/vllm/{item.profile}"
    return [
        {"kind": "path", "path": current},
        {"kind": "path", "path": f"{current}/{FACTS}", "text": True},
    ]


def installed(item: Planned, place: Place, states: Sequence[State]) -> Installed:
    """The venv by its own name, not by the link: a switched link alone changes no process."""
    text = states[1].get("text", "")
    return Installed(states[0].get("target", "absent"), read_facts(text) if text else None)


def launch(item: Planned, place: Place, found: Installed) -> Launch:
    """`vllm serve` with the backend that this build wants for the recipe's kernels."""
    venv = f"{place.prefix}/vllm/{found.build}"
    backend, wrong = choose(item, found.facts)
    argv = (
        f"{venv}/bin/vllm",
        "serve",
        *vllm_server.words(
            item.recipe,
            model=need(item.weights).directory,
            port=item.port,
            listen=item.listen,
            backend=backend.flags,
        ),
    )
    env = {**environment(f"{place.data_dir}/cache/{item.unit}", place, found.facts)}
    # FlashInfer and Triton look for nvcc, ninja and ptxas in PATH, which systemd keeps short.
    env["PATH"] = f"{venv}/bin:{CUDA_HOME}/bin:/usr/local/bin:/usr/bin:/bin"
    env |= {"CUDA_HOME": CUDA_HOME, **backend.env, **item.recipe.env}
    if found.facts:
        wrong = [*wrong, *refused(argv[3:], env, found.facts)]
    return Launch(argv, env, backend.log_must, backend.log_must_not, tuple(wrong))


def choose(item: Planned, facts: EngineFacts | None) -> tuple[vllm_backends.Backend, list[str]]:
    """The backend for the recipe's kernels, and why there is none."""
    nothing = vllm_backends.Backend({}, {}, (), (), ())
    if facts is None:
        return nothing, []
    try:
        return vllm_backends.choose(item.recipe.kernels, facts), []
    except SparkwrightError as error:
        return nothing, str(error).splitlines()


def environment(cache: str, place: Place, facts: EngineFacts | None) -> dict[str, str]:
    """What every vLLM process of ours has: caches in one place, no network, the vocabulary.

    + cache: the unit's own directory
    """
    tiktoken: Mapping[str, str] = place.tiktoken
    return {**vllm_server.caches(cache), **vllm_server.OFFLINE, **tiktoken}
