"""The parts of a recipe that only one engine has: vLLM's profile and kernels, a container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sparkwright.recipe_rules import name_problem
from sparkwright.recipe_types import Container
from sparkwright.yaml_reader import Reader, Verdict, between, not_blank, one_of

ENGINES: Final = ("llama.cpp", "vllm", "container")
# Number formats of which vllm_backends.py knows the right backend of each build.
KERNELS: Final = ("mxfp4", "nvfp4", "int4", "fp8")
SERVES: Final = ("vllm", "openai", "web")
_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "profile": ("vllm",),
    "kernels": ("vllm", "container"),
    "container": ("container",),
}


def read_engine(top: Reader, engine: str) -> tuple[str | None, str | None, Container | None]:
    """Profile, kernels and container of a recipe; what another engine has is refused."""
    for key, engines in _ONLY.items():
        if top.has(key) and engine in ENGINES and engine not in engines:
            top.fail(key, f"is for engine {' or '.join(engines)}, not {engine}", "remove it")
    profile = top.take("profile", str, None, check=_profile_problem)
    kernels = top.take("kernels", str, None, check=one_of(*KERNELS))
    part = top.section("container")
    if engine != "container":
        return profile, kernels, None
    container = _container(part)
    if kernels and container.serves != "vllm":
        what = f"says nothing to a container that serves {container.serves}"
        top.fail("kernels", what, "remove it")
    if container.serves == "web" and top.has("weights"):
        top.fail("weights", "says nothing to a container that serves web", "remove it")
    return profile, kernels, container


def _container(part: Reader) -> Container:
    container = Container(
        image=part.take("image", str, check=_image_problem),
        serves=part.take("serves", str, check=one_of(*SERVES)),
        command=part.texts("command", check=not_blank),
        port=part.take("port", int, 0, check=between(0, 65535)),
        volumes=_volumes(part.section("volumes")),
        health=part.take("health", str, "/health", check=_path_problem),
    )
    part.finish()
    return container


def _volumes(part: Reader) -> Mapping[str, str]:
    volumes: dict[str, str] = {}
    for name, value in part.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            part.fail(name, "is not a plain directory name", "use letters, digits, '.', '-', '_'")
        elif not isinstance(value, str) or _path_problem(value):
            part.fail(name, "must be an absolute path inside the container", "write /app/data")
        else:
            volumes[name] = value
    return volumes


def _path_problem(path: str) -> Verdict:
    if re.fullmatch(r"(/[A-Za-z0-9_.+@-]+)+", path) and "/.." not in path:
        return None
    return f'must be a plain absolute path, not "{path}"', "write /health, for example"


def _image_problem(name: str) -> Verdict:
    what = f'must be the name of an artifact of artifacts.lock.yaml, not "{name}"'
    return (what, "write image-open-webui, for example") if name_problem(name) else None


def _profile_problem(name: str) -> Verdict:
    what = f'must name a vLLM venv, as the artifact vllm-<profile> does, not "{name}"'
    return (what, "write stock, for example") if name_problem(name) else None
