"""A container image for other machines, and from them: docker's export as a directory tree.

    spread_image.py offer DEST ITEM USER NAME ID RECORD    token on standard input; has docker
                                   write the image to DEST, then goes on as spread_tree.py offer

The engine keeps no file that it pulled, so a holder exports what it has, and files go as a build's
do. DEST is alone in a directory whose lock says that somebody is at work on it: the end of the
server (spread_wire.py) or the next run removes one that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

import docker_api
from docker_api import DockerError
from job_progress import Progress
from spread_job import Spread
from spread_tree import CopyError, hashed, listed, offer, receive

UNIT = "sparkwright-spread.service"
# Bytes that stay free beside a copy: other things run on this disk (our choice).
SPARE = 1 << 30
# The engine writes an export to a directory of its own before the first byte of it comes, and does
# the same with one that it loads (moby, image/tarexport/save.go and load.go). Beside the tree:
GIVING, TAKING = 1, 2  # sizes of the image on docker's disk; taking: that directory, and layers


class NoRoomError(Exception):
    """This machine's disk is too small for a copy; its neighbours are not to blame."""


def main(argv: list[str]) -> int:
    """Export an image and let the server give it; prints the sha256 of the list."""
    dest, item, user, name, image_id, record = argv[1:]
    token = sys.stdin.readline().strip()
    try:
        export(Path(dest), [name, image_id, recorded(Path(record))])
        print(offer(Path(dest), Path(item), user, token))
    except (DockerError, CopyError, NoRoomError, OSError, HTTPException) as error:
        shutil.rmtree(dest, ignore_errors=True)
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


def recorded(record: Path) -> str:
    """The id by which docker knew the image when it was last seen; "" when that is unknown."""
    try:
        return str(json.loads(record.read_text())["id"])
    except (OSError, ValueError, KeyError):
        return ""


def export(dest: Path, names: list[str]) -> None:
    """Have docker write the image. Raises DockerError, CopyError, NoRoomError, OSError."""
    found = next((f for f in map(docker_api.inspect, filter(None, names)) if f), None)
    if found is None:
        raise DockerError("docker does not have it any more")
    shutil.rmtree(dest, ignore_errors=True)
    size = int(found["Size"])
    need_room(dest.parent, size, GIVING * size)
    dest.mkdir(mode=0o755)
    unpack(docker_api.save(found["Id"]), dest)
    for place in dest.rglob("*"):  # the server's account reads them; the list keeps these modes
        if not place.is_symlink():
            place.chmod(0o755 if place.is_dir() else 0o644)


def unpack(content: IO[bytes] | HTTPResponse, dest: Path) -> None:
    """Unpack an export. Raises CopyError, OSError."""
    words = ["tar", "--extract", "--no-same-owner", "--directory", str(dest)]
    with tempfile.TemporaryFile() as said, subprocess.Popen(words, stdin=PIPE, stderr=said) as tar:
        if tar.stdin:
            with contextlib.suppress(BrokenPipeError), tar.stdin:  # tar's own words say why
                shutil.copyfileobj(content, tar.stdin, 1 << 20)
        if tar.wait():
            said.seek(0)
            raise CopyError(f"tar: {said.read().decode(errors='replace').strip()[-300:]}")


def need_room(place: Path, here: int, docker: int) -> None:
    """Raise NoRoomError unless so many bytes are free here and on docker's disk."""
    root = Path(docker_api.root())
    same = place.stat().st_dev == root.stat().st_dev
    for path, size in ((place, here + same * docker), (root, docker)):
        free = shutil.disk_usage(path).free
        if free < size + SPARE:
            wanted = f"{(size + SPARE) / 1e9:.1f} GB are needed for a copy"
            raise NoRoomError(f"{path}: {free / 1e9:.1f} GB free, {wanted}")


@contextlib.contextmanager
def held(home: Path) -> Iterator[None]:
    """Say that somebody is at work on a copy. Raises OSError."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def copied(spec: dict[str, Any], load: Any) -> str:
    """Bring the image from other machines and load it; returns the name that docker gives.

    + load: hands a tree of so many bytes to docker

    Raises CopyError, NoRoomError, DockerError, OSError.
    """
    dest, spread = Path(spec["copy"]), Spread(spec["spread"])
    home = dest.parent
    for place in (home.parent, home):
        place.mkdir(mode=0o750, parents=True, exist_ok=True)
        shutil.chown(place, "root", spec["user"])
    try:
        with held(home):
            size = sum(row.get("size", 0) for row in json.loads(listed(spread)))
            need_room(home, size, TAKING * size)
            beside = dest.with_name("tree.new")
            receive(spread, spec["user"], beside, dest, Progress(spec["progress"]))
            shutil.rmtree(dest, ignore_errors=True)
            beside.rename(dest)
            proved(dest, spec["image_id"])
            name: str = load(dest, size)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    # From here on the server's end removes it; who looks after the lock is gone misses no end.
    if subprocess.run(["systemctl", "is-active", "--quiet", UNIT], check=False).returncode:
        shutil.rmtree(home, ignore_errors=True)
    return name


def proved(top: Path, image_id: str) -> None:
    """Raise CopyError unless this is one image, with the configuration that the lock names.

    An image's id is the sha256 of its configuration, which names its layers by their sha256, and
    docker refuses a layer that is another one: so this proves the whole, whoever exported it.
    """
    try:
        (image,) = json.loads((top / "manifest.json").read_bytes())
        place = (top / image["Config"]).resolve()
        found = f"sha256:{hashed(place)}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CopyError(f"no export of one image came: {error}") from error
    if not place.is_relative_to(top.resolve()):
        raise CopyError(f"{image['Config']}: is outside of the copy")
    if found != image_id:
        raise CopyError(f"another image came: {found}, the lock says {image_id}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
