"""The part of a recipe about several machines: sparks, tensor_parallel, distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparkwright.members import PORT_MAX
from sparkwright.recipe_types import Spread
from sparkwright.yaml_reader import Reader, between, one_of

# How the machines of one model work together; the first is the default.
DISTRIBUTED: Final[Mapping[str, tuple[str, ...]]] = {"vllm": ("mp", "ray"), "llama.cpp": ("rpc",)}
# Two is what NVIDIA's guides and the cable between two Sparks are about; more need a switch.
SPARKS_MAX: Final = 8
_OWN: Final = "sparkwright sets this flag itself when a recipe says sparks"
# Flags of vLLM and llama.cpp that the part's rank decides.
FLAGS: Final[Mapping[str, str]] = {
    "nnodes": "set sparks instead",
    "node-rank": "remove it",
    "master-addr": "remove it",
    "master-port": "remove it",
    "headless": "remove it",
    "distributed-executor-backend": "set distributed instead",
    "tensor-parallel-size": "set tensor_parallel instead",
    "pipeline-parallel-size": "set tensor_parallel: the rest of sparks is the pipeline",
    "rpc": "set sparks instead",
}


def read_spread(top: Reader, engine: str) -> Spread:
    """The three keys; what does not fit the engine or the number of machines is refused."""
    sparks = top.take("sparks", int, 1, check=between(1, SPARKS_MAX))
    known = DISTRIBUTED.get(engine, ())
    if sparks == 1:
        for key in ("tensor_parallel", "distributed"):
            if top.has(key):
                top.fail(key, "says nothing to one machine", "set sparks: 2, or remove it")
        top.take("tensor_parallel", int, 1)
        top.take("distributed", str, None)
        return Spread()
    if not known:
        what = f"engine {engine} serves from one machine"
        top.fail("sparks", what, "use engine vllm or llama.cpp, or remove it")
    distributed = top.take("distributed", str, None, check=one_of(*(known or ("mp",))))
    return Spread(sparks, _tensor_parallel(top, engine, sparks), distributed or (*known, None)[0])


def _tensor_parallel(top: Reader, engine: str, sparks: int) -> int:
    if engine == "llama.cpp":
        if top.has("tensor_parallel"):
            what = "llama.cpp gives each machine whole layers, over RPC"
            top.fail("tensor_parallel", what, "remove it")
        return top.take("tensor_parallel", int, 1)
    size = top.take("tensor_parallel", int, sparks, check=between(1, SPARKS_MAX))
    if sparks % size:
        what = f"{size} does not divide sparks ({sparks}): a spark has one GPU"
        top.fail("tensor_parallel", what, f"write {sparks}, or leave it out")
    return size


def check_spread(top: Reader, spread: Spread, port: int, flags: Mapping[str, object]) -> None:
    """Record flags that the rank decides, and a port that leaves no room for the members' ones."""
    for name in flags:
        if name in FLAGS and (spread.sparks > 1 or name != "tensor-parallel-size"):
            top.fail(f"flags/{name}", _OWN, FLAGS[name])
    if spread.sparks > 1 and port > PORT_MAX:
        what = f"{port} leaves no ports for the members, which are made from it"
        top.fail("port", what, f"use at most {PORT_MAX}")
