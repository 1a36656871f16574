"""What a configured and partly compiled tree must show. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

ARCH = "sm_121a"
# llama.cpp 0c1e57098, ggml/src/ggml-cuda/CMakeLists.txt: the `a` opens the FP4 instructions.
REPLACED = "Replacing 121 in CMAKE_CUDA_ARCHITECTURES with 121a"


@dataclass(frozen=True)
class Evidence:
    """What the build left.

    + log: journal of its unit
    + cache: text of CMakeCache.txt
    + objects: object file -> "owner" line and the output of `cuobjdump -lelf`
    + requests: what the lab's upstream was asked for meanwhile
    """

    log: str
    cache: str
    objects: Mapping[str, str]
    requests: tuple[str, ...]


def object_of(source: str) -> str:
    """ninja's target for a .cu file of ggml-cuda: "add-id", "template-instances/mmq-…"."""
    return f"ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/{source.removesuffix('.cu')}.cu.o"


def cached(cache: str, name: str) -> str | None:
    """The value of an entry of CMakeCache.txt."""
    found = re.search(rf"^{re.escape(name)}:[A-Z]+=(.*)$", cache, re.MULTILINE)
    return found[1] if found else None


def architectures(listing: str) -> set[str]:
    """The architectures of the machine code that `cuobjdump -lelf` lists."""
    return set(re.findall(r"\.(sm_\w+)\.cubin$", listing, re.MULTILINE))


def problems(seen: Evidence, nvcc: str, user: str) -> list[str]:
    """Everything that is not as it must be.

    + nvcc: the compiler that the task chose
    + user: account that must own the objects
    """
    found = []
    if f"-- {REPLACED}\n" not in seen.log:
        found.append(f"cmake's log has no line '-- {REPLACED}'")
    if "network interfaces: lo\n" not in seen.log:
        found.append("the build saw a network interface beside lo")
    compiler = cached(seen.cache, "CMAKE_CUDA_COMPILER")
    if compiler != nvcc:
        found.append(f"CMakeCache.txt: CMAKE_CUDA_COMPILER is {compiler}, not {nvcc}")
    for name, listing in seen.objects.items():
        if listing.splitlines()[:1] != [user]:
            found.append(f"{name}: owner is {listing.partition(chr(10))[0]!r}, not {user}")
        if architectures(listing) != {ARCH}:
            found.append(f"{name}: no {ARCH} alone in what cuobjdump lists:\n{listing}")
    found += [f"the upstream was asked for {path} during the build" for path in seen.requests]
    return found
