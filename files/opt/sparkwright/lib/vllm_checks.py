"""Checks of a new vLLM environment before it is used; none of them needs a GPU.

What is checked is data (sparkwright/vllm_profiles.py, `Checks`): cuda, imports, equal, missing_ok.
"""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ANEW = "make the wheel set anew: sparkwright lock --wheels"
Run = Callable[[list[str]], tuple[int, str]]
MISSING = re.compile(r"requires `([A-Za-z0-9._-]+).*`, but it's not installed")
DYNAMIC, NEEDED, STRTAB, LOAD = 2, 1, 5, 1
ELF_HEADER = 64  # bytes; ELF-64, little endian: what aarch64 and x86_64 have


def run_all(venv: Path, checks: dict[str, Any], uv: list[str], run: Run) -> list[str]:
    """Every problem of an environment: what, where, and what to do.

    + uv: its program with the words that come before a command
    + run: runs a command as the service account; status and output
    """
    site = site_of(venv)
    return [
        *torch_is_for(site, checks["cuda"]),
        *linked_with(site, checks["cuda"]),
        *_equal(site, checks["equal"]),
        *_closed(venv, checks["missing_ok"], uv, run),
        *_imports(venv, checks["imports"], run),
    ]


def site_of(venv: Path) -> Path:
    """site-packages of an environment."""
    return next(iter(venv.glob("lib/python3.*/site-packages")))


def version_of(site: Path, name: str) -> str | None:
    """Installed version of a distribution, None when it is not there."""
    wanted = _plain(name)
    for path in site.glob("*.dist-info"):
        found, _, version = path.name.removesuffix(".dist-info").rpartition("-")
        if _plain(found) == wanted:
            return version
    return None


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def torch_is_for(site: Path, cuda: str | None) -> Iterator[str]:
    """torch.version.cuda, read from its file: torch 2.x writes it there as a literal."""
    path = site / "torch/version.py"
    if not path.is_file():
        yield f"{path}: torch is not installed; {ANEW}"
        return
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            found[target.id] = value.value
    have, version = found.get("cuda"), found.get("__version__")
    right = have is None if cuda is None else str(have).startswith(f"{cuda}.") or have == cuda
    if not right:
        wanted = f"CUDA {cuda}" if cuda else "no CUDA"
        is_for = f"CUDA {have}" if have else "no CUDA (a CPU wheel)"
        yield (
            f"{path}: torch {version} is for {is_for}, the profile wants {wanted}; "
            "take torch from another index in the wheel set: sparkwright lock --wheels"
        )


def linked_with(site: Path, cuda: str | None) -> Iterator[str]:
    """vllm._C and its kin must be linked with the CUDA runtime that torch has."""
    modules = sorted(site.glob("vllm/*.so"))
    if not any(path.name.startswith("_C") for path in modules):
        yield f"{site}/vllm/_C*.so: is not there; this vllm has no compiled part for this machine"
    found: set[str] = set()
    for path in modules:
        try:
            names = {n for n in needed(path) if n.startswith("libcudart.so")}
        except (ValueError, struct.error) as error:
            yield f"{path}: cannot be read as a shared library ({error}); install it again"
            continue
        found |= names
        for name in sorted(names - {f"libcudart.so.{cuda}"}):
            wanted = f"libcudart.so.{cuda}" if cuda else "no libcudart"
            yield f"{path}: is linked with {name}, not {wanted}; take the vllm wheel of that CUDA"
    if modules and cuda and not found:
        yield f"{modules[0]}: is not linked with libcudart; take the vllm wheel of CUDA {cuda}"


def needed(path: Path) -> list[str]:
    """Names of the libraries that a shared library wants (DT_NEEDED), as `readelf -d` lists them.

    Raises ValueError when the file is no 64-bit little-endian ELF, struct.error when it is cut.
    """
    with path.open("rb") as file:
        head = file.read(ELF_HEADER)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        (table,), (size, count) = (
            struct.unpack_from("<Q", head, 32),
            struct.unpack_from("<HH", head, 54),
        )
        file.seek(table)
        raw = file.read(size * count)
        # type, flags, offset, virtual address, physical address, size in file
        parts = [struct.unpack_from("<IIQQQQ", raw, size * at) for at in range(count)]
        tags: list[tuple[int, int]] = []
        for kind, _, offset, _, _, length in parts:
            if kind == DYNAMIC:
                file.seek(offset)
                tags = list(struct.iter_unpack("<qQ", file.read(length // 16 * 16)))
        address = next((value for tag, value in tags if tag == STRTAB), 0)
        loads = [p for p in parts if p[0] == LOAD and p[3] <= address < p[3] + p[5]]
        if not loads:
            return []
        base = address - loads[0][3] + loads[0][2]
        return [_text(file, base + value) for tag, value in tags if tag == NEEDED]


def _text(file: Any, offset: int) -> str:
    file.seek(offset)
    return str(file.read(256).split(b"\0", 1)[0].decode())


def _equal(site: Path, groups: list[list[str]]) -> Iterator[str]:
    """Equal public versions: flashinfer refuses to import when its parts differ."""
    for names in groups:
        have = {name: version_of(site, name) for name in names}
        if None in have.values() or len({str(v).split("+")[0] for v in have.values()}) > 1:
            shown = ", ".join(f"{name} {version or 'absent'}" for name, version in have.items())
            yield f"{site}: {shown}; all must have one version: pin them alike in the wheel set"


def _closed(venv: Path, missing_ok: list[str], uv: list[str], run: Run) -> Iterator[str]:
    """`uv pip check`; what the profile leaves out on purpose may be missing."""
    status, text = run([*uv, "pip", "check", "--python", str(venv / "bin/python")])
    wrong = [line for line in text.splitlines() if line.startswith("The package `")]
    allowed = {_plain(name) for name in missing_ok}
    for line in wrong:
        absent = MISSING.search(line)
        if not (absent and _plain(absent[1]) in allowed):
            yield f"{venv}: uv pip check: {line}; {ANEW}"
    if status != 0 and not wrong:
        yield f"{venv}: uv pip check ended with status {status}: {last(text)}"


def _imports(venv: Path, names: list[str], run: Run) -> Iterator[str]:
    """Modules that load only when the wheels fit together (`import cutlass`: cuda-python)."""
    for name in names:
        status, text = run([str(venv / "bin/python"), "-B", "-P", "-c", f"import {name}"])
        if status != 0:
            # 4 is SIGILL: a compiled part for another CPU says nothing itself.
            why = f"ended by signal {-status}" if status < 0 else last(text)
            yield f"{venv}: import {name}: {why}; its wheels do not fit together; {ANEW}"


def last(text: str) -> str:
    """The last line of what a program printed."""
    return (text.strip().splitlines() or ["it said nothing"])[-1].strip()
