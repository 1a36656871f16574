"""What runs on this machine right now: memory, units, engines. Reads only, standard library only.

Runs as `python3 -c <this text> <spec>` over SSH, so it needs no file on the machine.
SPEC: {"units": [{"unit", "host", "port", "health", "key_file", "record"}], "probe": its text,
"questions": its questions}; prints one JSON object. One process, HTTP by hand, plain threads: a
second Python, http.client and concurrent.futures took half of a look (20, 61, 32 of 230 ms of CPU).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

KEYS = (
    "Id LoadState ActiveState SubState Result NRestarts InvocationID ControlGroup"
    " ActiveEnterTimestampMonotonic"
)
HTTP_S = 2.0  # an engine on the same machine that needs longer for /health does not answer
APART_S = 1.0  # between two looks at a counter of an engine that computes
HOLDERS = 5
DOCKER = "/var/lib/docker/containers"
TOKENS = ("llamacpp:tokens_predicted_total", "vllm:generation_tokens_total")
BUSY = ("llamacpp:requests_processing", "vllm:num_requests_running")
WAITING = ("llamacpp:requests_deferred", "vllm:num_requests_waiting")
_CONTAINER = re.compile(r"\bdocker[-/]([0-9a-f]{64})\b")
_SAMPLE = re.compile(r"^([a-z_]+:[a-z_]+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.M)


def get(unit: dict[str, Any], path: str) -> tuple[int, str]:
    """Status and body of a page; status 0 when there is no answer, and why."""
    host, port, file, found = unit["host"], unit["port"], unit.get("key_file"), b""
    try:
        key = f"Authorization: Bearer {Path(file).read_text().strip()}\r\n" if file else ""
        with socket.create_connection((host, port), timeout=HTTP_S) as link:
            # 1.0: the answer ends where the server closes, and comes in no chunks.
            link.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n{key}\r\n".encode())
            while len(found) < 2**20 and (part := link.recv(2**16)):
                found += part
        head, _, body = found.partition(b"\r\n\r\n")
        return int(head.split(None, 2)[1]), body.decode(errors="replace")
    except (OSError, ValueError, IndexError) as error:
        return 0, str(error) or type(error).__name__


def counters(text: str) -> dict[str, float]:
    """Sums of the samples that interest us, out of Prometheus' text format."""
    found: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        with contextlib.suppress(ValueError):
            found[name] = found.get(name, 0.0) + float(value)
    return found


def pick(found: dict[str, float], names: tuple[str, ...]) -> float | None:
    """The first of the names that is there."""
    return next((found[name] for name in names if name in found), None)


def metrics(unit: dict[str, Any]) -> dict[str, Any]:
    """Tokens so far, requests, and the rate of the last second when something is computed."""
    status, text = get(unit, "/metrics")
    first, at = counters(text) if status == 200 else {}, time.monotonic()
    tokens, busy = pick(first, TOKENS), pick(first, BUSY)
    if tokens is None:
        return {"said": False}
    seen = {"said": True, "tokens": tokens, "at": at, "busy": busy,
            "waiting": pick(first, WAITING), "rate": 0.0, "over_s": 0.0}  # fmt: skip
    if busy:
        time.sleep(APART_S)
        later = pick(counters(get(unit, "/metrics")[1]), TOKENS)
        over = time.monotonic() - at
        if later is not None and later >= tokens:  # a restart begins at 0 again
            seen |= {"rate": (later - tokens) / over, "over_s": over}
    return seen


def systemd(names: list[str]) -> dict[str, dict[str, str]]:
    """Properties of units by name."""
    argv = ["systemctl", "show", "-p", KEYS.replace(" ", ","), *names]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    blocks = [block for block in done.stdout.split("\n\n") if block.strip()]
    rows = [dict(line.split("=", 1) for line in b.splitlines() if "=" in line) for b in blocks]
    return {row.get("Id", ""): row for row in rows}


def memory() -> dict[str, int]:
    """Bytes of the machine: /proc/meminfo, for on GB10 the GPU's memory is part of it."""
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    found = {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}
    return {"total": found["MemTotal"], "available": found["MemAvailable"]}


