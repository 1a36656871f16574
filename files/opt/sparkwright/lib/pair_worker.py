"""A worker's side of pair_link.py: answers the head, and stops without it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

from pair_units import LOOK_S, LOST_S, Kept, Reply, mark, order, say, show


class Worker:
    """A worker's side. `given`: the process that a head has used; `heard`: when it last asked."""

    def __init__(self, unit: str) -> None:
        self.unit, self.kept = unit, Kept(unit, "given")
        self.heard, self.head, self.lock = time.monotonic(), "", threading.Lock()

    def answer(self, asked: Reply) -> Reply:
        """One answer to one question of the head."""
        with self.lock:
            self.heard, self.head = time.monotonic(), str(asked.get("head", ""))
            fresh = self._fresh(asked) if asked.get("do") == "fresh" else ""
            state = show(self.unit)
            if asked.get("do") == "fresh" and state["active"] == "active":
                self.kept.write({"invocation": state["invocation"]})
            return {**state, "given": self.kept.read().get("invocation", ""), "wrong": fresh}

    def _fresh(self, asked: Reply) -> str:
        """Have a process that no head has used; what went wrong, or nothing."""
        state = show(self.unit)
        if state["file"] != asked["pair"]:
            return f"{self.unit} is of pair {state['file'] or 'none'}, not {asked['pair']}"
        used = state["invocation"] == self.kept.read().get("invocation")
        if state["active"] == "active" and not used and not state["stale"]:
            return ""
        if state["active"] == "activating" and not used:
            return ""
        if state["active"] == "deactivating":
            # Asked every 2 s until it has ended: one order is enough, and one line of the journal.
            return ""
        say(f"the head starts: a fresh {self.unit}")
        # A head that starts is a decision: what counts starts in vain is the head's own limit.
        order("reset-failed", self.unit)
        wrong = order("restart", "--no-block", self.unit)
        if not wrong:
            mark(self.unit).unlink(missing_ok=True)
        return wrong

    def look(self) -> None:
        """Stop a process whose head is gone: half a model serves nobody and holds the memory."""
        with self.lock:
            silent = time.monotonic() - self.heard
            gone = silent > LOST_S or self.head in ("inactive", "failed")
            if not gone or not self.kept.read().get("invocation"):
                return
            if show(self.unit)["active"] in ("active", "activating"):
                why = f"silent for {silent:.0f} s" if silent > LOST_S else self.head
                say(f"the head is {why}: {self.unit} stops")
                order("stop", "--no-block", self.unit)


def listen(worker: Worker, address: str, port: int, head: str) -> None:
    """Answer the head until the end of the process; nobody else."""
    with socket.create_server((address, port)) as server:
        say(f"answers {head} at {address} port {port}")
        while True:
            connection, peer = server.accept()
            if peer[0] != head:
                say(f"{peer[0]} is not the head ({head}); not answered")
                connection.close()
                continue
            threading.Thread(target=talk, args=(worker, connection), daemon=True).start()


def talk(worker: Worker, connection: socket.socket) -> None:
    """Lines of JSON in, lines of JSON out, until the other side ends."""
    connection.settimeout(LOST_S)
    with connection, contextlib.suppress(OSError, ValueError), connection.makefile("rw") as lines:
        for line in lines:
            lines.write(json.dumps(worker.answer(json.loads(line))) + "\n")
            lines.flush()


def answer_forever(worker: Worker, own: str, port: int, head: str) -> None:
    """Listen; at a boot the fabric's address may come later than this program."""
    said = ""
    while True:
        try:
            listen(worker, own, port, head)
        except OSError as error:
            if str(error) != said:
                say(f"cannot listen on {own} port {port} ({error}); tries again")
                said = str(error)
            time.sleep(LOOK_S)
