"""`python -m tests.wheels [--all]`: the real wheel set of the profile stock, for a DGX Spark.

Resolves it anew from the package index, compares it with the lock, and looks into its wheels.
--all: the sha256 of every wheel (4.3 GB of traffic), not of vllm and torch alone.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from sparkwright.artifacts import load_lock
from sparkwright.lock_wheels import locked_text
from sparkwright.paths import PROJECT
from sparkwright.vllm_profiles import profile_of
from sparkwright.wheel_index import PLATFORM, best
from sparkwright.wheel_sets import Chosen, compile_set, find_uv, inputs_of, render
from tests.unit.machine_case import program
from tests.wheels import closure
from tests.wheels.remote import TIMEOUT_S, RemoteWheel

AT_ONCE = 8  # connections to the index
LIB = PROJECT / "files/opt/sparkwright/lib"
AARCH64 = 183  # e_machine of an ELF file
NOT_HERE = (
    "not checked: import torch, import cutlass (on aarch64 only; make_vllm.py does it there)",
    "not checked: flashinfer-cubin, flashinfer-jit-cache (another index; sparkwright lock asks it)",
    "not checked: anything that needs a GPU",
)


class Findings:
    """Lines as they come, and what is wrong among them."""

    def __init__(self) -> None:
        self.checked = 0
        self.wrong: list[str] = []

    def say(self, text: str, problems: Sequence[str] = ()) -> None:
        """Print one check with its result."""
        self.checked += 1
        self.wrong += problems
        print(f"{'WRONG' if problems else 'ok':5} {text}", flush=True)
        for line in problems:
            print(f"      {line}", flush=True)


def lock_is_reproducible(found: Findings) -> list[Chosen]:
    """Resolve the set from the index and compare it with the file that the lock pins."""
    lock = load_lock(PROJECT / "artifacts.lock.yaml")
    item = lock.artifact("vllm-stock")
    text = locked_text(lock, item)
    path = PROJECT / str(item.requirements)
    chosen = compile_set(path.with_suffix(".toml"), [])
    same = render("stock", chosen) == text
    what = f"{len(chosen)} wheels of vllm {item.version} resolve for {PLATFORM}; as in {path.name}"
    found.say(what, [] if same else [f"{path.name} differs from what the index gives"])
    fit = [c.file.name for c in chosen if best([c.file]) != [c.file]]
    found.say("every wheel's tags are a Spark's", fit)
    return chosen


def uv_would_install(found: Findings) -> None:
    """The command of make_vllm.py, as if on a Spark: same file, hashes required, nothing else."""
    path = PROJECT / "files/opt/sparkwright/requirements/vllm-stock.txt"
    with tempfile.TemporaryDirectory() as folder:
        words = ["pip", "install", "--dry-run", "--target", folder, "--no-python-downloads"]
        words += ["--python-platform", PLATFORM, "--python-version", "3.12", "--require-hashes"]
        words += ["--no-deps", "--only-binary", ":all:", "-r", str(path)]
        done = subprocess.run([find_uv(), *words], capture_output=True, text=True, check=False)
    would = [line for line in done.stderr.splitlines() if "Would install" in line]
    found.say(
        f"uv --dry-run with the platform of a Spark: {' '.join(would) or 'failed'}",
        [] if done.returncode == 0 and would else done.stderr.splitlines()[-3:],
    )


def set_is_closed(found: Findings, chosen: Sequence[Chosen]) -> None:
    """Every wheel's METADATA, against the versions of the set, with a Spark's markers."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        texts = dict(zip((c.project for c in chosen), pool.map(_metadata, chosen), strict=True))
    versions = {item.project: item.version for item in chosen}
    path = PROJECT / "files/opt/sparkwright/requirements/vllm-stock.toml"
    roots = inputs_of(path)["project"]["dependencies"]
    wrong, reached = closure.problems(roots, versions, lambda name: texts[name])
    wrong += [f"{name} is wanted by nobody" for name in sorted({*versions} - reached)]
    found.say(
        f"METADATA of {len(texts)} wheels: each requirement is in the set, none is idle", wrong
    )
    pair = (versions["cuda-python"], versions["cuda-bindings"])
    majors = {version.split(".")[0] for version in pair}
    text = f"cuda-python {pair[0]}, cuda-bindings {pair[1]}: one major version (import cutlass)"
    found.say(text, [] if majors == {"13"} else ["they overwrite each other's files"])


