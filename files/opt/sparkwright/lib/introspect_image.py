"""Asks an image what it knows, in a container without network, GPU, rights and writable files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LIB = Path(__file__).parent
CAGE = (
    "docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only",
    "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534",
    "--env", "NVIDIA_VISIBLE_DEVICES=void", "--label", "sparkwright=1",
)  # fmt: skip
# find_spec looks for a package and does not import it.
VLLM = (
    "import importlib.util as u; s = u.find_spec('vllm'); "
    "print(s.submodule_search_locations[0] if s else '')"
)
# An AST pass takes under a second (measured); a cold image of 20 GB is read from disk first.
LIMIT_S = 300


def facts(spec: dict[str, Any], image: str) -> Any:
    """The JSON value that an introspection program prints; None when nothing is asked.

    + spec: asks, program; image: docker's id

    Raises ValueError with the reason, subprocess.SubprocessError.
    """
    if spec["asks"] == "vllm":
        return vllm(image)
    if spec["asks"] == "llama.cpp":
        return llama(image, spec["program"])
    return None


def run(image: str, program: str, *words: str) -> str:
    """Run a program of the image and return its output. Raises ValueError."""
    mount = ("--volume", f"{LIB}:{LIB}:ro", "--entrypoint", program)
    done = subprocess.run(
        [*CAGE, *mount, image, *words],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(
            f"{program} in the image ended with {done.returncode}: {done.stderr[-300:]}"
        )
    return done.stdout


def vllm(image: str) -> Any:
    """Read the image's vLLM by its source text; nothing of it is imported."""
    package = run(image, "python3", "-c", VLLM).strip()
    if not package:
        raise ValueError("its python3 has no package vllm; does the recipe serve something else?")
    text = run(image, "python3", f"{LIB}/introspect_vllm.py", "--package", package)
    return json.loads(text)


def llama(image: str, program: str) -> Any:
    """Let llama-server of the image print its help and read that."""
    text = run(image, program, "--help")
    done = subprocess.run(
        [sys.executable, LIB / "introspect_llama.py", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(f"introspect_llama.py: {done.stderr[-300:]}")
    return json.loads(done.stdout)
