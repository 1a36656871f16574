"""`sparkwright bundle` on a directory that is complete: by stamps, and hashing every byte."""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from benchmarks import measure
from benchmarks.measure import Figure, timed
from tests.bundle.place import COMMIT, Place
from tests.bundle.server import Server

PROGRAM = str(Path(sys.executable).with_name("sparkwright"))
MANY, SMALL = 1000, 1000  # files, and bytes of each
SHARDS, SHARD_BYTES = 8, 384 * 10**6
ROUNDS = 5
LIMIT_S = 3.0  # per 1,000 files


def complete(folder: Path, server: Server, sizes: list[int]) -> tuple[Path, dict[str, str]]:
    """A fleet file whose bundle is whole, with a snapshot of files of these sizes; and the
    environment in which it was filled."""
    folder.mkdir()
    place = Place(folder, server)
    below = place.bundle / f"hub/lab/m/resolve/{COMMIT}"
    below.mkdir(parents=True)
    (place.bundle / ".sparkwright").mkdir()
    rows = []
    for number, size in enumerate(sizes):
        # One model for llama.cpp, and other files beside it.
        path = below / (f"part-{number:04d}.bin" if number else "model.gguf")
        rows.append({"path": path.name, "size": size, "sha256": written(path, size)})
    place.lock["snapshots"]["lab/m@main"]["files"] = rows
    recipe = yaml.safe_load((folder / "recipes/model.yaml").read_text())
    del recipe["weights"]["include"]
    (folder / "recipes/model.yaml").write_text(yaml.safe_dump(recipe))
    place.write()
    env = {"UV_DEFAULT_INDEX": f"{server.url}/simple/", "UV_CACHE_DIR": str(folder / "uv")}
    again(place.top / "sparks.yaml", env)
    return place.top / "sparks.yaml", env


def written(path: Path, size: int) -> str:
    """Write random bytes; their sha256."""
    digest = hashlib.sha256()
    with path.open("wb") as out:
        for piece in range(0, size, 8 << 20):
            block = os.urandom(min(8 << 20, size - piece))
            digest.update(block)
            out.write(block)
        os.fsync(out.fileno()) if size > SMALL else None
    return digest.hexdigest()


def again(fleet: Path, env: dict[str, str], *words: str) -> float:
    """Seconds of one run, as a user starts it."""
    top = str(fleet.with_name("bundle"))
    return timed([PROGRAM, "bundle", top, "--fleet", str(fleet), *words], env).seconds


def files_of(fleet: Path) -> list[Path]:
    """All files of a bundle."""
    return [path for path in fleet.with_name("bundle").rglob("*") if path.is_file()]


def forget(paths: list[Path]) -> None:
    """Drop files from the page cache, so that the disk is read."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def plain(paths: list[Path]) -> float:
    """Seconds of the obvious way: hashlib over the same files, one thread a core."""
    began = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_hash, sorted(paths, key=lambda path: -path.stat().st_size)))
    return time.monotonic() - began


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def figures(folder: Path) -> list[Figure]:
    """Both figures, on the disk that holds a folder."""
    with Server() as server:
        many, env = complete(folder / "bundle-many", server, [SMALL] * MANY)
        count = len(files_of(many))
        quick = statistics.median(again(many, env) for _ in range(ROUNDS))
    with Server() as server:
        few, env = complete(folder / "bundle-few", server, [SHARD_BYTES] * SHARDS)
        paths, ours, theirs = files_of(few), [], []
        for _ in range(ROUNDS):
            forget(paths)
            theirs.append(plain(paths))
            forget(paths)
            # Without what a run takes that hashes nothing: the speed of hashing is compared.
            ours.append(again(few, env, "--deep") - again(few, env))
    megabytes = sum(path.stat().st_size for path in paths) / 1e6
    return [
        # The whole program, its start included.
        Figure("bundle_again", quick * 1000 / count, "s_per_1000_files", LIMIT_S),
        Figure(
            "bundle_deep",
            megabytes / statistics.median(ours),
            "MB_per_s",
            megabytes / statistics.median(theirs),
        ),
    ]


def main() -> int:
    """These figures alone: `python -m benchmarks.bundle DIRECTORY`."""
    found = figures(Path(sys.argv[1]))
    print(f"{measure.machine()}, load {measure.load()}")
    print("\n".join(map(str, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
