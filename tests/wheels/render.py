"""Renders chats as an installed vLLM would for gpt-oss, out of its own two files.

`render.py DIRECTORY SERVING CONVERSATIONS.json`, run by a Python that has openai-harmony alone.
Real are harmony_utils.py and the function _make_request_with_harmony of SERVING, which is cut out
of its module; stand-ins are what they import of vLLM (variables, logger, the request's classes),
because the modules themselves import torch.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

UTILS = "vllm/entrypoints/openai/parser/harmony_utils.py"
FUNCTION = "_make_request_with_harmony"


class Anything:
    """Takes any arguments; stands for classes and loggers that the functions only name."""

    def __init__(self, *_: object, **__: object) -> None:
        """Nothing is kept."""

    def __getattr__(self, name: str) -> Anything:
        return self

    def __call__(self, *_: object, **__: object) -> Anything:
        return self


class Tool(types.SimpleNamespace):
    """A tool of a request."""


def stand_ins(system_instructions: bool) -> None:
    """Register the modules that harmony_utils.py imports of vLLM and of the openai package."""
    names: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.envs": {
            "VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS": system_instructions,
            "VLLM_SYSTEM_START_DATE": "2026-01-01",
        },
        "vllm.logger": {"init_logger": Anything()},
        "vllm.exceptions": {"VLLMValidationError": type("VLLMValidationError", (Exception,), {})},
        "vllm.entrypoints.openai.chat_completion.protocol": {"ChatCompletionToolsParam": Tool},
        "openai.types.responses.tool": {"Tool": Tool},
    }
    for name, attributes in names.items():
        for end in [at for at, char in enumerate(name) if char == "."]:
            sys.modules.setdefault(name[:end], types.ModuleType(name[:end]))
        module = sys.modules.setdefault(name, types.ModuleType(name))
        for key, value in attributes.items():
            setattr(module, key, value)
    sys.modules["vllm"].envs = sys.modules["vllm.envs"]  # type: ignore[attr-defined]  # a module


def load(directory: Path) -> types.ModuleType:
    """The real harmony_utils.py."""
    spec = importlib.util.spec_from_file_location("harmony_utils", directory / UTILS)
    if spec is None or spec.loader is None:
        raise ImportError(UTILS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cut_out(path: Path, names: dict[str, Any]) -> Any:
    """The real function, compiled with these global names."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == FUNCTION:
            node.decorator_list = []
            future = ast.parse("from __future__ import annotations").body
            exec(compile(ast.Module([*future, node], []), str(path), "exec"), names)  # noqa: S102
            return names[FUNCTION]
    raise LookupError(f"{path}: no {FUNCTION}")


def render(directory: Path, serving: str, chats: list[dict[str, Any]], system: bool) -> list[str]:
    """The prompt's text for each chat."""
    stand_ins(system)
    utils = load(directory)
    names = {
        **vars(utils),
        "envs": sys.modules["vllm.envs"],
        "_mt": Anything(),
        "TokensPrompt": lambda prompt_token_ids: {"prompt_token_ids": prompt_token_ids},
        "tokens_input": lambda ids, cache_salt: {"prompt_token_ids": ids},
        "map_reasoning_effort": lambda effort, _: effort,
        "_reused_prompt_token_ids": lambda *_: None,
    }
    function = cut_out(directory / serving, names)
    server = types.SimpleNamespace(
        supports_browsing=False,
        supports_code_interpreter=False,
        reasoning_effort_map=None,
        renderer=None,
    )
    texts = []
    for chat in chats:
        request = types.SimpleNamespace(
            messages=chat["messages"],
            tools=[_tool(tool) for tool in chat.get("tools", [])] or None,
            reasoning_effort=chat.get("reasoning_effort"),
            cache_salt=None,
        )
        _, prompts = function(server, request, chat.get("include_tools", True))
        texts.append(utils.get_encoding().decode(prompts[0]["prompt_token_ids"]))
    return texts


def _tool(value: dict[str, Any]) -> Tool:
    return Tool(type="function", function=types.SimpleNamespace(**value))


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[3]).read_text())
    place = Path(sys.argv[1])
    print(json.dumps([render(place, sys.argv[2], asked, on) for on in (False, True)]))