def _metadata(item: Chosen) -> str:
    wheel = RemoteWheel(item.file.url)
    name = next(n for n in wheel.names() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
    return wheel.read(name).decode()


def hashes_hold(found: Findings, chosen: Sequence[Chosen]) -> None:
    """Download wheels and throw the bytes away; their sha256 is the lock's."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [text for text in pool.map(_wrong_hash, chosen) if text]
    size = sum(item.size or 0 for item in chosen)
    found.say(f"sha256 of {len(chosen)} wheels, {size} bytes downloaded", wrong)


def _wrong_hash(item: Chosen) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(item):
        digest.update(piece)
    return "" if digest.hexdigest() == item.sha256 else f"{item.file.name}: {digest.hexdigest()}"


def _pieces(item: Chosen) -> Iterator[bytes]:
    with requests.get(item.file.url, stream=True, timeout=TIMEOUT_S) as answer:
        answer.raise_for_status()
        yield from answer.iter_content(1 << 20)


def binaries_fit(found: Findings, chosen: Sequence[Chosen]) -> None:
    """vllm's and torch's wheels, whole: hash, CUDA runtime, architecture, what vllm knows."""
    checks = program("vllm_checks")
    wanted = {item.project: item for item in chosen}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        site = Path(folder)
        for name, keep in (("vllm", _of_vllm), ("torch", lambda n: n == "torch/version.py")):
            wrong = _unpack(wanted[name], site, keep)
            found.say(f"{wanted[name].file.name}: sha256 as in the lock", wrong)
        cuda = profile_of("stock").checks.cuda
        lines = (site / "torch/version.py").read_text().splitlines()
        told = [line for line in lines if line.startswith(("cuda", "__version__ ="))]
        found.say(f"torch/version.py: {'; '.join(told)}", [*checks.torch_is_for(site, cuda)])
        libraries = sorted(site.glob("vllm/*.so"))
        found.say(
            f"{len(libraries)} libraries of vllm: linked with libcudart.so.{cuda} or with none",
            [*checks.linked_with(site, cuda)],
        )
        for path in libraries:
            needed = [name for name in checks.needed(path) if "cuda" in name]
            print(f"      {path.name}: {' '.join(needed)}")
        other = [p.name for p in libraries if p.read_bytes()[18] != AARCH64]
        found.say("they are for aarch64", other)
        words = [sys.executable, str(LIB / "introspect_vllm.py"), str(site)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found.say("introspect_vllm.py reads it", [] if done.returncode == 0 else [done.stderr])


def _of_vllm(name: str) -> bool:
    return (
        name.endswith((".py", "/METADATA", "/RECORD"))
        or name.startswith("vllm/_C")
        or (name.count("/") == 1 and name.endswith(".so"))
    )


def _unpack(item: Chosen, site: Path, keep: Callable[[str], bool]) -> list[str]:
    """Fetch a wheel, check its hash, unpack some of its files, and remove it."""
    path, digest = site / item.file.name, hashlib.sha256()
    with path.open("wb") as file:
        for piece in _pieces(item):
            digest.update(piece)
            file.write(piece)
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(site, [name for name in wheel.namelist() if keep(name)])
    path.unlink()
    return [] if digest.hexdigest() == item.sha256 else [f"it is {digest.hexdigest()}"]


def main(argv: list[str] | None = None) -> int:
    """Check everything that can be checked here; 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheels", description=__doc__)
    parser.add_argument("--all", action="store_true", help="hash every wheel (4.3 GB)")
    every = parser.parse_args(argv).all
    found = Findings()
    chosen = lock_is_reproducible(found)
    uv_would_install(found)
    set_is_closed(found, chosen)
    binaries_fit(found, chosen)
    if every:
        hashes_hold(found, chosen)
    print(*NOT_HERE, sep="\n")
    state = "yes" if not found.wrong else "NO"
    print(f"RESULT wheels profile=stock resolved={len(chosen)} checks={found.checked} ok={state}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
