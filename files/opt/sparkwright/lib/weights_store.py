"""What lies among this machine's weights, and who holds on to it. Reads only.

Runs as `python3 -c <this text> <spec>` over SSH, as root. SPEC: {"root": directory of all weights,
"recipes": {directory: {"names": recipes that want it, "spec": spec of weights.py}}, "pins":
["repo" or "repo@commit"], "lib": directory of our programs, "check": "fast" or "deep"}. Prints
{"free", "noatime", "snapshots": [...], "foreign": [paths], "cut": [paths]}: foreign is what is no
snapshot of ours, cut is what an interrupted prune left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

COMMIT = re.compile(r"[0-9a-f]{12}")
GONE = ".sparkwright-prune-"  # a snapshot on its way out
LOCK, STAMP, MANIFEST = ".sparkwright-lock", ".sparkwright-stat.json", "MANIFEST.json"
NOTES = (STAMP, LOCK, MANIFEST, "SHA256SUMS")  # read by every check: they say nothing about use
UNITS = ("/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient")
DEPTH = 2  # owner/name/commit; some repositories have no owner


def find(root: Path) -> dict[str, list[Path]]:
    """Snapshots, what is none, and what a prune left; links are never followed."""
    found: dict[str, list[Path]] = {"snapshots": [], "foreign": [], "cut": []}

    def walk(place: Path, depth: int) -> None:
        for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
            path = Path(entry.path)
            folder = entry.is_dir(follow_symlinks=False)
            if folder and depth and entry.name.startswith(GONE):
                found["cut"].append(path)
            elif folder and depth and COMMIT.fullmatch(entry.name):
                found["snapshots"].append(path)
            elif folder and depth < DEPTH:
                walk(path, depth + 1)
            else:
                found["foreign"].append(path)

    if root.is_dir():
        walk(root, 0)
    return found


def measure(place: Path) -> dict[str, Any]:
    """Bytes, what a removal would free, last use, and inodes of everything in a snapshot."""
    own = place.lstat()
    size, used, mounted, count = 0, own.st_mtime, False, 0
    links: dict[tuple[int, int], list[int]] = {}
    for folder, folders, files in os.walk(place):
        for name in [*folders, *files]:
            state = (Path(folder) / name).lstat()
            mounted = mounted or (S_ISDIR(state.st_mode) and state.st_dev != own.st_dev)
            if not S_ISREG(state.st_mode):
                continue
            size, count = size + state.st_size, count + 1
            seen = links.setdefault((state.st_dev, state.st_ino), [state.st_nlink, 0, 0])
            seen[1], seen[2] = seen[1] + 1, state.st_blocks * 512
            if name not in NOTES:
                used = max(used, state.st_mtime, state.st_atime)
    frees = sum(blocks for total, here, blocks in links.values() if total == here)
    return {"bytes": size, "frees": frees, "files": count, "last_use": used,
            "mounted": mounted, "inodes": set(links)}  # fmt: skip


def units(places: list[Path]) -> dict[Path, list[str]]:
    """Units of this machine, ours or not, whose text names a directory."""
    found: dict[Path, list[str]] = {place: [] for place in places}
    for top in UNITS:
        for path in sorted(Path(top).glob("**/*")):
            with contextlib.suppress(OSError):
                text = path.read_text(errors="replace") if path.is_file() else ""
                for place in places:
                    if re.search(re.escape(str(place)) + r"(?![\w.-])", text):
                        above = path.parent.name
                        found[place].append(above[:-2] if above.endswith(".d") else path.name)
    return {place: sorted(set(names)) for place, names in found.items()}


def processes(inodes: dict[tuple[int, int], Path], places: list[Path]) -> dict[Path, list[str]]:
    """Processes that have a file of a snapshot open or mapped, or stand in it."""
    found: dict[Path, set[str]] = {place: set() for place in places}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile
            for place in _held(process, inodes, places):
                name = (process / "comm").read_text().strip()
                found[place].add(f"{name} ({process.name})")
    return {place: sorted(names) for place, names in found.items()}


def _held(process: Path, inodes: dict[tuple[int, int], Path], places: list[Path]) -> set[Path]:
    held, paths = set(), [str((process / "cwd").readlink())]
    for link in os.scandir(process / "fd"):
        with contextlib.suppress(OSError):
            state = link.stat()
            paths.append(str(Path(link.path).readlink()))
            if (state.st_dev, state.st_ino) in inodes:
                held.add(inodes[state.st_dev, state.st_ino])
    for line in (process / "maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[4] != "0":
            paths.append(fields[5])
            # A container has paths of its own; device and inode are the same there.
            major, minor = (int(part, 16) for part in fields[3].split(":"))
            place = inodes.get((os.makedev(major, minor), int(fields[4])))
            held |= {place} if place else set()
    return held | {p for p in places for path in paths if f"{path}/".startswith(f"{p}/")}


def pinned(repo: str, commit: str, pins: list[str]) -> list[str]:
    """The pins that name a snapshot: a whole repository, or one commit by its first digits."""
    parts = [(pin, *pin.partition("@")[::2]) for pin in pins]
    return [pin for pin, name, begin in parts
            if name == repo and (not begin or commit.startswith(begin[: len(commit)]))]  # fmt: skip


def proved(place: Path, wanted: dict[str, Any] | None, spec: dict[str, Any]) -> dict[str, Any]:
    """Is every file as published? Says the agent where a recipe wants it, else the manifest."""
    if wanted is None:
        return by_manifest(place, spec["check"] == "deep", spec["lib"])
    deep = ["--deep"] if spec["check"] == "deep" else []
    argv = ["python3", f"{spec['lib']}/weights.py", "status", "/dev/stdin", *deep]
    done = subprocess.run(argv, input=json.dumps(wanted["spec"]), capture_output=True, text=True,
                          check=False)  # fmt: skip
    try:
        found = json.loads(done.stdout)
        return {"ok": bool(found["ok"]), "missing": found["missing"], "changed": found["changed"]}
    except (ValueError, KeyError, TypeError):  # our programs are not here, or of another version
        return {"ok": None, "missing": [], "changed": []}


def by_manifest(place: Path, deep: bool, lib: str) -> dict[str, Any]:
    """A snapshot that no recipe wants, against its own manifest; ok is None without one."""
    try:
        files = {row["path"]: row for row in json.loads((place / MANIFEST).read_text())["files"]}
        stamp = json.loads((place / STAMP).read_text())["files"]
        stats = {name: stamp[name]["stat"] for name in files}
    except (OSError, ValueError, KeyError, TypeError):
        return {"ok": None, "missing": [], "changed": []}
    missing, changed = [], []
    for name, known in stats.items():
        with contextlib.suppress(OSError):
            # Two figures: a link of ours into a library (weights_library.py).
            state = (place / name).stat() if len(known or ()) == 2 else (place / name).lstat()
            if S_ISREG(state.st_mode):
                looks = [state.st_size, state.st_mtime_ns, state.st_ino]
                same = looks[: len(known or looks)] == known
                changed += [] if same else [name]
                continue
        missing.append(name)
    if deep:
        sys.path.insert(0, lib)
        import weights_hash

        there = [name for name in files if name not in missing]
        works = {n: weights_hash.Work(place / n, f"sha256:{files[n]['sha256']}") for n in there}
        made = weights_hash.hash_many(works.values())
        changed = [n for n in there if not made[place / n].matches(works[n].expected)]
    return {"ok": not missing and not changed, "missing": missing, "changed": changed}


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """Everything about the directory of weights; inodes stay here."""
    root = Path(spec["root"]).resolve()
    found = find(root)
    places, sizes = found["snapshots"], {place: measure(place) for place in found["snapshots"]}
    held = processes({i: p for p in places for i in sizes[p].pop("inodes")}, places)
    named, rows = units(places), []
    wanted = {str(Path(name).resolve()): name for name in spec["recipes"]}
    for place in places:
        repo = place.parent.relative_to(root).as_posix()
        mine = spec["recipes"].get(wanted.pop(str(place), None))
        claims = [{"by": "recipe", "name": name} for name in (mine or {"names": []})["names"]]
        claims += [{"by": "unit", "name": name} for name in named[place]]
        claims += [{"by": "pin", "name": pin} for pin in pinned(repo, place.name, spec["pins"])]
        claims += [{"by": "process", "name": name} for name in held[place]]
        rows.append({"directory": str(place), "repo": repo, "commit": place.name, **sizes[place],
                     "claims": claims, "check": proved(place, mine, spec)})  # fmt: skip
    disk = os.statvfs(root if root.is_dir() else "/")
    return {"free": disk.f_bavail * disk.f_frsize, "noatime": bool(disk.f_flag & os.ST_NOATIME),
            "snapshots": rows, "absent": sorted(wanted.values()),
            "foreign": [str(path) for path in found["foreign"]],
            "cut": [str(path) for path in found["cut"]]}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(look(json.loads(sys.argv[1]))))
