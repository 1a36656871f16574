"""
llama.cpp: built on the machine from a pinned source archive, installed beside, then switched.

Leaves: {prefix}/llama.cpp/<digest>/bin/llama-server and {prefix}/llama.cpp/current
Needs:  tasks.base (compiler, our programs), tasks.cuda (nvcc)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyinfra.api import deploy

from sparkwright.job_operations import detached
from sparkwright.llama_build import plan, probes
from sparkwright.llama_flags import Source, Wanted
from sparkwright.site import artifact, need, planned


@deploy("llama.cpp")
def install(data: Mapping[str, Any]) -> None:
    """One build per digest of commit, flags, compiler and nvcc."""
    build = wanted(data)
    detached(name="Build and switch", specs=probes(build), plan=partial(plan, build))


def wanted(data: Mapping[str, Any]) -> Wanted:
    """The build that a machine's data asks for."""
    source = artifact(data, "llama.cpp-source")
    return Wanted(
        source=Source(
            url=need(source.url),
            sha256=need(source.sha256),
            size=source.size,
            commit=need(source.commit),
            build_number=need(source.build_number),
        ),
        prefix=data["prefix"],
        work_dir=f"{data['data_dir']}/build",
        user=data["service_user"],
        backend=data["llama_cpp_backend"],
        architectures=data["llama_cpp_cuda_architectures"],
        extra=tuple(data["llama_cpp_cmake_flags"]),
        env=data["llama_cpp_build_env"],
        jobs=data["llama_cpp_build_jobs"],
        keep=data["llama_cpp_keep"],
        rpc=any(item.recipe.spread.distributed == "rpc" for item in planned(data)),
    )
