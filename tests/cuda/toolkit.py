"""The host's CUDA 13 toolkit, completed in the lab's cache with what llama.cpp's build also needs.

CUDA made of PyPI's wheels lacks the names that a linker looks for, cuBLAS, the driver's stub and
cuobjdump (stack.md 1.3: cmake ends without the stub and without cuBLAS). A toolkit of NVIDIA's
packages may have everything; then nothing is added.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sparkwright import cuda
from sparkwright.llama_flags import newest_nvcc, nvcc_probe
from tests.lab import host
from tests.lab.host import LabError, cache_dir, locked, made_beside, run, say
from tests.lab.pypi import pip

MINIMUM = "13.0"
WHEELS = Path(__file__).with_name("wheels.txt")
INSIDE = "nvidia/cu13/"  # where NVIDIA's wheels of CUDA 13 keep their files
NOTE = "sparkwright-lab.json"
# Proof that a toolkit has what each wheel brings; it is fetched when one of the files is absent.
PROOF = {
    "nvidia-cublas": ("include/cublas_v2.h", "lib64/libcublas.so", "lib64/libcublasLt.so"),
    "nvidia-cuda-cuobjdump": ("bin/cuobjdump",),
}
STUB = "lib64/stubs/libcuda.so"
# The driver's functions that ggml-cuda.cu calls (llama.cpp 0c1e57098).
DRIVER_CALLS = (
    "cuDeviceGet", "cuDeviceGetAttribute", "cuGetErrorString", "cuMemAddressFree",
    "cuMemAddressReserve", "cuMemCreate", "cuMemGetAllocationGranularity", "cuMemMap",
    "cuMemRelease", "cuMemSetAccess", "cuMemUnmap",
)  # fmt: skip
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE in cuda.h


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit on this host.

    + folder: its top, with bin/nvcc
    + version: of nvcc, like 13.0.88
    """

    folder: Path
    version: str

    @property
    def place(self) -> str:
        """Where NVIDIA's packages, and so DGX OS, have a toolkit of this version."""
        return "/usr/local/cuda-" + ".".join(self.version.split(".")[:2])


def find() -> Toolkit | None:
    """The newest toolkit that the project's own probe finds here, or None."""
    state = {"out": run(*nvcc_probe()["argv"], check=False).stdout}
    if not cuda.satisfied(state, MINIMUM):
        return None
    nvcc, version = newest_nvcc(state)
    return Toolkit(Path(nvcc).resolve().parents[1], version)


def missing(found: Toolkit | None) -> list[str]:
    """Everything that keeps this test from running here, each with what to do about it."""
    reasons = host.missing()
    if found is None:
        reasons.append(
            f"no nvcc {MINIMUM} or newer in $CUDA_HOME or /usr/local/cuda*: install NVIDIA's "
            "cuda-nvcc-13-0 and cuda-cudart-dev-13-0; nothing but this test needs them"
        )
    elif not (found.folder / STUB).exists() and shutil.which("gcc") is None:
        reasons.append("no gcc, which makes a stand-in for libcuda.so: install gcc")
    return reasons


def wanted_wheels(text: str, names: Collection[str]) -> list[str]:
    """The lines of a requirements file for these packages."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line for line in lines if line.split("==")[0] in names]


def target(member: str) -> str | None:
    """Where a wheel's member belongs in a toolkit; None for what is about the wheel itself."""
    if not member.startswith(INSIDE) or member.endswith("/"):
        return None
    inner = member.removeprefix(INSIDE)
    return "lib64/" + inner.removeprefix("lib/") if inner.startswith("lib/") else inner


def stub_source(calls: Collection[str] = DRIVER_CALLS) -> str:
    """C of a libcuda.so that a linker accepts and that says "no device" when run."""
    return "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in calls)


def lacking(folder: Path) -> list[str]:
    """The wheels whose files a toolkit lacks."""
    return [
        name for name, files in PROOF.items() if not all((folder / file).exists() for file in files)
    ]


def prepare(found: Toolkit) -> Toolkit:
    """The completed toolkit in the cache: hard links to the host's files, where possible.

    At most 890 MB, of which 570 MB are cuBLAS, and one download of 421 MB.

    **Raises**: `LabError` when a wheel cannot be had or has another hash.
    """
    files = sorted(path for path in found.folder.rglob("*") if path.is_file())
    shape = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    text = json.dumps([found.version, shape, WHEELS.read_text(), stub_source()])
    place = cache_dir() / "cuda" / hashlib.sha256(text.encode()).hexdigest()[:12]
    with locked(cache_dir() / "prepare.lock"):
        if not place.exists():
            say(f"CUDA {found.version} from {found.folder}, completed in the cache (once)")
            with made_beside(place) as folder:
                _assemble(found, folder)
    return Toolkit(place, found.version)


def _link_or_copy(source: str, to: str) -> None:
    try:
        os.link(source, to)
    except OSError:  # the cache is on another file system
        shutil.copy2(source, to)


def _assemble(found: Toolkit, folder: Path) -> None:
    shutil.copytree(
        found.folder, folder, symlinks=True, dirs_exist_ok=True, copy_function=_link_or_copy
    )
    if not (folder / "lib64").exists():
        (folder / "lib64").symlink_to("lib")
    names = lacking(folder)
    hashes = _add_wheels(folder, names) if names else {}
    stub = not (folder / STUB).exists()
    if stub:
        _add_stub(folder)
    note = {"from": str(found.folder), "wheels": hashes, "stub made": stub}
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n")


def _add_wheels(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Fetch wheels, whose hashes pip checks, and lay their files; returns file name -> sha256."""
    say(f"from PyPI: {' '.join(names)}")
    place = folder / "wheels"
    place.mkdir()
    wanted = place / "wanted.txt"
    wanted.write_text("\n".join(wanted_wheels(WHEELS.read_text(), names)) + "\n")
    pip("download", "--no-deps", "--only-binary=:all:", "--require-hashes",
        "--dest", place, "--requirement", wanted)  # fmt: skip
    hashes = {}
    for wheel in sorted(place.glob("*.whl")):
        with wheel.open("rb") as handle:
            hashes[wheel.name] = hashlib.file_digest(handle, "sha256").hexdigest()
        _unpack(wheel, folder)
    shutil.rmtree(place)
    for name in ("libcublas.so", "libcublasLt.so"):
        link = folder / "lib64" / name
        if not link.exists():
            link.symlink_to(next(link.parent.glob(f"{name}.[0-9]*")).name)
    return hashes


def _place(folder: Path, inner: str) -> Path:
    """A path below `folder`, with its parent made; a link that leads out of it is refused."""
    path = folder / inner
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise LabError(f"{path}: a link of the host's toolkit leads to {path.parent.resolve()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            inner = target(member)
            if inner is None:
                continue
            to = _place(folder, inner)
            to.unlink(missing_ok=True)  # a hard link would be written through to the host's file
            with archive.open(member) as source, to.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
            to.chmod(0o755 if inner.startswith("bin/") else 0o644)


def _add_stub(folder: Path) -> None:
    stub = _place(folder, STUB)
    words = ("-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", stub)
    run("gcc", *words, stdin=stub_source())
