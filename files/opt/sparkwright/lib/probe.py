"""Answers questions about this machine: a JSON list of specs in, a JSON list of states out.

Runs as `python3 -c <this text> <specs>` over SSH, so nothing needs to be installed before the first
question; talk.py asks it many times. Standard library only, changes nothing.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Spec = dict[str, Any]
State = dict[str, Any]

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


def _name(lookup: Callable[[int], Any], number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def _sha256(path: str) -> str:
    import hashlib  # here: OpenSSL costs each question 6 ms, and not every one needs it

    digest = hashlib.sha256()
    with Path(path).open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def path(spec: Spec) -> State:
    """Type, owner, group, mode, and for files the hash (or the text when `text` is asked)."""
    try:
        info = os.lstat(spec["path"])
    except (FileNotFoundError, NotADirectoryError):
        return {"type": "missing"}
    state: State = {
        "type": TYPES.get(stat.S_IFMT(info.st_mode), "other"),
        "mode": f"{stat.S_IMODE(info.st_mode):04o}",
        "owner": _name(pwd.getpwuid, info.st_uid),
        "group": _name(grp.getgrgid, info.st_gid),
        "size": info.st_size,
    }
    if state["type"] == "link":
        state["target"] = str(Path(spec["path"]).readlink())
    elif state["type"] == "file" and spec.get("text"):
        state["text"] = Path(spec["path"]).read_text(errors="replace")
    elif state["type"] == "file":
        state["sha256"] = _sha256(spec["path"])
    return state


def listing(spec: Spec) -> State:
    """Paths that match a pattern, newest first."""
    found = [str(p) for p in Path("/").glob(spec["pattern"].lstrip("/"))]
    return {"paths": sorted(found, key=lambda p: -os.lstat(p).st_mtime)}


def run(spec: Spec) -> State:
    """Exit status and output of a command that only reads."""
    try:
        done = subprocess.run(
            spec["argv"],
            input=spec.get("stdin", ""),  # never ours: the next questions are in it
            capture_output=True,
            text=True,
            timeout=600,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            cwd="/",
            check=False,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        return {"rc": 127, "out": "", "err": str(error)}
    return {"rc": done.returncode, "out": done.stdout, "err": done.stderr}


def packages(spec: Spec) -> State:
    """Installed version of each Debian package; absent ones are missing from `versions`."""
    shown = "${Package}\t${db:Status-Status}\t${Version}\n"
    lines = run({"argv": ["dpkg-query", "-W", "-f", shown, *spec["names"]]})["out"].splitlines()
    rows = [line.split("\t") for line in lines]
    return {"versions": {row[0]: row[2] for row in rows if row[1] == "installed"}}


def user(spec: Spec) -> State:
    """Home and groups of an account; `known` are the groups of the machine."""
    try:
        entry = pwd.getpwnam(spec["name"])
    except KeyError:
        return {"exists": False}
    main = _name(grp.getgrgid, entry.pw_gid)
    extra = [g.gr_name for g in grp.getgrall() if spec["name"] in g.gr_mem]
    known = [g.gr_name for g in grp.getgrall()]
    return {
        "exists": True,
        "home": entry.pw_dir,
        "groups": sorted({main, *extra}),
        "known": known,
    }


def sysctl(spec: Spec) -> State:
    """Values that the kernel uses now."""
    values = {}
    for key in spec["keys"]:
        place = Path("/proc/sys") / key.replace(".", "/")
        values[key] = place.read_text().split() if place.exists() else None
    return {"values": {k: " ".join(v) if v is not None else None for k, v in values.items()}}


UNIT_KEYS = (
    "LoadState ActiveState SubState Result MainPID NeedDaemonReload FragmentPath DropInPaths"
    " UnitFileState InvocationID ActiveEnterTimestamp NRestarts ExecMainStatus Job"
)


def unit(spec: Spec) -> State:
    """What systemd runs under a name: properties, program and digest of the main process."""
    shown = run({"argv": ["systemctl", "show", "-p", UNIT_KEYS.replace(" ", ","), spec["name"]]})
    state = dict(line.split("=", 1) for line in shown["out"].splitlines() if "=" in line)
    pid = state.get("MainPID", "0")
    state |= {"digest": "", "exe": ""}
    with contextlib.suppress(OSError):  # it does not run, or just ended
        state["exe"] = str(Path(f"/proc/{pid}/exe").readlink())
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"SPARKWRIGHT_DIGEST="):
                state["digest"] = entry.split(b"=", 1)[1].decode()
    return state


def host(spec: Spec) -> State:
    """What preflight wants to know, in one piece."""
    import shutil  # here: it loads three compression libraries

    release = dict(
        line.rstrip().replace('"', "").split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    memory = {
        line.split(":")[0]: int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
    }
    return {
        "arch": os.uname().machine,
        "os": f"{release.get('ID', '?')} {release.get('VERSION_ID', '?')}",
        "python": list(sys.version_info[:2]),
        "mem_total": memory["MemTotal"],
        "clock": time.time(),
        "euid": os.geteuid(),
        "tools": {tool: shutil.which(tool) for tool in spec.get("tools", [])},
    }


def disk(spec: Spec) -> State:
    """Free bytes and mount options of the file system that would hold a path."""
    place = Path(spec["path"])
    while not place.exists():
        place = place.parent
    info = os.statvfs(place)
    return {
        "free": info.f_bavail * info.f_frsize,
        "noexec": bool(info.f_flag & os.ST_NOEXEC),
        "readonly": bool(info.f_flag & os.ST_RDONLY),
    }


def ports(_: Spec) -> State:
    """Listening TCP ports with the process and the unit that hold them."""
    held: dict[str, list[str]] = {}
    for line in run({"argv": ["ss", "-Hltnp"]})["out"].splitlines():
        fields = line.split()
        port = fields[3].rsplit(":", 1)[1]
        pid = line.split("pid=", 1)[1].split(",", 1)[0] if "pid=" in line else ""
        group = Path(f"/proc/{pid}/cgroup")
        name = line.split('(("', 1)[1].split('"', 1)[0] if '(("' in line else "?"
        owner = group.read_text().strip().rsplit("/", 1)[-1] if pid and group.exists() else "?"
        held.setdefault(port, []).append(f"{name} (pid {pid or '?'}, {owner})")
    return {"ports": held}


KINDS: dict[str, Callable[[Spec], State]] = {
    "path": path,
    "listing": listing,
    "run": run,
    "packages": packages,
    "user": user,
    "sysctl": sysctl,
    "unit": unit,
    "host": host,
    "disk": disk,
    "ports": ports,
}


def answer(spec: Spec) -> State:
    """One state; a question that fails says why instead of ending the others."""
    try:
        return KINDS[spec["kind"]](spec)
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    print(json.dumps([answer(spec) for spec in json.loads(sys.argv[1])]))
