"""Engine llama.cpp: llama-server out of the build that tasks/llama_cpp.py installed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkwright import distributed, llama_server
from sparkwright.engine_facts import read_facts, refused
from sparkwright.engines import Installed, Launch, Place, key_file
from sparkwright.resources import Spec, State
from sparkwright.site import Planned, need

FACTS = ".introspect.json"
RPC_SERVER = "ggml-rpc-server"


def probes(item: Planned, place: Place) -> list[Spec]:
    """Which build is current, and what it says of itself."""
    current = f"{place.prefix}/llama.cpp/current"
    return [
        {"kind": "path", "path": current},
        {"kind": "path", "path": f"{current}/{FACTS}", "text": True},
    ]


def installed(item: Planned, place: Place, states: Sequence[State]) -> Installed:
    """The build by its own name, not by the link: a switched link alone changes no process."""
    text = states[1].get("text", "")
    return Installed(states[0].get("target", "absent"), read_facts(text) if text else None)


def launch(item: Planned, place: Place, found: Installed) -> Launch:
    """llama-server with the recipe's flags; a worker of several machines runs the RPC server."""
    programs = f"{place.prefix}/llama.cpp/{found.build}/bin"
    if item.member and not item.member.is_head:
        argv = distributed.rpc_server(f"{programs}/{RPC_SERVER}", item.port, item.member)
        return Launch(argv, dict(item.recipe.env))
    argv = llama_server.argv(
        item.recipe,
        binary=f"{programs}/llama-server",
        model=f"{need(item.weights).directory}/{llama_server.first_shard(item.files)}",
        port=item.port,
        listen=item.listen,
        api_key_file=key_file(item, place.etc_dir),
    )
    argv += distributed.rpc_words(item.port, item.member)
    env = {**place.tiktoken, **llama_server.offline(found.facts), **item.recipe.env}
    wrong = refused(argv[1:], env, found.facts) if found.facts else []
    return Launch(argv, env, refused=tuple(wrong))
