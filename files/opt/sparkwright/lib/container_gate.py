"""The container of one unit around its life: cleared before, stopped, removed after.

    container_gate.py clear --name N      before the start: a left container of ours goes, one
                                          that is somebody else's refuses the start
    container_gate.py stop --name N --grace-s S
    container_gate.py remove --name N     after the end: a killed client leaves its container
Ours is what carries the label sparkwright=1. Exit 0, or 1 with a line that says why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

LABEL = '{{index .Config.Labels "sparkwright"}}'
# The engine answers in milliseconds; one that hangs must not hold a start or a stop for ever.
ANSWER_S = 30.0


def say(line: str) -> None:
    """One fact a line; flushed, since the journal shows it while we wait."""
    print(f"container_gate: {line}", flush=True)


def docker(*words: str, limit_s: float | None = None) -> tuple[int, str]:
    """Exit status and output of a docker command; 124 when it did not answer."""
    try:
        done = subprocess.run(
            ["docker", *words],
            capture_output=True,
            text=True,
            timeout=limit_s or ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"docker did not answer within {limit_s or ANSWER_S:g} s"
    return done.returncode, (done.stdout + done.stderr).strip()


def owner(name: str) -> str:
    """Whose container has the name: "ours", "foreign", "" for none, or why that is not known."""
    code, text = docker("container", "inspect", "--format", LABEL, name)
    if code == 0:
        return "ours" if text == "1" else "foreign"
    return "" if "No such container" in text else text or f"docker ended with {code}"


def remove(name: str) -> int:
    """Remove our container."""
    code, text = docker("container", "rm", "--force", name, limit_s=60.0)
    if code and "No such container" not in text and "already in progress" not in text:
        say(f"{name}: not removed: {text}")
        return 1
    return 0


def clear(name: str) -> int:
    """Make way for a start."""
    whose = owner(name)
    if whose == "ours":
        say(f"{name}: a container was left from an earlier start; it is removed")
        return remove(name)
    if whose == "foreign":
        say(f"{name}: a container of that name is not ours; rename or remove it: docker rm {name}")
        return 1
    if whose:
        say(f"docker cannot be asked: {whose}; see: systemctl status docker")
        return 1
    return 0


def main(argv: list[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("action", choices=("clear", "stop", "remove"))
    parser.add_argument("--name", required=True)
    parser.add_argument("--grace-s", type=int, default=10)
    args = parser.parse_args(argv)
    if args.action == "clear":
        return clear(args.name)
    whose = owner(args.name)
    if whose != "ours":
        return 0  # gone with its process, as it should be, or docker is gone with everything
    if args.action == "remove":
        say(f"{args.name}: its client is gone and the container was not; it is removed")
        return remove(args.name)
    code, text = docker("stop", "-t", str(args.grace_s), args.name, limit_s=args.grace_s + ANSWER_S)
    if code:
        say(f"{args.name}: not stopped: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
