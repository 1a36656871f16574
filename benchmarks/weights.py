"""The weights agent: how fast it sees that nothing changed, and how fast it hashes everything."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import Figure, timed
from sparkwright.paths import FILES

LIB = FILES / "opt/sparkwright/lib"
MANY = 1000  # files for the stat check
ROUNDS = 5
# A model is 60 GB and more; with 6 the program's start, 50 ms, does not count for more than there:
# with 1.5 GB it was a tenth of the figure.
SHARDS, SHARD_BYTES = 4, 1500 * 10**6
STAT_LIMIT_MS = 50.0  # per 100 files
STAMPED = """
import sys; sys.path.insert(0, sys.argv[1])
import pathlib, weights_spec, weights_state, weights_hash
spec = weights_spec.load_spec(pathlib.Path(sys.argv[2]))
for name in (weights_spec.MANIFEST, weights_spec.SUMS):
    (spec.dir / name).write_text("bench")
hashes = weights_hash.hash_many(weights_state.works(spec, list(spec.files)))
weights_state.write_stamp(spec, "bench", {f.path: hashes[spec.dir / f.path] for f in spec.files})
"""


def prepare(place: Path, names: list[str], size: int) -> Path:
    """A directory with verified files; returns its spec."""
    place.mkdir()
    files = []
    for number, name in enumerate(names):
        digest = hashlib.sha256()
        with (place / name).open("wb") as out:
            for piece in range(0, size, 8 << 20):
                block = os.urandom(min(8 << 20, size - piece))
                digest.update(block)
                out.write(block)
            os.fsync(out.fileno()) if number < SHARDS else None
        files.append({"path": name, "size": size, "sha256": digest.hexdigest()})
    spec = place.with_suffix(".json")
    spec.write_text(json.dumps({"dir": str(place), "repo": "bench/x", "commit": "0" * 40,
                                "files": files}))  # fmt: skip
    timed([sys.executable, "-c", STAMPED, str(LIB), str(spec)], {})
    return spec


def status(spec: Path, *words: str) -> float:
    """Seconds of one `weights.py status`, which must find everything in order."""
    run = timed([sys.executable, str(LIB / "weights.py"), "status", str(spec), *words], {})
    if not json.loads(run.out)["ok"]:
        raise RuntimeError(run.out)
    return run.seconds


def forget(place: Path) -> None:
    """Drop a directory's files from the page cache, so that the disk is read."""
    for path in place.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def plain(place: Path) -> float:
    """Seconds of the obvious way: hashlib over the same files, one thread a core."""
    forget(place)
    paths = [path for path in place.iterdir() if path.name.startswith("shard")]
    began = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_hash, paths))
    return time.monotonic() - began


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def figures(folder: Path) -> list[Figure]:
    """Both figures, on the disk that holds a folder."""
    many = prepare(folder / "many", [f"file-{n:04d}" for n in range(MANY)], 1000)
    quick = statistics.median(status(many) for _ in range(ROUNDS))
    few = prepare(folder / "few", [f"shard-{n}" for n in range(SHARDS)], SHARD_BYTES)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(plain(folder / "few"))
        forget(folder / "few")
        ours.append(status(few, "--deep"))
    megabytes = SHARDS * SHARD_BYTES / 1e6
    return [
        # The whole program, its start included, for ten times as many files.
        Figure("weights_stat", quick * 1000 / (MANY / 100), "ms_per_100_files", STAT_LIMIT_MS),
        Figure(
            "weights_hash",
            megabytes / statistics.median(ours),
            "MB_per_s",
            megabytes / statistics.median(theirs),
        ),
    ]
