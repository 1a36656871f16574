"""Proves a running unit again without touching it: questions, log, environment, weights.

Runs as `python3 -c <this text> <spec>` over SSH, with the programs that a converge installed.
SPEC: {"lib", "units": [{"unit", "ask": spec of ask.py, "env": {name: value}, "weights": spec of
weights.py or null, "deep"}], "fabric": {"mtu", "own": [address], "others": {name: [address]}} or
null}. Prints {"units": [{check: {"seen", "wrong"}}], "machine": the same of the machine itself,
"versions": {part: version}}; nothing is recorded as accepted.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Found = dict[str, dict[str, Any]]
# Which check a complaint of ask_judge belongs to; the others are about the answer itself.
OF = {"system": "system message", "loop": "long answer", "log": "log", "engine": "log",
      "unknown": "log", "driver": "driver"}  # fmt: skip


def asked(spec: dict[str, Any]) -> Found:
    """The recipe's questions and log lines, judged as after a start."""
    import ask
    import ask_journal
    import ask_judge

    try:
        said, wrong = ask.ask(spec)
    except (OSError, http.client.HTTPException, ValueError) as error:
        said, wrong = {}, [("http", f"{type(error).__name__}: {error}")]
    log = ask_journal.journal(spec)
    unsaid = list(ask_judge.unsaid(spec, log))
    lost = bool(unsaid) and not ask_journal.begins(spec)
    wrong += [*([] if lost else unsaid), *ask_judge.said(spec, log)]
    wrong += [("driver", line) for line in ask_journal.driver_errors(spec)]
    kernels = ask_journal.backends(log)
    found: Found = {"question": {"seen": repr((said.get("content") or "").strip()[:60])}}
    if spec["system"]:
        found["system message"] = {"seen": f"role {said.get('role') or 'unknown'}"}
    if spec["long_question"]:
        long = said.get("long") or {}
        found["long answer"] = {"seen": f"{long.get('characters', 0)} characters"}
    found["log"] = {"seen": "; ".join(kernels)[:200] or f"{len(log.splitlines())} lines"}
    if lost:
        found["log"] = started(spec)
    found["driver"] = {"seen": "no error of the GPU's driver since the start"}
    for item in wrong:
        row = found.setdefault(OF.get(item[0], "question"), {"seen": ""})
        row.setdefault("wrong", []).append(ask_judge.sentence(spec, item, kernels))
    return found


def started(spec: dict[str, Any]) -> dict[str, Any]:
    """The log of a start that the journal has dropped: proved then, if this start was accepted."""
    try:
        kept = json.loads(Path(spec["record"]).read_text())
        proved = all(kept[key] == spec[key] for key in ("invocation", "asked"))
    except (OSError, ValueError, KeyError, TypeError):
        proved = False
    if proved:
        return {"seen": "as wanted when this start was accepted; the journal has dropped it since"}
    why = "the journal has dropped this start; restart the unit, then converge"
    return {"seen": "", "unknown": why}


def environment(unit: str, wanted: dict[str, str]) -> Found:
    """What the process really has of the variables that keep it offline."""
    argv = ["systemctl", "show", "-p", "MainPID", "--value", unit]
    pid = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError as error:
        return {"offline": {"seen": "", "wrong": [f"cannot be read: {error.strerror}"]}}
    have = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    wrong = [f"{k} is {have.get(k, 'not set')}, not {v}" for k, v in wanted.items()
             if have.get(k) != v]  # fmt: skip
    return {"offline": {"seen": f"{len(wanted) - len(wrong)} of {len(wanted)} variables",
                        **({"wrong": wrong} if wrong else {})}}  # fmt: skip


