"""What vLLM's own parser knows: prints a file of golden/. Run it with a full install, by hand.

    uv venv --python 3.11 DIR; uv pip install --python DIR/bin/python vllm==0.33.0   # 9 GB
    DIR/bin/python tests/introspection/exact.py > tests/introspection/golden/vllm-0.33.0.json

It needs no GPU: where NVML finds none, the platform is replaced before the parser is made, so that
choices that depend on the device are those of a CPU. The files in golden/ were made so on x86-64.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable
from typing import Any

PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)


def load(name: str) -> Any:
    """A module of the vLLM that is installed."""
    return importlib.import_module(name)


def parser() -> Any:
    """vLLM's parser of `vllm serve`."""
    platforms = load("vllm.platforms")
    if not platforms.current_platform.device_type:
        platforms._current_platform = load("vllm.platforms.cpu").CpuPlatform()
    name = next(
        name
        for name in PARSERS
        if importlib.util.find_spec(name.rsplit(".", 1)[0]) and importlib.util.find_spec(name)
    )
    flexible = load("vllm.utils.argparse_utils").FlexibleArgumentParser
    return load(name).make_arg_parser(flexible(prog="vllm serve"))


def flags() -> dict[str, Any]:
    """Every option string that is accepted, the hidden ones too."""
    found = {}
    for name, action in parser()._option_string_actions.items():
        value = False if action.nargs == 0 else None if action.nargs in ("?", "*") else True
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        found[name] = {"choices": choices, "value": value}
    return found


def env_choices(read: Callable[..., Any]) -> list[str] | None:
    """The values that a variable's reader keeps in its closure."""
    cells = [cell.cell_contents for cell in getattr(read, "__closure__", None) or ()]
    names = dict(zip(read.__code__.co_freevars, cells, strict=True))
    if "choices" in names:
        choices = names["choices"]
        return list(choices() if callable(choices) else choices)
    inner = (env_choices(cell) for cell in cells if hasattr(cell, "__code__"))
    return next((found for found in inner if found), None)


def main() -> None:
    """Print it, one name a line."""
    readers = load("vllm.envs").environment_variables
    backends = load("vllm.v1.attention.backends.registry").AttentionBackendEnum
    known: dict[str, Any] = {
        "env": {n: env_choices(r) if hasattr(r, "__code__") else None for n, r in readers.items()},
        "flags": flags(),
        "reasoning_parsers": list(load("vllm.reasoning").ReasoningParserManager.list_registered()),
        "tool_parsers": list(load("vllm.tool_parsers").ToolParserManager.list_registered()),
        "attention_backends": list(backends.__members__),
    }
    show(importlib.metadata.version("vllm"), known)


def show(version: str, known: dict[str, Any]) -> None:
    """The text of a golden file."""
    lines = [f'"version": {json.dumps(version)}']
    for key, part in known.items():
        if isinstance(part, dict):
            rows = [f"{json.dumps(name)}: {json.dumps(part[name])}" for name in sorted(part)]
            lines.append(f'"{key}": {{\n' + ",\n".join(rows) + "\n}")
        else:
            lines.append(f'"{key}": {json.dumps(sorted(part))}')
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
