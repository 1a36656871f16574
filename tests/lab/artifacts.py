"""Everything that is made once and kept in the cache folder."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import baseroot, debian_repo, hubrepos, pypi, standins, vocabulary
from .host import cache_dir, say
from .pypi import LlamaSource
from .signing import Repository


@dataclass(frozen=True)
class Prepared:
    """Paths in the cache that a run serves or boots from.

    + base: root file system of the machines
    + debian, cuda, cuda_bad: signed apt repositories; `cuda_bad`'s nvcc pulls in a driver
    + hub: folder with `<org>/<name>/`
    """

    base: Path
    debian: Repository
    cuda: Repository
    cuda_bad: Repository
    wheels: Path
    llama: LlamaSource
    vocab: Path
    hub: Path


def prepare() -> Prepared:
    """Make what is missing, two things at a time. Hold the prepare lock.

    **Raises**: `LabError` of the first step that failed; finished steps stay.
    """
    started = time.monotonic()
    for folder in ("base", "keys", "hub", "runs"):
        (cache_dir() / folder).mkdir(exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        machines = pool.submit(_machines)
        python = pool.submit(_from_pypi)
        base, debian, cuda, cuda_bad = machines.result()
        wheels, llama, vocab, hub = python.result()
    seconds = time.monotonic() - started
    if seconds > 1:
        say(f"prepared {cache_dir()} in {seconds:.0f} s")
    return Prepared(base, debian, cuda, cuda_bad, wheels, llama, vocab, hub)


def _machines() -> tuple[Path, Repository, Repository, Repository]:
    base = baseroot.prepare()
    debian = debian_repo.prepare(base)
    cuda = standins.prepare("apt-cuda")
    return base, debian, cuda, standins.prepare("apt-cuda-bad", "nvidia-driver-580-open")


def _from_pypi() -> tuple[Path, LlamaSource, Path, Path]:
    wheels = pypi.prepare_wheels()
    vocab = vocabulary.prepare_vocab()
    llama = pypi.prepare_llama()
    return wheels, llama, vocab, hubrepos.prepare(llama.template)
