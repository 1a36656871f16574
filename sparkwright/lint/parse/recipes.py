"""Recipes as launches: ours, sparkrun's and eugr's, vllm-project's, and vLLM's --config files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sparkwright.lint.model import Assignment, At, Engine, How, Launch, Word
from sparkwright.lint.parse import docker, script, template, words, yaml_text
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.parse.yaml_tree import Node
from sparkwright.lint.text import Text

_ENGINES: Final = {
    "vllm": Engine.VLLM,
    "llama.cpp": Engine.LLAMA,
    "llama-cpp": Engine.LLAMA,
    "sglang": Engine.SGLANG,
}
# sparkrun's names of defaults that are not vLLM's own (sparkrun 0.4.2, runtimes/vllm.py).
_RENAMED: Final = {
    "tensor_parallel": "tensor-parallel-size",
    "pipeline_parallel": "pipeline-parallel-size",
    "data_parallel": "data-parallel-size",
    "tool_parser": "tool-call-parser",
    "ctx_size": "ctx-size",
}


def plain(node: Node, lines: list[str]) -> Word:
    """A scalar as one word."""
    text = yaml_text.text(node, lines)
    return words.word(text.text, text.text, text, 0)


def environment(node: Node | None, lines: list[str]) -> tuple[Assignment, ...]:
    """A map of variables."""
    items = node.items if node is not None and node.kind == "map" else []
    found = []
    for key, value in items:
        if key is not None and value.kind == "scalar":
            given = plain(value, lines).text
            raw = f"{key.value}: {value.value}"
            found.append(Assignment(key.value, given, raw, key.at, How.RECIPE))
    return tuple(found)


def ours(root: Node, lines: list[str]) -> Iterator[Launch]:
    """A recipe of sparkwright: its flags are the engine's own long names."""
    name = root.scalar("engine") or ""
    container = root.get("container")
    served = container.scalar("serves") if container is not None else None
    engine = _ENGINES.get(served or name, Engine.OTHER)
    top = root.get("engine") or root
    argv = _program(engine, top.at)
    weights = root.get("weights")
    repo = weights.get("repo") if weights is not None else None
    if repo is not None:
        # The rendered command gets a local path, which is not known here.
        model = Word(None, repo.value, repo.at, pattern=repo.value)
        argv += [model] if engine is Engine.VLLM else [Word("-m", "-m", repo.at), model]
    argv += list(_flags(root.get("flags"), lines))
    env = environment(root.get("env"), lines)
    yield Launch(engine, tuple(argv), top.at, env, where="recipe")


def _program(engine: Engine, at: At) -> list[Word]:
    texts = ["vllm", "serve"] if engine is Engine.VLLM else [str(engine)]
    return [Word(text, text, at) for text in texts]


def _flags(node: Node | None, lines: list[str]) -> Iterator[Word]:
    """`name: value` as `--name value`; true is a bare flag, false none at all."""
    for key, value in node.items if node is not None and node.kind == "map" else []:
        if key is None or (value.tag == "bool" and value.value.lower() == "false"):
            continue
        yield Word("--" + key.value.replace("_", "-"), key.value, key.at)
        if value.kind == "scalar" and value.tag not in ("bool", "null"):
            yield plain(value, lines)
        for _, item in value.items:
            if item.kind == "scalar":
                yield plain(item, lines)


def vllm_config(root: Node, lines: list[str]) -> Iterator[Launch]:
    """The YAML of `vllm serve --config` (vllm/utils/argparse_utils.py, load_config_file)."""
    argv = [*_program(Engine.VLLM, root.at), *_flags(root, lines)]
    yield Launch(Engine.VLLM, tuple(argv), root.at, where="--config")


