"""Rules about settings that never reach the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import GPU_ENGINES, Document, How, Kind, Launch
from sparkwright.lint.registry import file_rule, launch_rule
from sparkwright.lint.variables import ENGINE_NAMES

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE
# sparkrun and eugr's runner use these themselves (sparkrun 0.4.2; eugr run-recipe.py).
_OF_THE_RUNNER: Final = frozenset(
    {"port", "host", "tensor_parallel", "pipeline_parallel", "data_parallel", "nodes", "min_nodes"}
    | {"max_nodes", "served_model_name", "solo", "cluster_only", "distributed_executor_backend"}
    | {"gpu_memory_utilization", "max_model_len", "kv_cache_dtype"}
)


@launch_rule(WARN)
def unexported_variable(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A variable that a script sets without `export`: the engine does not get it.

    `HF_HUB_OFFLINE=1` on a line of its own is the script's variable, not the engine's.

    Bad:
        HF_HUB_OFFLINE=1
        vllm serve /srv/m

    Good:
        export HF_HUB_OFFLINE=1
        vllm serve /srv/m

    Source: bash manual, "Environment"
    """
    if launch.image is not None or launch.engine not in GPU_ENGINES:
        return
    given = {item.name for item in launch.env}
    for item in launch.lost:
        if item.how is not How.SHELL or item.name in given or not ENGINE_NAMES.fullmatch(item.name):
            continue
        if _is_setting(item.name, ctx, launch) and item.name not in doc.expanded:
            yield Found(
                item.at,
                f"{item.name} is not exported: the engine does not get it",
                f"write export {item.raw}",
                sees=f"no {item.name} in the engine's environment",
            )


def _is_setting(name: str, ctx: Context, launch: Launch) -> bool:
    """A VLLM_ name that no vLLM has is the script's own, however it is called."""
    if not name.startswith("VLLM_"):
        return True
    build = ctx.build(launch)
    return build is not None and (name in build.facts.env or ctx.catalog.variable(name) is not None)


@launch_rule(WARN)
def late_export(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """An export behind the line that starts the engine.

    The engine has its environment by then; what comes later changes nothing for it.

    Bad:
        vllm serve /srv/m &
        export HF_HUB_OFFLINE=1

    Good:
        export HF_HUB_OFFLINE=1
        vllm serve /srv/m &

    Source: execve(2)
    """
    if launch.image is not None or launch.engine not in GPU_ENGINES:
        return
    given = {item.name for item in launch.env}
    for item in launch.lost:
        late = item.how is How.EXPORT and item.at > launch.at and item.at.file == launch.at.file
        if late and item.name not in given and ENGINE_NAMES.fullmatch(item.name):
            others = [one for one in doc.launches if one.get(item.name) is not None]
            if not others and _is_setting(item.name, ctx, launch):
                yield Found(
                    item.at,
                    f"{item.name} is exported after line {launch.at.line} started the engine",
                    "move the export above that line",
                    sees=f"no {item.name} in the engine's environment",
                )


@file_rule(WARN, BLOCK)
def unused_default(doc: Document, ctx: Context) -> Iterator[Found]:
    """A value under `defaults:` that the recipe's command does not use.

    The command has no `{name}` for it, so the setting never reaches the engine.

    Bad:
        defaults: {model_revision: abc123}
        command: vllm serve {model}

    Good:
        defaults: {model_revision: abc123}
        command: vllm serve {model} --revision {model_revision}

    Source: styles01/sparkrun-recipes#4
    """
    command = next((key.value for key in doc.keys if key.path == "command"), None)
    if doc.kind is not Kind.COMMAND_RECIPE or command is None:
        return
    for key in doc.keys:
        name = key.path.removeprefix("defaults/")
        if not key.path.startswith("defaults/") or "/" in name or name in _OF_THE_RUNNER:
            continue
        if not re.search(rf"\{{{re.escape(name)}\b", command):
            yield Found(
                key.at,
                f"defaults/{name} is used nowhere in the command",
                f"put {{{name}}} where it belongs, or remove the key",
                sees=f"no {name} in the engine's command line",
                verdict=BLOCK if ctx.own else WARN,
            )


@file_rule(WARN)
def unused_revision(doc: Document, ctx: Context) -> Iterator[Found]:
    """`model_revision` of a recipe that its command does not use.

    sparkrun passes the revision on to the engine only through the command's `{model_revision}`;
    without it the newest files are loaded.

    Bad:
        model_revision: abc123
        command: vllm serve {model}

    Good:
        model_revision: abc123
        command: vllm serve {model} --revision {model_revision}

    Source: styles01/sparkrun-recipes#4
    """
    command = doc.facts.get("command")
    if doc.kind is not Kind.COMMAND_RECIPE or command is None:
        return
    for key in doc.keys:
        if key.path == "model_revision" and key.value and "revision" not in command:
            yield Found(
                key.at,
                "model_revision is used nowhere in the command",
                "add --revision {model_revision} to the command",
                sees="no --revision in the engine's command line",
            )
