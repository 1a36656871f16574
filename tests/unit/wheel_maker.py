"""Tiny wheels, and shared libraries that only say what they are linked with."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CUDART = "libcudart.so.13"


def shared_library(*needed: str) -> bytes:
    """A 64-bit ELF file whose dynamic section wants these libraries; it holds no code."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    at = [1 + sum(len(name) + 1 for name in needed[:i]) for i in range(len(needed))]
    base, table = 0x40 + 2 * 56, 0x1000
    dynamic = b"".join(struct.pack("<qQ", 1, offset) for offset in at)
    start = base + len(strings)
    dynamic += struct.pack("<qQqQ", 5, table + base, 0, 0)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    size = start + len(dynamic)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, table, table, size, size, 4096)
    part = struct.pack("<IIQQQQQQ", 2, 4, start, table + start, 0, len(dynamic), len(dynamic), 8)
    return head + load + part + strings + dynamic


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    requires: Sequence[str] = (),
    *,
    tag: str = "py3-none-any",
    scripts: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel and return its path; the same content gives the same bytes."""
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    metadata += [f"Requires-Dist: {text}\n" for text in requires]
    held: dict[str, bytes] = {
        path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()
    }
    held[f"{info}/METADATA"] = "".join(metadata).encode()
    held[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    if scripts:
        lines = "".join(f"{key} = {value}\n" for key, value in scripts.items())
        held[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    rows = []
    for path, data in held.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    held[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{plain}-{version}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as wheel:
        for path, data in held.items():
            wheel.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), data)
    return target


def line_of(wheel: Path) -> str:
    """Its requirement with its hash."""
    name, version = wheel.name.split("-")[:2]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name.replace('_', '-')}=={version} --hash=sha256:{digest}"


def torch(cuda: str | None, version: str = "2.14.0") -> dict[str, str | bytes]:
    """The files of a torch that only says what it is for."""
    return {
        "torch/__init__.py": "from .version import __version__, cuda\n",
        "torch/version.py": f"__version__ = {version!r}\ncuda: str | None = {cuda!r}\n",
    }


def vllm(*needed: str) -> dict[str, str | bytes]:
    """The files of a vllm that runs nothing."""
    return {
        "vllm/__init__.py": "def main() -> None:\n    print('vllm of the tests')\n",
        "vllm/_C.abi3.so": shared_library(*needed),
    }


def good_set(folder: Path) -> list[Path]:
    """Wheels that pass every check of the profile stock."""
    parts = ("flashinfer-python", "flashinfer-cubin")
    return [
        make_wheel(folder, "torch", "2.14.0", torch("13.0")),
        make_wheel(
            folder,
            "vllm",
            "0.33.0",
            vllm("libc.so.6", CUDART),
            ["torch==2.14.0", "nvidia-cutlass-dsl"],
            scripts={"vllm": "vllm:main"},
        ),
        make_wheel(folder, "nvidia-cutlass-dsl", "4.8.0", {"cutlass/__init__.py": ""}),
        *[make_wheel(folder, n, "0.7.2", {f"{n.replace('-', '_')}.py": ""}) for n in parts],
        make_wheel(folder, "flashinfer-jit-cache", "0.7.2+cu130", {"flashinfer_jit_cache.py": ""}),
    ]
