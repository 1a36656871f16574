"""Asks an image what it knows, in a container without network, GPU, rights and writable files."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIB = Path(__file__).parent
CAGE = (
    "docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only",
    "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534",
    "--env", "NVIDIA_VISIBLE_DEVICES=void", "--label", "sparkwright=1",
)  # fmt: skip
# An AST pass takes under a second (measured); a cold image of 20 GB is read from disk first.
LIMIT_S = 300


def facts(spec: dict[str, Any], image: str) -> Any:
    """The JSON value that an introspection program prints; None when nothing is asked.

    + spec: asks, program, work; image: docker's id

    Raises ValueError with the reason, subprocess.SubprocessError, OSError.
    """
    if spec["asks"] == "vllm":
        return vllm(image)
    if spec["asks"] == "llama.cpp":
        return llama(image, spec["program"], Path(spec["work"]))
    return None


def cage(image: str, program: str) -> list[str]:
    """The command that runs a program of the image."""
    return [*CAGE, "--volume", f"{LIB}:{LIB}:ro", "--entrypoint", program, image]


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command within the limit."""
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
    )


def vllm(image: str) -> Any:
    """Read the image's vLLM by its source text; nothing of it is imported."""
    done = run([*cage(image, "python3"), f"{LIB}/introspect_vllm.py"])
    if done.returncode != 0:
        raise ValueError(f"python3 in the image: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def llama(image: str, program: str, work: Path) -> Any:
    """Let llama-server of the image print its help, through a program that stands for it."""
    work.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        place = Path(folder) / "llama-server"
        place.write_text(f'#!/bin/sh\nexec {shlex.join(cage(image, program))} "$@"\n')
        place.chmod(0o755)
        done = run([sys.executable, f"{LIB}/introspect_llama.py", str(place)])
    if done.returncode != 0:
        raise ValueError(f"{program} in the image: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)
