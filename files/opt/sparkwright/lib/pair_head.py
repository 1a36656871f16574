"""The head's side of pair_link.py: the workers that it runs with, and a start behind them."""

from __future__ import annotations

import argparse
import json
import socket
import time

from pair_units import ASK_S, LOOK_S, LOST_S, Kept, Reply, order, say, show


def ask(address: str, port: int, question: Reply) -> Reply:
    """One question to a worker; {"wrong": why} when there is no answer."""
    try:
        with socket.create_connection((address, port), ASK_S) as connection:
            connection.settimeout(60)
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile() as lines:
                found: Reply = json.loads(lines.readline() or "{}")
    except (OSError, ValueError) as error:
        return {"wrong": f"no answer ({error})", "lost": True}
    return found or {"wrong": "no answer (it ended the connection)", "lost": True}


class Head:
    """The head's side: which worker processes this head was started with, and are they there?"""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.unit = args, args.unit
        self.bound, self.owed = Kept(args.unit, "bound"), Kept(args.unit, "owed")
        self.heard = dict.fromkeys(args.worker, time.monotonic())

    def ask_all(self, do: str, head: str) -> dict[str, Reply]:
        """Every worker's answer."""
        question = {"do": do, "head": head, "pair": self.args.pair}
        return {at: ask(at, self.args.port, question) for at in self.args.worker}

    def apart(self, found: dict[str, Reply]) -> list[str]:
        """Why these workers are not the ones that this head runs with, a phrase each."""
        bound, wrong = self.bound.read(), []
        for at, reply in found.items():
            if reply.get("lost"):
                wrong.append(f"{at}: {reply['wrong']}")
            elif reply["active"] != "active":
                wrong.append(f"{at}: {reply['unit']} is {reply['active']} ({reply['result']})")
            elif reply["invocation"] != bound.get(at):
                wrong.append(f"{at}: {reply['unit']} was started again without this head")
        return wrong

    def look(self) -> None:
        """One look: stop without the others, start again with them."""
        state = show(self.unit)["active"]
        found = self.ask_all("state", state)
        now = time.monotonic()
        self.heard |= {at: now for at, reply in found.items() if not reply.get("lost")}
        lost = [at for at in found if now - self.heard[at] > LOST_S]
        if state == "active":
            self._watch(found, lost)
        elif state in ("inactive", "failed") and self._may_start(found):
            say(f"all members are there: {self.unit} starts")
            self.owed.write({})
            order("reset-failed", self.unit)
            order("start", "--no-block", self.unit)

    def _may_start(self, found: dict[str, Reply]) -> bool:
        there = not any(reply.get("lost") for reply in found.values())
        return there and bool(self.owed.read().get("start"))

    def _watch(self, found: dict[str, Reply], lost: list[str]) -> None:
        wrong = [why for at, why in zip(found, self._whys(found), strict=True) if why]
        if lost:
            say(f"{'; '.join(wrong)}: {self.unit} stops until it is back")
            self.owed.write({"start": True})
            order("stop", "--no-block", self.unit)
        elif wrong and not any(reply.get("lost") for reply in found.values()):
            say(f"{'; '.join(wrong)}: {self.unit} starts again, workers first")
            order("restart", "--no-block", self.unit)

    def _whys(self, found: dict[str, Reply]) -> list[str]:
        return ["; ".join(self.apart({at: reply})) for at, reply in found.items()]


def gate(args: argparse.Namespace) -> int:
    """Wait until every worker runs a process for this start, and its port is open."""
    head, end, said = Head(args), time.monotonic() + args.wait_s, ""
    while True:
        found = head.ask_all("fresh", "activating")
        wrong = [why for at, reply in found.items() if (why := _not_ready(at, reply, args))]
        if not wrong:
            head.bound.write({at: reply["invocation"] for at, reply in found.items()})
            head.owed.write({})
            say(f"{len(found)} worker(s) run: the head follows")
            return 0
        if "; ".join(wrong) != said:
            said = "; ".join(wrong)
            say(said)
        if time.monotonic() > end:
            say(f"not all workers run after {args.wait_s} s; see `journalctl -u {args.unit}` there")
            return 1
        time.sleep(LOOK_S)


def _not_ready(at: str, reply: Reply, args: argparse.Namespace) -> str:
    if reply.get("wrong"):
        return f"{at}: {reply['wrong']}"
    if reply["active"] != "active":
        return f"{at}: {reply['unit']} is {reply['active']} ({reply['result']})"
    if args.engine_port:
        try:
            socket.create_connection((at, args.engine_port), ASK_S).close()
        except OSError as error:
            return f"{at}: port {args.engine_port} is not open ({error})"
    return ""


def state(args: argparse.Namespace) -> int:
    """Print {"apart": [why …], "files": {worker: pair of its unit's file}}.

    A worker that runs what its unit does not say any more counts here, and not for `look`: when it
    is replaced is a converge's to decide.
    """
    head = Head(args)
    found = head.ask_all("look", show(args.unit)["active"])
    files = {at: reply.get("file", "") for at, reply in found.items()}
    old = [f"{at}: {r['unit']} runs what its unit does not say" for at, r in found.items()
           if r.get("active") == "active" and r.get("stale")]  # fmt: skip
    print(json.dumps({"apart": [*head.apart(found), *old], "files": files}))
    return 0
