"""Wait until the engine answers 200 on its health path, its main process is gone, or time is over.

Runs as the service user after the engine was started (ExecStartPost=), so that `systemctl start`
returns when the model serves. /health is public with an API key too (llama-server's README).
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys
import time
from pathlib import Path

# A port that another process holds answers at once while our engine is still on its way to fail
# with "address in use": one more look after this long tells them apart.
SETTLE_S = 1.0


def say(line: str) -> None:
    """One fact a line; flushed, since the journal shows it while we wait."""
    print(f"health_gate: {line}", flush=True)


def identity(pid: int) -> str | None:
    """Start time of a living process, so that a reused pid is noticed; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and parentheses: fields count from the last ")" (proc_pid_stat(5)).
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def ask(host: str, port: int, path: str, timeout: float) -> str:
    """What the path says: "200", "503" …, or why there is no answer."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        reply.read(64 * 1024)
        return str(reply.status)
    except ConnectionRefusedError:
        return "port not open"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer ({error or type(error).__name__})"
    finally:
        connection.close()


def wait(host: str, port: int, path: str, pid: int, timeout_s: float) -> int:
    """Poll until the end is known; the exit status."""
    begin, seen = time.monotonic(), ""
    born = identity(pid)
    while True:
        spent = time.monotonic() - begin
        if born is None or identity(pid) != born:
            say(f"the engine (pid {pid}) is gone after {spent:.0f} s; its last lines say why")
            return 1
        answer = ask(host, port, path, min(5.0, max(0.1, timeout_s - spent)))
        if answer != seen:
            say(f"{path}: {answer} after {spent:.0f} s")
            seen = answer
        if answer == "200":
            time.sleep(SETTLE_S)
            if identity(pid) == born:
                return 0
            continue
        if spent >= timeout_s:
            say(
                f"not ready after {timeout_s:g} s (last: {answer}); "
                "raise load_timeout_s of the recipe if it was still loading"
            )
            return 1
        # A model of 63 GB loads in 22 s at best (llama.cpp#27742): half a second is no delay.
        time.sleep(0.5)


def main(argv: list[str] | None = None) -> int:
    """0: ready. 1: not, and the last line says why."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/health")
    parser.add_argument("--timeout-s", type=float, required=True)
    # systemd sets MAINPID for ExecStartPost= (systemd.exec(5), "Environment variables").
    parser.add_argument("--pid", type=int, default=int(os.environ.get("MAINPID", "0")))
    args = parser.parse_args(argv)
    if args.pid <= 0:
        say("no process to watch: MAINPID is not set; pass --pid")
        return 1
    return wait(args.host, args.port, args.path, args.pid, args.timeout_s)


if __name__ == "__main__":
    sys.exit(main())
