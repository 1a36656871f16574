"""What kind of file it is, by name first and content second."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from sparkwright.lint.model import Kind
from sparkwright.lint.parse.yaml_tree import Node

_UNITS: Final = re.compile(r"\.(service|socket|timer|target|mount|slice|path|scope)$")
_NAMES: Final = (
    (re.compile(r"\.(service|socket|timer|target|slice|path)\.d/[^/]+\.conf$"), Kind.DROPIN),
    (_UNITS, Kind.UNIT),
    (
        re.compile(r"(^|/)([Dd]ockerfile|[Cc]ontainerfile)([.-][^/]*)?$|\.[Dd]ockerfile$"),
        Kind.DOCKERFILE,
    ),
    (re.compile(r"\.(sh|bash)$|(^|/)\.(bashrc|profile|bash_profile)$"), Kind.SCRIPT),
    (re.compile(r"\.env$|(^|/)\.env(\.[^/]*)?$|\.env\.(example|sample|template)$"), Kind.ENVFILE),
    (re.compile(r"(^|/)etc/(default|sysconfig)/[^/]+$"), Kind.ENVFILE),
    (re.compile(r"(^|/)limits\.conf$|(^|/)limits\.d/[^/]+\.conf$"), Kind.LIMITS),
    (re.compile(r"\.(md|markdown)$"), Kind.MARKDOWN),
)
_SHEBANG: Final = re.compile(r"#!.*\b(ba|da|z|k)?sh\b")
_SECTION: Final = re.compile(r"^\[(Unit|Service|Install)\]\s*$", re.I | re.M)
_ASSIGN: Final = re.compile(r"\s*(export\s+)?[A-Za-z_]\w*\s*=")
_STARTS: Final = re.compile(
    r"^\s*(\$ )?(sudo )?(docker|podman) run\b|\bvllm serve\b|llama-server ", re.M
)
YAML: Final = re.compile(r"\.(ya?ml)$")


def by_name(path: str) -> Kind | None:
    """The kind that a name tells; None for YAML and others, whose content tells."""
    shown = PurePath(path).as_posix()
    return next((kind for pattern, kind in _NAMES if pattern.search(shown)), None)


def by_content(path: str, text: str) -> Kind | None:
    """The kind of a file that is no YAML, by its text."""
    if _SHEBANG.match(text):
        return Kind.SCRIPT
    if _SECTION.search(text):
        return Kind.UNIT
    lines = [line for line in text.splitlines() if line.strip() and line.strip()[0] not in "#;"]
    if path.endswith(".ini") and "=" in text:
        return Kind.PRESETS
    if lines and all(_ASSIGN.match(line) for line in lines):
        return Kind.ENVFILE
    if path.endswith(".conf") and lines and _ASSIGN.match(lines[0]):
        return Kind.DROPIN
    return Kind.SCRIPT if _STARTS.search(text) else None


def of_yaml(root: Node) -> Kind | None:
    """The kind of a YAML document by its keys."""
    if root.kind != "map":
        return None
    names = {key.value for key, _ in root.items if key is not None}
    if "services" in names:
        return Kind.COMPOSE
    if "engine" in names and names & {"served_name", "memory_gib", "acceptance"}:
        return Kind.RECIPE
    if "model" in names and names & {
        "command",
        "container",
        "runtime",
        "recipe_version",
        "defaults",
    }:
        return Kind.COMMAND_RECIPE
    if "command" in names and names & {"recipe_version", "container"}:
        return Kind.COMMAND_RECIPE
    model = root.get("model")
    if model is not None and model.get("model_id") is not None:
        return Kind.GUIDE_RECIPE
    flat = all(value.kind == "scalar" for _, value in root.items)
    if flat and names & {"model", "port", "gpu-memory-utilization", "max-model-len"}:
        return Kind.VLLM_CONFIG
    return None
