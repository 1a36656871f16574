"""A run's sparks.yaml and lock file: the same files that a user has, with the lab's addresses."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from sparkwright.artifacts import load_lock

from . import docker_llama, standins
from .host import PROJECT
from .hubrepo import Repo, sha256
from .pypi import HUB_CLIENT
from .signing import Repository
from .vocabulary import VOCAB_SHA256, VOCAB_SIZE

if TYPE_CHECKING:
    from .lab import Lab

RECIPES = Path(__file__).with_name("recipes")
# What an honest lab machine says of itself; a test overrides single ones.
SETTINGS: Mapping[str, object] = {
    "arch": platform.machine(),
    "os_releases": ["debian 12"],
    "gpu_required": False,
    "cuda_required": False,
    # The host's memory and disk are shared by all its machines, and the models are tiny.
    "memory_reserve_gib": 4,
    # A veth says 10000 Mb/s whatever it carries, and Python over TCP moves less than RDMA.
    "fabric_speed_mbps": 0,
    "fabric_confirm_s": 20,
    "min_free_gib": 1,
    "llama_cpp_backend": "cpu",
    # -O0: a CPU build of llama-server takes 14.7 CPU-minutes at -O3 and 6 at -O0 (measured on two
    # Xeon cores). The source, cmake's argument builder and the build program are the real ones.
    "llama_cpp_cmake_flags": [
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_C_FLAGS_DEBUG=-O0",
        "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
        "-DGGML_NATIVE=OFF",
    ],
    "llama_cpp_build_env": {"CCACHE_DIR": "/var/cache/ccache", "CCACHE_UMASK": "000"},
    "packages_extra": ["ccache"],
}
# The source is llama.cpp's at upstream commit 0c1e57098, release b11312, committed anew by the lab.
LLAMA_BUILD = 11312


def write_fleet(
    lab: Lab,
    path: Path,
    serve: Mapping[str, Sequence[object]],
    settings: Mapping[str, object],
    per_machine: Mapping[str, Mapping[str, object]],
    *,
    user: str = "spark",
    sudo_password_env: str | None = None,
    clusters: Mapping[str, object] | None = None,
) -> Path:
    """Write `path` (a sparks.yaml) for the lab's machines, and the lock beside it.

    + serve: machine name -> what stands under `serve`: recipe names or maps
    + settings: overrides of `SETTINGS` for all machines; None leaves the project's default
    + per_machine: machine name -> settings of that machine alone
    + user: `spark`, or `sparkpw`, whose sudo asks for `lab-password`
    + sudo_password_env: the variable that will hold it
    + clusters: what stands under `clusters`
    """
    lock = write_lock(lab, path.parent)
    sparks: dict[str, dict[str, object]] = {}
    for machine in lab.machines:
        spark: dict[str, object] = {"address": machine.address}
        if machine.name in per_machine:
            spark["settings"] = dict(per_machine[machine.name])
        spark["serve"] = list(serve.get(machine.name, ()))
        sparks[machine.name] = spark
    fleet = {
        "artifacts": {"from": "upstream", "lock": str(lock)},
        "recipes": [str(RECIPES), str(PROJECT / "recipes")],
        "defaults": _defaults(lab, settings, user, sudo_password_env),
        "sparks": sparks,
        **({"clusters": dict(clusters)} if clusters else {}),
    }
    path.write_text(yaml.safe_dump(fleet, sort_keys=False))
    return path


def _defaults(
    lab: Lab, settings: Mapping[str, object], user: str, password_env: str | None
) -> dict[str, object]:
    merged = {key: value for key, value in {**SETTINGS, **settings}.items() if value is not None}
    ssh: dict[str, object] = {
        "user": user,
        "key": str(lab.keys.user),
        "known_hosts": str(lab.keys.known_hosts),
        "host_keys": "strict",
    }
    sudo = {"sudo": {"password_env": password_env}} if password_env else {}
    return {"ssh": ssh, "settings": merged, **sudo}


def write_lock(lab: Lab, folder: Path) -> Path:
    """Write the run's artifacts.lock.yaml into a folder and check it with the project's loader.

    Hashes are taken from the files that the upstream serves, so everything is resolved.
    """
    requirements = folder / "hub-client.txt"
    shutil.copyfile(HUB_CLIENT, requirements)
    lock = {
        "format": 1,
        "hub": lab.upstream.url,
        "artifacts": artifacts(lab, requirements),
        "snapshots": snapshots(lab),
    }
    path = folder / "artifacts.lock.yaml"
    path.write_text(yaml.safe_dump(lock))
    load_lock(path)
    return path


def _measured(url: str, file: Path) -> dict[str, object]:
    return {"url": url, "size": file.stat().st_size, "sha256": sha256(file)}


def artifacts(lab: Lab, requirements: Path) -> dict[str, dict[str, object]]:
    """The `artifacts` part of the lock."""
    url, prepared = lab.upstream.url, lab.prepared
    llama = prepared.llama
    return {
        "llama.cpp-source": {
            "kind": "archive",
            "version": f"b{LLAMA_BUILD}",
            "commit": llama.commit,
            "build_number": LLAMA_BUILD,
            "source": "llama.cpp 0c1e57098 out of llama-cpp-python's sdist",
            **_measured(f"{url}/archives/{llama.archive.name}", llama.archive),
        },
        **_cuda(url, prepared.cuda),
        "hub-client": {
            "kind": "wheels",
            "version": "2.4.0",
            "requirements": requirements.name,
            "sha256": sha256(requirements),
        },
        "tiktoken-o200k_base": {
            "kind": "file",
            "version": "o200k_base",
            "url": f"{url}/vocab/{prepared.vocab.name}",
            "size": VOCAB_SIZE,
            "sha256": VOCAB_SHA256,
            "plain_name": "o200k_base.tiktoken",
            "sha1_name": "fb374d419588a4632f3f557e76b4b70aebbca790",
        },
        **_images(lab),
    }


def _images(lab: Lab) -> dict[str, dict[str, object]]:
    """The image of llama-server twice: to be loaded from a file, and to be pulled."""
    if lab.docker is None:
        return {}
    image = docker_llama.image(lab.docker.images)
    pulled = {
        "kind": "image",
        "ref": f"{lab.upstream.address}:{lab.upstream.port}/{docker_llama.REPOSITORY}",
        "tag": docker_llama.TAG,
        "digest": image.digest,
        "image_id": image.id,
        "platform": image.platform,
        "size": image.size,
    }
    archive = _measured(f"{lab.upstream.url}/images/{image.archive.name}", image.archive)
    return {"lab-llama": {**pulled, "archive": archive}, "lab-llama-pulled": pulled}


def _cuda(url: str, cuda: Repository) -> dict[str, dict[str, object]]:
    keyring = cuda.folder / standins.KEYRING
    return {
        "cuda-keyring": {
            "kind": "file",
            "version": "1.1-1",
            **_measured(f"{url}/apt/cuda/{keyring.name}", keyring),
        },
        "cuda-repo": {
            "kind": "apt",
            "version": "13.0.2",
            "url": f"{url}/apt/cuda/",
            "fingerprint": cuda.fingerprint,
            "packages": dict(standins.VERSIONS),
        },
    }


def snapshots(lab: Lab) -> dict[str, dict[str, object]]:
    """The `snapshots` part: every repository of the hub at revision main."""
    found: dict[str, dict[str, object]] = {}
    for folder in lab.upstream.hub_folders:
        for place in sorted(folder.glob("*/*/")):
            repo = Repo(place.relative_to(folder).as_posix(), place)
            found.setdefault(f"{repo.name}@main", _snapshot(repo))
    return found


def _snapshot(repo: Repo) -> dict[str, object]:
    files: list[dict[str, object]] = []
    for file in repo.files():
        proof = {"sha256": file.sha256} if file.sha256 else {"git_sha1": file.oid}
        files.append({"path": file.path, "size": file.size, **proof})
    return {
        "repo": repo.name,
        "revision": "main",
        "commit": repo.commit,
        "license": repo.license,
        "files": files,
    }
