"""One converge at a time: the locks of one pyinfra run, on all its machines or on none.

Taken before the first change, renewed while the run lasts, released when pyinfra disconnects, which
it does however a run ends. What a killed laptop leaves is told from a living one by its process
(sparkwright/writer.py), and by its silence.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gevent
from pyinfra import logger
from pyinfra.api import BaseStateCallback
from pyinfra.connectors.util import remove_any_sudo_askpass_file
from pyinfra.context import ctx_host

from sparkwright import per_run, report, writer
from sparkwright.facts import ask_quietly
from sparkwright.per_run import Once

Answer = Mapping[str, Any]


def writer_of(state: Any) -> Writer:
    """The locks of a run."""
    return per_run.of(state, Writer)


def lost(state: Any, host: Any) -> str:
    """Why this run may change a machine no more, or nothing; asks it only after a long silence."""
    found = per_run.known(state, Writer)
    return found.lost(host) if found else ""


class Writer(BaseStateCallback):
    """The locks of one run."""

    def __init__(self, state: Any) -> None:
        self.me = writer.holder()
        self._state = state
        self._renewed: dict[Any, float] = {}  # by the clock on the wall: it goes on in sleep
        self._lost: dict[Any, str] = {}
        self._taken = Once[dict[Any, str]]()
        state.add_callback_handler(self)

    def take(self, host: Any) -> str:
        """Take all machines' locks, whichever comes first; why a machine has none, or nothing."""
        return self._taken.get(self._take_all).get(host, "")

    def lost(self, host: Any) -> str:
        """See the function of this name."""
        since = self._renewed.get(host)
        if since is not None and time.time() - since > 2 * writer.RENEW_S:
            self._renew(host)
        return self._lost.get(host, "")

    def host_disconnect(  # type: ignore[override] # pyinfra calls it on this object
        self, state: Any, host: Any
    ) -> None:
        """pyinfra: the run is over, well or not; its SSH session still stands."""
        if self._renewed.pop(host, None) is None:
            return
        if wrong := self._call(host, "release").get("wrong"):
            logger.warning(f"{host.print_prefix}its lock stays until it is stale: {wrong}")
        remove_any_sudo_askpass_file(host)  # pyinfra's own helper for passwords, in /tmp

    def _take_all(self) -> dict[Any, str]:
        hosts = self._state.inventory.get_active_hosts()
        jobs = {host: gevent.spawn(self._take, host) for host in hosts}
        gevent.joinall(list(jobs.values()))
        found = {host: job.get() for host, job in jobs.items()}
        locked = {host: writer.text(answer["by"]) for host, answer in found.items() if answer["by"]}
        if not locked:
            gevent.spawn(self._keep)
            wrong = {host: answer["wrong"] for host, answer in found.items() if "wrong" in answer}
            return {host: f"its lock cannot be taken: {what}" for host, what in wrong.items()}
        gevent.joinall([gevent.spawn(self.host_disconnect, self._state, host) for host in hosts])
        names = ", ".join(host.name for host in locked)
        other = f"left alone, since {names} is locked: a run takes all its machines or none"
        return {host: locked.get(host, other) for host in hosts}

    def _take(self, host: Any) -> Answer:
        answer = self._call(host, "take")
        if answer["by"] and writer.dead(answer["by"], self.me):
            answer = self._call(host, "take", over=answer["by"]["run"])
        if answer["held"]:
            self._renewed[host] = time.time()
        if over := answer["over"]:
            who = f"{over.get('user')}@{over.get('host')}, since {over.get('since')}"
            report.note(host, f"{host.name}: took over the lock of a run that is gone ({who})")
        return answer

    def _keep(self) -> None:
        while True:
            gevent.sleep(writer.RENEW_S)
            gevent.joinall([gevent.spawn(self._renew, host) for host in list(self._renewed)])

    def _renew(self, host: Any) -> None:
        answer = self._call(host, "renew")
        if host in self._renewed and answer["held"]:
            self._renewed[host] = time.time()
        elif answer["by"]:
            self._lost[host] = f"this run was silent for too long; now it is {_who(answer)}"

    def _call(self, host: Any, what: str, over: str = "") -> Answer:
        spec = {"kind": "lock", "do": what, "holder": self.me, "over": over}
        try:
            with ctx_host.use(host):
                states = ask_quietly(self._state, host, [{**spec, "stale_s": writer.STALE_S}])
            answer = states[0] if states else {"error": "the machine did not answer"}
        except Exception as error:  # one machine's trouble is its own
            answer = {"error": str(error)}
        if wrong := str(answer.get("error", "")):
            return {"held": False, "by": None, "over": None, "wrong": wrong[-200:]}
        return answer


def _who(answer: Answer) -> str:
    return writer.text(answer["by"])
