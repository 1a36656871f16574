"""An image with llama-server and nothing else, built once with the program of the machines."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sparkwright import llama_build
from sparkwright.llama_flags import Source, Wanted
from sparkwright.paths import LIB

from . import docker_image, fleetfile
from .host import PROJECT, cache_dir, made_beside, run, say

if TYPE_CHECKING:
    from .artifacts import Prepared

REPOSITORY, TAG = "lab/llama-server", "b11312"
PROGRAM, TITLE = "/app/llama-server", "A page of the sparkwright lab"
# Mounts of its own, which end with it. $1 base, $2 work folder, $3 packages, $4 compiler cache.
BUILD = """
set -eu
root=$2/root
mount -t overlay sparkwright-lab -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind "$3" "$root/mnt"
mkdir -p "$root/var/cache/ccache"
mount --bind "$4" "$root/var/cache/ccache"
chroot "$root" sh -c 'dpkg --install /mnt/*.deb' >"$2/log" 2>&1
chroot "$root" useradd --system llm
cp -r "$2/files/." "$root/"
chroot "$root" python3 /opt/sparkwright/lib/build_llama.py /build.json >>"$2/log" 2>&1
cp -a "$root/opt/llama/bin" "$2/bin"
chroot "$root" ldd /opt/llama/bin/llama-server >"$2/ldd"
mkdir "$2/lib"
grep -o '/[^ ]*' "$2/ldd" | grep -v ^/opt/ | while read -r path; do
    cp -L "$root$path" "$2/lib/"
done
"""


def prepare(prepared: Prepared) -> Path:
    """The registry folder with the image. Hold the prepare lock.

    About 40 s and 120 MB with a warm compiler cache, three minutes on 2 cores without.
    """
    text = json.dumps([BUILD, TITLE, prepared.base.name, prepared.llama.commit, _flags()])
    target = cache_dir() / "images" / hashlib.sha256(text.encode()).hexdigest()[:12]
    if not target.exists():
        say("an image with llama-server (compiles llama.cpp, once)")
        with made_beside(target) as folder:
            work = folder / "build"
            _compile(prepared, work)
            _image(folder, work)
            shutil.rmtree(work)
    return target


def _flags() -> list[str]:
    flags = fleetfile.SETTINGS["llama_cpp_cmake_flags"]
    assert isinstance(flags, list)
    return flags


def _compile(prepared: Prepared, work: Path) -> None:
    for name in ("root", "upper", "work"):
        (work / name).mkdir(parents=True)
    files = work / "files"
    shutil.copytree(PROJECT / "files/opt/sparkwright/lib", files / LIB.lstrip("/"))
    archive = files / "source.tar.gz"
    shutil.copyfile(prepared.llama.archive, archive)
    source = Source("", "", None, prepared.llama.commit, fleetfile.LLAMA_BUILD)
    env = {"CCACHE_DIR": "/var/cache/ccache", "CCACHE_UMASK": "000"}
    # The paths of a machine, for the compiler cache knows them.
    wanted = Wanted(source, "/opt", "/srv/sparkwright/build", "llm", "cpu", "", tuple(_flags()),
                    env, 0, 1)  # fmt: skip
    inputs = llama_build.inputs_of(wanted, [{}, {}, {}, {}])
    spec = dict(llama_build.build_job(wanted, inputs, "llama").spec)
    spec |= {"archive": "/source.tar.gz", "dest": "/opt/llama", "targets": ["llama-server"],
             "progress": "/progress", "stamp": "/opt/llama/.stamp", "digest": "llama"}  # fmt: skip
    (files / "build.json").write_text(json.dumps(spec))
    cache = cache_dir() / "ccache"
    run("unshare", "--mount", "sh", "-c", BUILD, "sh", prepared.base, work, prepared.debian.folder,
        cache, env={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"})  # fmt: skip


def _image(folder: Path, work: Path) -> None:
    loader = re.search(r"(/lib\S*/ld-linux\S+)", (work / "ldd").read_text())
    assert loader
    files: dict[str, bytes | Path] = {}
    links = {}
    for path in sorted((work / "bin").iterdir()):
        if path.is_symlink():
            links[f"app/{path.name}"] = str(path.readlink())
        else:
            files[f"app/{path.name}"] = path
    files |= {f"lib/{path.name}": path for path in sorted((work / "lib").iterdir())}
    files[loader[1].lstrip("/")] = work / "lib" / Path(loader[1]).name
    # A page as well, for a container that serves one: llama-server's --path shows it.
    files["www/index.html"] = f"<title>{TITLE}</title>\n".encode()
    tar = docker_image.layer(files, links)
    image = docker_image.make(folder, REPOSITORY, [TAG], tar, ["LD_LIBRARY_PATH=/app:/lib"])
    about = {
        "id": image.id,
        "digest": image.digest,
        "size": image.size,
        "archive": image.archive.name,
    }
    (folder / "image.json").write_text(json.dumps(about))


def image(folder: Path) -> docker_image.Image:
    """The image of a folder that `prepare` gave."""
    about = json.loads((folder / "image.json").read_text())
    return docker_image.Image(
        about["id"], about["digest"], about["size"], folder / about["archive"]
    )
