"""One end of a short bandwidth test over every half at once: RDMA writes, else plain TCP.

Bounded in bytes and in time, and it holds a few MiB: a test with buffers of 16 GB has frozen a
Spark whose memory a model held (NVIDIA/dgx-spark-playbooks#102). Runs as
`python3 -c <this text> <spec>`:

    {"role": "serve" or "send", "rdma": true or false, "bytes": for each half, "seconds": at most,
     "wait_s": for the other end, "halves": [[own address, peer, RDMA device, port], ...]}

The sender says {"halves": [GB/s of each], "why": ["" or why there is none, ...]}.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BLOCK = 4 << 20  # one write; large enough that Python's own time does not count
MESSAGE = 1 << 20  # of ib_write_bw: bytes of one RDMA write


def receive(own: str, port: int, wait_s: float) -> float:
    """Take what comes until it ends, then say how much it was."""
    buffer, count = memoryview(bytearray(BLOCK)), 0
    with socket.create_server((own, port)) as server:
        server.settimeout(wait_s)
        link, _ = server.accept()
    with link:
        link.settimeout(wait_s)
        while size := link.recv_into(buffer):
            count += size
        link.sendall(count.to_bytes(8, "big"))
    return 0.0


def send(own: str, peer: str, port: int, spec: Mapping[str, Any]) -> float:
    """GB/s of one stream, from its first byte until the other end has it all."""
    block, sent = memoryview(bytes(BLOCK)), 0
    with _connect(own, peer, port, spec["wait_s"]) as link:
        link.settimeout(spec["wait_s"])
        began = time.monotonic()
        while sent < spec["bytes"] and time.monotonic() - began < spec["seconds"]:
            link.sendall(block)
            sent += BLOCK
        link.shutdown(socket.SHUT_WR)
        got = int.from_bytes(link.recv(8), "big")
        took = time.monotonic() - began
    if got != sent:
        raise OSError(f"{got} of {sent} bytes arrived")
    return sent / took / 1e9


def _connect(own: str, peer: str, port: int, wait_s: float) -> socket.socket:
    ends = time.monotonic() + wait_s
    while True:
        try:
            return socket.create_connection((peer, port), timeout=2, source_address=(own, 0))
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


def rdma(half: Sequence[Any], spec: Mapping[str, Any]) -> float:
    """GB/s as ib_write_bw (perftest) measures it; -R meets over the half's own addresses."""
    own, peer, device, port = half
    argv = ["ib_write_bw", "-R", "-d", device, "-p", str(port), "-s", str(MESSAGE), "-F"]
    argv += ["-n", str(max(5, spec["bytes"] // MESSAGE)), "--report_gbits"]
    argv += ["--bind_source_ip", own]
    ends = time.monotonic() + spec["wait_s"]
    while True:
        done = subprocess.run(
            argv if spec["role"] == "serve" else [*argv, peer], capture_output=True, text=True,
            check=False, timeout=spec["wait_s"] + spec["seconds"],
        )  # fmt: skip
        if done.returncode == 0:
            return average(done.stdout)
        if spec["role"] == "serve" or time.monotonic() > ends:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise OSError(f"ib_write_bw: {lines[-1]}")
        time.sleep(0.5)


def average(text: str) -> float:
    """GB/s out of ib_write_bw's table: bytes, iterations, peak, average (Gb/s), messages."""
    found = re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", text, re.M)
    if found is None:
        raise OSError("ib_write_bw: told no average")
    return float(found[1]) / 8


def one(half: Sequence[Any], spec: Mapping[str, Any]) -> tuple[float, str]:
    """One half's GB/s, or why there is none."""
    own, peer, _, port = half
    try:
        if spec["rdma"]:
            return rdma(half, spec), ""
        if spec["role"] == "serve":
            return receive(own, port, spec["wait_s"]), ""
        return send(own, peer, port, spec), ""
    except (OSError, subprocess.SubprocessError) as error:
        return 0.0, str(error)


def run(spec: Mapping[str, Any]) -> dict[str, Any]:
    """All halves at once."""
    with ThreadPoolExecutor(len(spec["halves"])) as pool:
        found = list(pool.map(lambda half: one(half, spec), spec["halves"]))
    return {"halves": [rate for rate, _ in found], "why": [why for _, why in found]}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