def command_recipe(
    root: Node, lines: list[str], read_file: docker.ReadFile
) -> Iterator[script.Script]:
    """sparkrun's and eugr's: `command:` with names from `defaults:`, run by a shell."""
    env = environment(root.get("env"), lines)
    image = root.get("container")
    nodes = root.scalar("min_nodes") or root.scalar("cluster_only") or root.scalar("nodes") or "1"
    cluster = nodes.lower() not in ("1", "false", "0")
    around = Around(env, (), None, "recipe", plain(image, lines) if image else None, (), cluster)
    node = root.get("command")
    if node is None or node.kind != "scalar":
        launch = _from_defaults(root, lines, around)
        found = (launch,) if launch else ()
        yield script.Script((), env, found, (), ())
        return
    text = template.braces(yaml_text.text(node, lines), lambda name, _: _default(root, name, lines))
    made = script.read(text, read_file, around)
    yield replace(made, assignments=(*env, *made.assignments))


def _default(root: Node, name: str, lines: list[str]) -> Text | str | None:
    """A name's text; what nobody defines stays as it stands: JSON has braces too."""
    for node in (root.get("defaults"), root):
        value = node.get(name) if node is not None else None
        if value is not None and value.kind == "scalar" and name != "command":
            return yaml_text.text(value, lines)
    return "{" + name + "}"


def _from_defaults(root: Node, lines: list[str], around: Around) -> Launch | None:
    """sparkrun builds the command itself when a recipe has none."""
    engine = _ENGINES.get((root.scalar("runtime") or "").split("-")[0])
    model, defaults = root.get("model"), root.get("defaults")
    if engine not in (Engine.VLLM,) or model is None or model.kind != "scalar":
        return None
    argv = [*_program(engine, model.at), plain(model, lines)]
    pairs = defaults.items if defaults is not None and defaults.kind == "map" else []
    named = [(k, v) for k, v in pairs if k is not None and k.value not in ("host", "port")]
    renamed = [
        (replace(k, value=_RENAMED.get(k.value, k.value)), v) for k, v in named if k is not None
    ]
    argv += list(_flags(Node("map", model.at, items=list(renamed)), lines))
    return Launch(
        engine, tuple(argv), model.at, around.env, (), around.env_unknown, None, "recipe",
        around.image, (), around.cluster,
    )  # fmt: skip


# Overrides of vllm-project/recipes that a Spark would use.
_HARDWARE: Final = re.compile(r"gb10|spark|blackwell|nvidia|sm12")


def guide_recipe(root: Node, lines: list[str]) -> Iterator[Launch]:
    """vllm-project/recipes: base arguments with each feature, and those for hardware like ours."""
    model = root.get("model")
    ident = model.get("model_id") if model is not None else None
    if model is None or ident is None or root.get("omni") is not None:
        return  # vllm-omni's recipes are of another program
    base = [
        *_program(Engine.VLLM, ident.at),
        plain(ident, lines),
        *_list(model.get("base_args"), lines),
    ]
    env = environment(model.get("base_env"), lines)
    yield Launch(Engine.VLLM, tuple(base), ident.at, env, where="model", cluster=True)
    groups = [("features", root.get("features")), ("overrides", root.get("hardware_overrides"))]
    for group, node in groups:
        for name, part in node.items if node is not None and node.kind == "map" else []:
            if name is None or (group == "overrides" and not _HARDWARE.search(name.value)):
                continue
            argv = [*base, *_list(part.get("args") or part.get("extra_args"), lines)]
            more = environment(part.get("env") or part.get("extra_env"), lines)
            where = f"{group}/{name.value}"
            yield Launch(
                Engine.VLLM, tuple(argv), name.at, (*env, *more), where=where, cluster=True
            )


def _list(node: Node | None, lines: list[str]) -> list[Word]:
    """Words of a list; the guide joins them by blanks, so "--port 80" is two of them."""
    items = node.items if node is not None and node.kind == "list" else []
    found: list[Word] = []
    for _, item in items:
        if item.kind == "scalar" and re.match(r"--[\w-]+ +[^\s{\['\"]", item.value):
            found += words.split(yaml_text.text(item, lines))
        elif item.kind == "scalar":
            found.append(plain(item, lines))
    return found
