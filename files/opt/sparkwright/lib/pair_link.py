"""Keeps the parts of one model together: several machines serve it, or none does.

`serve` runs beside the model's unit on every member. On a worker it answers the head: what the unit
does, and "give me a fresh one". On the head it watches the workers: when one is gone the head
stops, and when all are back it starts again. `gate` is a step of the head's own start: it ends when
every worker runs a process that no head has used yet, so workers are there before the head, however
that was started. `state` says in JSON whether the parts belong together now.

A worker listens on its fabric address and answers only the head's; the engines' own ports there
have no other protection either (llama.cpp's README, vLLM's "Security"). Standard library only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pair_head import Head, gate, state
from pair_units import LOOK_S, say, show
from pair_worker import Worker, answer_forever


def serve(args: argparse.Namespace) -> int:
    """Run until systemd ends it."""
    step: Callable[[], None]
    if args.head:
        worker = Worker(args.unit)
        step = worker.look
        answer = threading.Thread(
            target=answer_forever, args=(worker, args.own, args.port, args.head), daemon=True
        )
        answer.start()
    else:
        head = Head(args)
        # After a boot, and for a model that is to run: start when all are there.
        if args.start and not head.bound.read() and show(args.unit)["file"]:
            head.owed.write({"start": True})
        step = head.look
    born = _programs()
    while _programs() == born:
        try:
            step()
        except (OSError, subprocess.SubprocessError, KeyError) as error:
            say(f"cannot look ({type(error).__name__}: {error}); looks again")
        time.sleep(LOOK_S)
    say("this program was replaced: systemd starts the new one")
    return 0


def _programs() -> list[int]:
    """When each part of this program was written; a converge replaces them all."""
    here = Path(__file__).resolve().parent
    return [path.stat().st_mtime_ns for path in sorted(here.glob("pair_*.py"))]


def main(argv: list[str] | None = None) -> int:
    """0: done. 1: the workers are not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("do", choices=("serve", "gate", "state"))
    parser.add_argument("--unit", required=True, help="the model's unit, with .service")
    parser.add_argument("--port", type=int, required=True, help="of the workers' links")
    parser.add_argument("--own", default="", help="a worker's address on the fabric")
    parser.add_argument("--head", default="", help="the head's address; given on a worker")
    parser.add_argument("--worker", action="append", default=[], help="a worker's address")
    parser.add_argument("--pair", default="", help="digest that all members share")
    parser.add_argument("--engine-port", type=int, default=0, help="must be open on each worker")
    parser.add_argument("--wait-s", type=int, default=120, help="for the workers, seconds")
    parser.add_argument("--start", action="store_true", help="start the model after a boot")
    args = parser.parse_args(argv)
    return {"serve": serve, "gate": gate, "state": state}[args.do](args)


if __name__ == "__main__":
    sys.exit(main())
