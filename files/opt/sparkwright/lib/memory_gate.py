"""Wait until a model's memory is free; refuse the start, with numbers, when it does not get free.

Runs as root before the engine (ExecStartPre=+). Exhaustion on GB10 wedges the machine without an
out-of-memory kill (open-gpu-kernel-modules#1358), so a start that does not fit must not begin.
What it does, a line each: asks Ollama to unload its models, writes dirty pages and drops the page
cache, then waits for MemAvailable. MemAvailable, not MemFree: the latter ignores cache that can go.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
import time
import urllib.parse
from pathlib import Path

GIB = 1024 * 1024 * 1024
# Ollama answers /api/ps from memory; unloading frees a large model's pages first.
PS_TIMEOUT_S = 5.0
UNLOAD_TIMEOUT_S = 30.0
# All requests together: a stuck Ollama must not eat the unit's start timeout.
OLLAMA_LIMIT_S = 45.0
HOLDERS_SHOWN = 8


def say(line: str) -> None:
    """One fact a line; flushed, since the journal shows it while we wait."""
    print(f"memory_gate: {line}", flush=True)


def request(url: str, path: str, body: dict[str, object] | None, timeout: float) -> object:
    """Ask Ollama; the reply's JSON. Raises OSError, HTTPException or ValueError.

    http.client, not urllib.request: the latter would go through a proxy of the environment.
    """
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", path, data, headers)
        reply = connection.getresponse()
        text = reply.read(1024 * 1024)
    finally:
        connection.close()
    if reply.status != 200:
        raise http.client.HTTPException(f"status {reply.status}")
    return json.loads(text)


def loaded_models(reply: object) -> list[tuple[str, float]]:
    """Names and GiB of the models that Ollama holds; raises ValueError for another reply."""
    models = reply.get("models") if isinstance(reply, dict) else None
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise ValueError("its reply has no list of models")
    return [(str(m.get("name") or m.get("model")), float(m.get("size") or 0) / GIB) for m in models]


def time_is_over(number: int, frame: object) -> None:
    """Signal handler: the request that runs ends as any request that failed."""
    raise TimeoutError(f"{OLLAMA_LIMIT_S:g} s are over")


def unload_ollama(url: str) -> None:
    """Ask Ollama to unload everything. No answer is a fact to print, never a failure here."""
    end = time.monotonic() + OLLAMA_LIMIT_S
    # A socket timeout starts anew with every byte; the timer does not.
    signal.signal(signal.SIGALRM, time_is_over)
    signal.setitimer(signal.ITIMER_REAL, OLLAMA_LIMIT_S)
    try:
        unload_each(url, end)
    except TimeoutError as error:
        say(f"ollama: {error}; going on")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def unload_each(url: str, end: float) -> None:
    """One question, then one request a model; `end` is a time of time.monotonic()."""
    try:
        models = loaded_models(request(url, "/api/ps", None, PS_TIMEOUT_S))
    except ConnectionRefusedError:
        say(f"ollama: nothing listens at {url}")
        return
    except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
        say(f"ollama: no usable answer from {url} ({error or type(error).__name__}); going on")
        return
    say(f"ollama: {len(models)} model(s) loaded")
    for name, gib in models:
        left = end - time.monotonic()
        if left <= 0:
            say(f"ollama: not asked about {name}: {OLLAMA_LIMIT_S:g} s are over; going on")
            continue
        try:
            body: dict[str, object] = {"model": name, "keep_alive": 0}
            request(url, "/api/generate", body, min(left, UNLOAD_TIMEOUT_S))
            say(f"ollama: asked to unload {name} ({gib:.1f} GiB)")
        except (OSError, http.client.HTTPException, ValueError) as error:
            say(f"ollama: {name} not unloaded ({error or type(error).__name__}); going on")


def drop_caches(path: Path) -> None:
    """Free the page cache; a kernel that does not let us is a fact to print."""
    os.sync()
    try:
        path.write_text("3\n")
        say("page cache: dropped")
    except OSError as error:
        say(f"page cache: not dropped ({error.strerror}: {path}); going on")


def meminfo(path: Path) -> dict[str, float]:
    """/proc/meminfo in GiB."""
    lines = (line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return {name: int(rest.split()[0]) * 1024 / GIB for name, rest in lines if rest.split()}


def holders(proc: Path) -> list[tuple[float, int, str]]:
    """The largest processes: resident GiB, pid, name."""
    page, found = os.sysconf("SC_PAGE_SIZE"), []
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                resident = int((entry / "statm").read_text().split()[1]) * page / GIB
                found.append((resident, int(entry.name), (entry / "comm").read_text().strip()))
            except (OSError, IndexError, ValueError):
                continue  # it ended while we looked
    return sorted(found, reverse=True)[:HOLDERS_SHOWN]


def wait(need: float, limit_s: float, path: Path, poll_s: float) -> bool:
    """Wait until MemAvailable reaches the need; False when the limit is over first."""
    begin = time.monotonic()
    told = -1e9
    while True:
        available = meminfo(path)["MemAvailable"]
        spent = time.monotonic() - begin
        if available >= need:
            say(f"memory: {available:.1f} GiB available, {need:.1f} GiB needed ({spent:.0f} s)")
            return True
        if spent >= limit_s:
            return False
        if spent - told >= 15:
            say(f"memory: {available:.1f} GiB available, {need:.1f} GiB needed; waiting")
            told = spent
        time.sleep(min(poll_s, max(0.0, limit_s - spent)))


def refuse(need: float, limit_s: float, path: Path, proc: Path) -> None:
    """Say what was needed, what was there, who holds it and what to do."""
    memory = meminfo(path)
    available, total = memory["MemAvailable"], memory.get("MemTotal", 0.0)
    say(
        f"refused: {need:.1f} GiB needed, {available:.1f} GiB available of {total:.1f} GiB "
        f"after {limit_s:g} s"
    )
    for resident, pid, name in holders(proc):
        say(f"holder: {resident:.1f} GiB {name} (pid {pid})")
    say(f"holder: {memory.get('Shmem', 0.0):.1f} GiB shared memory and tmpfs")
    say("note: memory of CUDA is in none of these numbers; nvidia-smi lists it by process")
    say(
        "what to do: stop a holder above, or lower memory_gib of the recipe; if nothing holds it, "
        "a killed engine's memory has not come back: wait some minutes, then reboot"
    )


def main(argv: list[str] | None = None) -> int:
    """0: the memory is there. 1: refused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--need-gib", type=float, required=True)
    parser.add_argument("--wait-s", type=float, default=300.0)
    parser.add_argument("--poll-s", type=float, default=2.0)
    parser.add_argument("--ollama-url", default="", help="such as http://127.0.0.1:11434")
    parser.add_argument("--meminfo", type=Path, default=Path("/proc/meminfo"))
    parser.add_argument("--proc", type=Path, default=Path("/proc"))
    parser.add_argument("--drop-caches", type=Path, default=Path("/proc/sys/vm/drop_caches"))
    args = parser.parse_args(argv)
    if args.ollama_url:
        unload_ollama(args.ollama_url)
    drop_caches(args.drop_caches)
    if wait(args.need_gib, args.wait_s, args.meminfo, args.poll_s):
        return 0
    refuse(args.need_gib, args.wait_s, args.meminfo, args.proc)
    return 1


if __name__ == "__main__":
    sys.exit(main())