def weights(lib: str, spec: dict[str, Any], deep: bool) -> Found:
    """The weights agent's own verdict."""
    argv = ["python3", f"{lib}/weights.py", "status", "/dev/stdin", *(["--deep"] if deep else [])]
    done = subprocess.run(argv, input=json.dumps(spec), capture_output=True, text=True, check=False)
    how = "every byte hashed" if deep else "size, time and inode as when they were hashed"
    try:
        found = json.loads(done.stdout)
        wrong = [f"missing {name}" for name in found["missing"]]
        wrong += [f"changed {name}" for name in found["changed"]]
        ok = bool(found["ok"])
    except (ValueError, KeyError, TypeError):
        wrong, ok = [done.stderr.strip()[-300:] or "the agent said nothing"], False
    seen = f"{len(spec['files'])} files, {how}"
    return {"weights": {"seen": seen, **({} if ok else {"wrong": wrong or ["no manifest"]})}}


def verify(lib: str, unit: dict[str, Any]) -> Found:
    """All checks of one unit."""
    found: Found = {}
    if unit["ask"]:
        try:
            found |= asked(unit["ask"])
        except (ImportError, AttributeError) as error:  # this text is newer than what is installed
            why = f"programs here are of another version ({error}); run `sparkwright converge`"
            found["question"] = {"seen": "", "unknown": why}
    if unit["env"]:
        found |= environment(unit["unit"], unit["env"])
    if unit["weights"]:
        found |= weights(lib, unit["weights"], unit["deep"])
    return found


def ip(*words: str) -> Any:
    """What `ip -j` says."""
    done = subprocess.run(["ip", "-j", *words], capture_output=True, text=True, check=False)
    return json.loads(done.stdout or "[]")


def echo(own: str, there: str, mtu: int) -> str | None:
    """What is wrong with one whole packet from here to there and back; None: nothing.

    28 bytes of it are the headers of IP and ICMP.
    """
    size = str(mtu - 28)
    argv = ["ping", "-q", "-c", "1", "-W", "2", "-M", "do", "-s", size, "-I", own, there]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"{there} does not answer {size} bytes in one piece from {own}" + (
        f" ({said[-1].strip()})" if said and done.returncode != 1 else ""
    )


def fabric(spec: dict[str, Any]) -> Found:
    """Own addresses on links that are up and have the MTU, and a large packet to each other one."""
    links = {a["local"]: link for link in ip("address") for a in link["addr_info"]}
    wrong = []
    for own in spec["own"]:
        link = links.get(own)
        if link is None:
            wrong.append(f"{own} is on no interface")
        elif "LOWER_UP" not in link["flags"]:
            wrong.append(f"{link['ifname']} with {own} is down")
        elif link["mtu"] != spec["mtu"]:
            wrong.append(f"{link['ifname']} has MTU {link['mtu']}, not {spec['mtu']}")
    pairs = [(own, there) for places in spec["others"].values()
             for own, there in zip(spec["own"], places, strict=True)]  # fmt: skip
    try:
        with ThreadPoolExecutor(max(1, len(pairs))) as pool:
            said = pool.map(lambda pair: echo(pair[0], pair[1], spec["mtu"]), pairs)
            wrong += [what for what in said if what]
    except FileNotFoundError:
        return {"fabric": {"seen": "", "unknown": "ping is not installed"}}
    seen = f"{len(spec['own'])} links, {len(pairs)} paths with MTU {spec['mtu']}"
    return {"fabric": {"seen": seen, **({"wrong": wrong} if wrong else {})}}


def versions() -> dict[str, str]:
    """What members of a cluster must have alike: kernel and driver (2.4 times slower otherwise, as
    a report on two Sparks says)."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        text = ""
    found = re.search(r"Kernel Module.*?([0-9]+\.[0-9.]+)", text)
    return {"kernel": os.uname().release, "driver": found[1] if found else "none"}


def main(argv: list[str]) -> int:
    """Print what was found."""
    spec = json.loads(argv[0])
    sys.path.insert(0, spec["lib"])
    with ThreadPoolExecutor(max(1, len(spec["units"]))) as pool:
        units = list(pool.map(lambda unit: verify(spec["lib"], unit), spec["units"]))
    machine = fabric(spec["fabric"]) if spec["fabric"] else {}
    print(json.dumps({"units": units, "machine": machine, "versions": versions()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
