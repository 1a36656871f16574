"""Has one container image on this machine: pulled or loaded, checked, asked, and vouched for.

    load_image.py SPEC.json     SPEC: image (repository@sha256:…), image_id, known_id,
                                platform, size, archive (url, size, sha256), work, stall_s, asks,
                                program, keep, stay, progress, stamp, digest, copy, user;
                                "spread" where other machines have it (spread_job.py)
The record (`stamp`) is written last. Nothing that runs is touched, whatever goes wrong here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any

import docker_api
import fetch
import spread_image
from docker_api import DockerError
from introspect_image import facts
from spread_image import NoRoomError
from spread_tree import CopyError

GONE = (
    DockerError, OSError, fetch.FetchError, subprocess.SubprocessError, ValueError, CopyError,
    HTTPException,
)  # fmt: skip


class Progress:
    """The small file that the laptop reads while we work.

    + total: bytes that will come at most; note: said at the end
    """

    def __init__(self, path: str, total: int) -> None:
        self.path, self.total, self.note = Path(path), total, ""
        self.began = self.last = time.monotonic()

    def say(self, phase: str, message: str = "", **more: object) -> None:
        """Write a phase."""
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"phase": phase, "message": message, **more}))
        beside.replace(self.path)

    def bytes(self, done: int, phase: str) -> None:
        """Write how much came, once a second at most."""
        now = time.monotonic()
        if now - self.last < 1:
            return
        self.last = now
        rate = done / max(now - self.began, 0.001)
        # What is unpacked is not counted: the time that is left is known while bytes come.
        known = rate and phase != "unpacking"
        left = max(self.total - done, 0) / rate if known else None
        self.say(phase, done_bytes=done, total_bytes=self.total, rate_bps=rate, eta_s=left)


def main(argv: list[str]) -> int:
    """Run one job; see the module's docstring."""
    spec = json.loads(Path(argv[0]).read_text())
    archive = spec["archive"]
    progress = Progress(spec["progress"], archive["size"] if archive else spec["size"])
    try:
        found = have(spec, progress)
        progress.say("asking what it knows")
        record = {"inputs": spec["digest"], "image": spec["image"], "id": found["Id"]}
        record["facts"] = facts(spec, found["Id"])
        write(Path(spec["stamp"]), record)
        progress.say("removing old images")
        prune(spec)
    except GONE as error:
        progress.say("failed", f"{spec['image']}: {error}")
        print(f"load_image: {spec['image']}: {error}", file=sys.stderr)
        return 1
    progress.say("done", progress.note)
    return 0


def have(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """What docker knows of the image, which is there afterwards and is the wanted one."""
    found = docker_api.inspect(spec["image"]) or remembered(spec)
    if found is None:
        found = docker_api.inspect(brought(spec, progress))
    if found is None:
        raise DockerError("docker does not have it although it reported success")
    check(spec, found)
    return found


def brought(spec: dict[str, Any], progress: Progress) -> str:
    """Have it come from other machines, where the laptop names some, else from outside."""

    def load(top: Path, size: int) -> str:
        progress.total = size
        return docker_api.load_tree(top, spec["stall_s"], progress.bytes)

    if spec.get("spread"):
        try:
            return spread_image.copied(spec, load)
        except (NoRoomError, DockerError, OSError) as error:
            # This machine's own trouble: the others go on copying from the one that gives.
            progress.note = f"no copy of another machine's: {error}"
            print(progress.note, flush=True)
    progress.say("loading" if spec["archive"] else "pulling", progress.note)
    return loaded(spec, progress) if spec["archive"] else pulled(spec, progress)


def pulled(spec: dict[str, Any], progress: Progress) -> str:
    """Fetch from the registry, whose digest the engine checks; returns the name."""
    docker_api.pull(spec["image"], spec["platform"], spec["stall_s"], progress.bytes)
    return str(spec["image"])


def remembered(spec: dict[str, Any]) -> dict[str, Any] | None:
    """An image that was loaded from a file: docker knows it by the id alone."""
    known = [docker_api.inspect(name) for name in (spec["known_id"], spec["image_id"]) if name]
    return next((found for found in known if found), None)


def loaded(spec: dict[str, Any], progress: Progress) -> str:
    """Bring the archive, proved by its sha256, and hand it to the engine; returns a name."""
    archive, work = spec["archive"], Path(spec["work"])
    work.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = work / f"{archive['sha256']}.tar"
    fetch.fetch(fetch.Job(archive["url"], path, archive["sha256"], archive["size"], 0o644))
    name = docker_api.load(path, spec["stall_s"], progress.bytes)
    path.unlink()
    return name


def check(spec: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise when it is another image than the lock says, or one for another machine."""
    platform = f"{found['Os']}/{found['Architecture']}"
    if platform != spec["platform"]:
        raise DockerError(f"is for {platform}, the lock says {spec['platform']}")
    # With containerd's image store the id is not the configuration's digest, and the archive's
    # sha256 has to do, or that the copy was proved. API 1.48 has `Descriptor` there (ImageInspect).
    wanted = None if "Descriptor" in found else spec["image_id"]
    if wanted and found["Id"] != wanted and not docker_api.containerd():
        raise DockerError(f"has id {found['Id']}, the lock says {wanted}")


def write(path: Path, record: dict[str, Any]) -> None:
    """The record, in one step."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    with beside.open("w") as file:
        file.write(json.dumps(record, sort_keys=True))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def prune(spec: dict[str, Any]) -> None:
    """Remove images that a record of ours names and no recipe does, all but the newest.

    Without force: docker keeps one that a container uses or that has another name. An image
    without a record of ours is somebody's and stays.
    """
    records = sorted(Path(spec["stamp"]).parent.glob("*.json"), key=lambda p: -p.stat().st_mtime)
    others = [path for path in records if path.name not in spec["stay"]]
    # One image can have two digests: of two registries, of an index and its manifest.
    used = {image_of(path) for path in records if path not in others}
    for path in others[max(spec["keep"] - 1, 0) :]:
        if image_of(path) in used or removed(image_of(path)):
            path.unlink()


def image_of(path: Path) -> str:
    """The id that a record names; "" when it cannot be read."""
    try:
        return str(json.loads(path.read_text())["id"])
    except (ValueError, KeyError):
        return ""


def removed(name: str) -> bool:
    """Remove one image; whether it is gone."""
    argv = ["docker", "image", "rm", name]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    print(f"old image {name}: {(done.stdout + done.stderr).strip()}")
    return done.returncode == 0 or "No such image" in done.stderr or not name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