def gpu() -> dict[int, int]:
    """GPU memory by process, bytes; empty without a GPU, and what says [N/A] counts as nothing."""
    argv = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[int, int] = {}
    for row in done.stdout.splitlines():
        fields = [field.strip() for field in row.split(",")]
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            found[int(fields[0])] = found.get(int(fields[0]), 0) + int(fields[1]) * 2**20
    return found


def processes(on_gpu: dict[int, int]) -> list[dict[str, Any]]:
    """Every process with its own memory (without shared files) and its part of the GPU's."""
    rows = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            statm = (place / "statm").read_text().split()
            group = (place / "cgroup").read_text().strip().rsplit(":", 1)[-1]
            own = (int(statm[1]) - int(statm[2])) * 4096 + on_gpu.get(int(place.name), 0)
            name = (place / "comm").read_text().strip()
            rows.append({"pid": int(place.name), "name": name, "bytes": own, "group": group})
    return rows


def container(group: str) -> str:
    """Name of the container that a control group is of; its id where docker keeps no such file."""
    if not (hit := _CONTAINER.search(group)):
        return ""
    try:
        text = Path(f"{DOCKER}/{hit[1]}/config.v2.json").read_text()
        return str(json.loads(text)["Name"]).lstrip("/")
    except (OSError, ValueError, KeyError):
        return hit[1][:12]


def read_bytes(pids: list[int]) -> int:
    """What processes have read so far, from disk or cache: how far a load has come."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/io").read_text()
            total += int(text.split("rchar: ", 1)[1].split()[0])
    return total


def accepted(path: str) -> dict[str, Any] | None:
    """When a unit answered its question last, and for which start; None when it never did."""
    try:
        info, text = Path(path).stat(), json.loads(Path(path).read_text())
        return {"at": info.st_mtime, "invocation": text["invocation"], "asked": text["asked"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unit_state(
    unit: dict[str, Any], shown: dict[str, str], all_: list[dict[str, Any]]
) -> dict[str, Any]:
    """One unit: what systemd says, whether the engine answers, what it holds."""
    group = shown.get("ControlGroup", "")
    mine = [row for row in all_ if group and row["group"].startswith(group)]
    since = int(shown.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
    active = shown.get("ActiveState")
    found = {
        "unit": unit["unit"], "load": shown.get("LoadState", ""), "active": active,
        "sub": shown.get("SubState", ""), "result": shown.get("Result", ""),
        "restarts": int(shown.get("NRestarts") or 0), "invocation": shown.get("InvocationID", ""),
        "uptime_s": time.monotonic() - since if active == "active" else None,
        "bytes": sum(row["bytes"] for row in mine),
        "read": read_bytes([row["pid"] for row in mine]) if active == "activating" else None,
        "accepted": accepted(unit["record"]), "health": 0, "metrics": {"said": False},
    }  # fmt: skip
    if active in ("active", "activating"):
        found["health"] = get(unit, unit["health"])[0]
    if found["health"] == 200:
        found["metrics"] = metrics(unit)
    return found


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """Everything that was asked for."""
    units = spec["units"]
    shown = systemd([unit["unit"] for unit in units]) if units else {}
    all_ = processes(gpu())
    found: dict[str, Any] = {}

    def one(unit: dict[str, Any]) -> None:
        found[unit["unit"]] = unit_state(unit, shown.get(unit["unit"], {}), all_)

    threads = [threading.Thread(target=one, args=(unit,)) for unit in units]
    for step in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            step(thread)
    all_.sort(key=lambda row: -row["bytes"])
    probe: dict[str, Any] = {"__name__": "probe"}
    exec(spec["probe"], probe)  # noqa: S102 - our own text, beside this one
    states = [probe["answer"](question) for question in spec["questions"]]
    return {
        "memory": memory(),
        "units": [found[u["unit"]] for u in units],
        "holders": [{**r, "container": container(r["group"])} for r in all_[:HOLDERS]],
        "states": states,
    }


def main(argv: list[str]) -> int:
    """Print what was found."""
    print(json.dumps(look(json.loads(argv[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
