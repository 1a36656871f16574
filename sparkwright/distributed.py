"""The words by which one process of several finds the others, for each engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparkwright.members import Member, engine_port
from sparkwright.recipe_types import Recipe

# Ray reports home unless told not to, and counts ordinary memory, which on GB10 the GPU has too:
# its monitor would kill the workers of a large model (NVIDIA's playbook sets the same for a pair).
RAY_ENV: Final[Mapping[str, str]] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
}
# Bytes of Ray's object store: tensors do not go through it (NVIDIA's playbook for two Sparks).
RAY_STORE: Final = 1 << 30


def vllm_words(recipe: Recipe, port: int, member: Member | None) -> tuple[str, ...]:
    """Flags of `vllm serve` on one machine of several.

    vLLM's own way (`mp`, vllm#23691): the same command everywhere but for the rank, and --headless
    where nobody answers. With Ray only the head runs this, and Ray starts the rest.
    """
    if member is None:
        return ()
    spread = recipe.spread
    words = ["--tensor-parallel-size", str(spread.tensor_parallel)]
    pipeline = spread.sparks // spread.tensor_parallel
    words += ["--pipeline-parallel-size", str(pipeline)] if pipeline > 1 else []
    words += ["--distributed-executor-backend", str(spread.distributed)]
    if spread.distributed == "ray":
        return tuple(words)
    words += ["--nnodes", str(spread.sparks), "--node-rank", str(member.rank)]
    words += ["--master-addr", member.head, "--master-port", str(engine_port(port))]
    return (*words, *(() if member.is_head else ("--headless",)))


def ray_words(program: str, port: int, member: Member) -> tuple[str, ...]:
    """`ray start` of the head or of a worker, in the foreground.

    + program: absolute path of `ray`
    """
    meeting = f"{member.head}:{engine_port(port)}"
    own = ["--node-ip-address", member.own, "--disable-usage-stats", "--block"]
    own += ["--object-store-memory", str(RAY_STORE)]
    if member.is_head:
        head = ["--head", "--port", str(engine_port(port)), "--include-dashboard=false"]
        return (program, "start", *head, *own)
    return (program, "start", "--address", meeting, *own)


def ray_env(port: int, member: Member) -> dict[str, str]:
    """Variables by which vLLM on the head finds Ray, and not another one on the machine."""
    return {**RAY_ENV, "RAY_ADDRESS": f"{member.head}:{engine_port(port)}"}


def rpc_server(program: str, port: int, member: Member) -> tuple[str, ...]:
    """llama.cpp's RPC server, on the fabric alone: it has no key and no encryption.

    -c keeps the weights that it was sent, so a later start reads them from its own disk
    (tools/rpc/README.md of llama.cpp).
    """
    return (program, "--host", member.own, "--port", str(engine_port(port)), "--cache")


def rpc_words(port: int, member: Member | None) -> tuple[str, ...]:
    """Flags of the head's llama-server: the other machines only, never itself (a crash)."""
    if member is None:
        return ()
    return ("--rpc", ",".join(f"{at}:{engine_port(port)}" for at in member.workers))
