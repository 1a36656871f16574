"""Profiles of vLLM environments as data: Python, wheels, patches, and what is checked before use.

A profile is an artifact `vllm-<profile>` of kind wheels in the lock. Those below are ours; another
one needs no code: what differs from the defaults is in the artifact's `checks`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sparkwright.artifacts import Artifact
from sparkwright.paths import FILES

PATCHES = FILES / "opt/sparkwright/patches"
FLASHINFER = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")


@dataclass(frozen=True)
class Checks:
    """What must be true of an environment before it is used (files/…/lib/vllm_checks.py).

    + cuda: major version that torch and vllm._C are for; None: an environment without CUDA
    + imports: modules that must load; cutlass fails when cuda-python does not fit cuda-bindings
    + equal: groups of distributions that must all have one public version
    + missing_ok: distributions that `uv pip check` may miss
    """

    cuda: str | None = "13"
    imports: tuple[str, ...] = ("torch", "cutlass")
    equal: tuple[tuple[str, ...], ...] = (FLASHINFER,)
    missing_ok: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """One kind of environment.

    + python: minor version of the machine's own Python, which the wheels are for
    + wheels: artifacts of kind wheel beside the set of the artifact `vllm-<name>`
    + patches: names in files/opt/sparkwright/patches
    """

    name: str
    checks: Checks
    python: str = "3.12"
    wheels: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()

    @property
    def artifact(self) -> str:
        """The name of its wheel set in the lock."""
        return f"vllm-{self.name}"

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages: Triton compiles against Python.h with gcc, FlashInfer with ninja."""
        return (
            f"python{self.python}",
            f"python{self.python}-dev",
            "build-essential",
            "ninja-build",
        )


# Ours. Docker images of the community call the first one "the eugr venv".
_OURS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "eugr": {
        "wheels": (
            "eugr-vllm",
            "eugr-flashinfer-python",
            "eugr-flashinfer-cubin",
            "eugr-flashinfer-jit-cache",
        )
    },
    "stock": {"wheels": ("stock-flashinfer-cubin", "stock-flashinfer-jit-cache")},
    "stock-0.17.1": {
        "wheels": ("stock-0.17.1-vllm", "stock-0.17.1-flashinfer-jit-cache"),
        "patches": ("harmony-system-message", "cutlass-fp4-import"),
    },
}


def names() -> tuple[str, ...]:
    """Our profiles."""
    return tuple(_OURS)


def profile_of(name: str, artifact: Artifact | None = None) -> Profile:
    """A profile: ours or a plain one, changed by what its artifact says under `checks`."""
    found = Profile(name, Checks(), **_OURS.get(name, {}))  # type: ignore[arg-type]  # by field
    said = dict(artifact.checks or {}) if artifact else {}
    python = said.pop("python", found.python)
    return replace(found, python=str(python), checks=replace(found.checks, **said))


def as_data(checks: Checks) -> dict[str, Any]:
    """Checks as the machine's program takes them."""
    return asdict(checks)


def wheel_line(artifact: Artifact, project: str) -> str:
    """A requirement for a wheel that no index of the machine has."""
    return f"{project} @ {artifact.url} --hash=sha256:{artifact.sha256}"


def requirements(text: str, wheels: Iterable[Artifact]) -> str:
    """The whole closed set: the locked file's lines and one for each further wheel."""
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    more = [wheel_line(item, item.project or item.name) for item in wheels]
    return "\n".join([*kept, *more]) + "\n"


@functools.cache
def load_patch(name: str) -> dict[str, Any]:
    """A patch as the machine's program takes it; `diff` is its text."""
    found = tomllib.loads((PATCHES / f"{name}.toml").read_text())
    return {**found, "diff": (PATCHES / found["diff"]).read_text()}
