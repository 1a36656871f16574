"""Stand-ins for NVIDIA's CUDA packages: the real names and versions, honestly empty inside.

They let the lab prove the way of a package (signed repository, pinned key, simulation, what is
refused); what they install cannot compile. A test that compiles binds a real toolkit instead.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from .host import cache_dir, made_beside, run, say
from .signing import Key, Repository, make_key, sign

CUDA = "usr/local/cuda-13.0"
# The first lines are what the real nvcc of CUDA 13.0.2 prints.
NVCC = """#!/bin/sh
# Stand-in for NVIDIA's nvcc in sparkwright's lab: it knows its version and compiles nothing.
if [ "${1:-}" = --version ] || [ "${1:-}" = -V ]; then
    echo 'nvcc: NVIDIA (R) Cuda compiler driver'
    echo 'Cuda compilation tools, release 13.0, V13.0.88'
    echo 'Build cuda_13.0.r13.0/compiler (stand-in of the sparkwright lab)'
    exit 0
fi
echo "nvcc: this is the lab's stand-in and compiles nothing; bind a real CUDA toolkit" >&2
exit 1
"""


@dataclass(frozen=True)
class Deb:
    """A package to build.

    + files: path without leading slash -> content; what lies in a bin folder is executable
    """

    name: str
    version: str
    depends: str = ""
    files: tuple[tuple[str, str | bytes], ...] = ()


def _note(name: str) -> tuple[tuple[str, str | bytes], ...]:
    text = f"{name}: a stand-in of the sparkwright lab, holds nothing of NVIDIA's package\n"
    return ((f"{CUDA}/stand-in/{name}", text),)


# Versions of CUDA 13.0.2 as artifacts.lock.yaml pins them; dependencies as in stack.md 1.3.
TOOLKIT = {
    "cuda-crt-13-0": ("13.0.88-1", ""),
    "libnvvm-13-0": ("13.0.88-1", ""),
    "cuda-cccl-13-0": ("13.0.85-1", ""),
    "cuda-driver-dev-13-0": ("13.0.96-1", ""),
    "cuda-cudart-13-0": ("13.0.96-1", ""),
    "cuda-cudart-dev-13-0": (
        "13.0.96-1", "cuda-cudart-13-0, cuda-cccl-13-0, cuda-driver-dev-13-0",
    ),
    "libcublas-13-0": ("13.1.1.3-1", ""),
    "libcublas-dev-13-0": ("13.1.1.3-1", "libcublas-13-0"),
}  # fmt: skip
NVCC_VERSION = "13.0.88-1"
VERSIONS = {"cuda-nvcc-13-0": NVCC_VERSION} | {name: item[0] for name, item in TOOLKIT.items()}
COMMON = (
    *(Deb(name, *item, _note(name)) for name, item in TOOLKIT.items()),
    Deb("nvidia-driver-580-open", "580.95.05-1", files=_note("nvidia-driver-580-open")),
    Deb("cuda-drivers", "580.95.05-1", "nvidia-driver-580-open", _note("cuda-drivers")),
)
KEYRING = "cuda-keyring_1.1-1_all.deb"


def _packages(key: Key, nvcc_depends: str) -> list[Deb]:
    depends = ", ".join(["cuda-crt-13-0", "libnvvm-13-0", *filter(None, [nvcc_depends])])
    nvcc = Deb("cuda-nvcc-13-0", NVCC_VERSION, depends, (
        (f"{CUDA}/bin/nvcc", NVCC), *_note("cuda-nvcc-13-0"),
    ))  # fmt: skip
    keyring = Deb("cuda-keyring", "1.1-1", files=(
        ("usr/share/keyrings/cuda-archive-keyring.gpg", key.public.read_bytes()),
    ))  # fmt: skip
    return [nvcc, keyring, *COMMON]


def build(deb: Deb, folder: Path) -> None:
    """Build one package; NVIDIA's keyring is architecture "all", the others are not."""
    native = run("dpkg", "--print-architecture").stdout.strip()
    arch = "all" if deb.name == "cuda-keyring" else native
    tree = folder / f"{deb.name}.tree"
    for name, content in deb.files:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o755 if path.parent.name == "bin" else 0o644)
    fields = {
        "Package": deb.name,
        "Version": deb.version,
        "Architecture": arch,
        "Maintainer": "sparkwright lab <lab@localhost>",
        **({"Depends": deb.depends} if deb.depends else {}),
        "Description": f"stand-in for NVIDIA's {deb.name} in sparkwright's lab",
    }
    control = tree / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    words = ("--root-owner-group", "-Zgzip", "--build", tree)
    target = folder / f"{deb.name}_{deb.version}_{arch}.deb"
    run("dpkg-deb", *words, target, env={"SOURCE_DATE_EPOCH": "1767225600"})
    shutil.rmtree(tree)


def prepare(name: str, nvcc_depends: str = "") -> Repository:
    """Build and sign a repository `name`. Hold the prepare lock.

    + nvcc_depends: what cuda-nvcc-13-0 pulls in, to test that a driver is refused
    """
    key = make_key(cache_dir() / "keys", "cuda")
    debs = _packages(key, nvcc_depends)
    text = json.dumps([repr(debs), key.fingerprint])
    target = cache_dir() / name / hashlib.sha256(text.encode()).hexdigest()[:12]
    if not target.exists():
        say(f"stand-in CUDA packages ({name})")
        with made_beside(target) as folder:
            for deb in debs:
                build(deb, folder)
            # NVIDIA's own Origin and Label, for pins name them.
            about = "stand-ins of the sparkwright lab"
            sign(folder, key, Origin="NVIDIA", Label="NVIDIA CUDA", Description=about)
    return Repository(target, key.public, key.fingerprint)
